"""Handing jobs over: to a worker that asks, and to an heir when a worker was lost."""

from collections.abc import Sequence
from operator import attrgetter

from msgspec.structs import replace

from mita.model.job import Asked, Claim, Job, State
from mita.model.outcome import Busy, ClaimResult, Held, TimelineKind
from mita.model.time import Moment, Wait
from mita.rules.busy import BUSY_POLICIES, BUSY_RETENTION, busy_note, replaced_note
from mita.stores.shared import record as fields

from .context import Act, Record
from .index import place
from .resources import end_holds, free_keys, may_run
from .settle import finish

# in one claim: a hot key is blocked away piece by piece, and others get their turn in between
MOST_LOOKED_AT = 1000


def claim(act: Act, queues: Sequence[str], limit: int, lease: Wait, worker: str) -> ClaimResult:
    going = [queue for queue in dict.fromkeys(queues) if act.state.queues.get(queue) is None]
    end_holds(act, going)
    claims: list[Claim] = []
    looked_at = 0
    for queue in going:
        while (
            len(claims) < limit
            and looked_at < MOST_LOOKED_AT
            and (id := act.state.index.due(queue, act.now))
        ):
            looked_at += 1
            record = act.state.records[id]
            if may_run(act, record.job):
                claims.append(_hand_over(act, record, lease, worker))
            else:
                _turn_away(act, record)
    return ClaimResult([], claims, 0 if 0 < limit <= len(claims) else _again(act, going), act.busy)


def _hand_over(act: Act, record: Record, lease: Wait, worker: str) -> Claim:
    job = act.change(
        record,
        state=State.RUNNING,
        token=record.job.token + 1,
        worker=worker,
        started=act.now,
        lease_until=act.now + lease,
    )
    return _as_claim(job, act.now)


def _turn_away(act: Act, record: Record) -> None:
    """The job's key is busy: block or end it, as its policy says."""
    job = record.job
    policy = BUSY_POLICIES[job.when_busy]
    act.busy.append(Busy(job.id, job.task, job.queue, policy.ends))
    if policy.replaces:
        _replace_others(act, job)
    assert job.resource is not None, "only a job with a key can find it busy"  # noqa: S101
    act.note(record, policy.line, busy_note(job.resource))
    if policy.ends:
        finish(act, record, policy.state, BUSY_RETENTION, busy=job.busy + 1)
    else:
        act.change(record, state=policy.state, busy=job.busy + 1)


def _replace_others(act: Act, job: Job) -> None:
    where = place(job)
    assert where is not None, "only a job with a key can find it busy"  # noqa: S101
    for id in act.state.index.blocked(where):
        older = act.state.records[id]
        act.note(older, TimelineKind.REPLACED, replaced_note(job.id))
        finish(act, older, State.CANCELLED, BUSY_RETENTION)


def _again(act: Act, queues: Sequence[str]) -> Wait | None:
    """When there may be more: the next due job, or the end of a hold that somebody waits for."""
    waited_for = set(act.state.index.waited_for())
    moments = [
        until
        for where, until in act.state.holds.items()
        if where[0] in queues and where in waited_for
    ]
    moments += [due for queue in queues if (due := act.state.index.next_due(queue)) is not None]
    return max(0, min(moments) - act.now) if moments else None


_claim_values = attrgetter(*fields.CLAIM)


def _as_claim(job: Job, at: Moment) -> Claim:
    return Claim(at=at, **dict(zip(fields.CLAIM, _claim_values(job), strict=True)))


def extend(act: Act, claim: Claim, lease: Wait) -> Held:
    record = act.held_by(claim)
    if record is None:
        return Held.LOST
    job = act.change(record, lease_until=act.now + lease)
    return Held.CANCEL if job.asked is Asked.CANCEL else Held.HELD


def reap(act: Act, limit: int, lease: Wait, worker: str) -> list[Claim]:
    """The heir gets a token of its own, so that whatever the lost worker still says is refused."""
    end_holds(act)
    free_keys(act)
    claims = []
    for id in act.state.index.leases.until(act.now)[:limit]:
        record = act.state.records[id]
        lost = record.job.worker
        job = act.change(
            record, token=record.job.token + 1, worker=worker, lease_until=act.now + lease
        )
        claims.append(replace(_as_claim(job, act.now), lost=lost))
    return claims
