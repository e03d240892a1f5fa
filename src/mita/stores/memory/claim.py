"""Claiming jobs."""

from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.job import Claim, Job, State
from mita.model.outcome import Busy, ClaimResult, Settlement, TimelineKind
from mita.model.time import Wait
from mita.rules.busy import BUSY_POLICIES, BUSY_RETENTION, busy_note, replaced_note

from .codec import to_claim
from .context import MemoryContext
from .resources import end_holds, may_run
from .settle import finish, settle
from .state.index import resource_key
from .state.memory_state import MemoryRecord

# Jobs that a claim examines at most: thousands of jobs of a busy key are blocked in several claims.
CLAIM_SCAN_JOBS = 1000


def claim(
    context: MemoryContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Claim up to `limit` due jobs, queue by queue. A job whose key is busy is blocked or ended."""
    state = context.state
    open_queues = [queue for queue in dict.fromkeys(queues) if state.queues.get(queue) is None]
    end_holds(context, open_queues)
    claims: list[Claim] = []
    examined = 0
    for queue in open_queues:
        while (
            len(claims) < limit
            and examined < CLAIM_SCAN_JOBS
            and (id := state.index.due(queue, context.now))
        ):
            examined += 1
            record = state.records[id]
            if may_run(context, record.job):
                claims.append(_start_run(context, record, lease, worker))
            else:
                _apply_busy_policy(context, record)
    again = 0 if 0 < limit <= len(claims) else _again(context, open_queues)
    return ClaimResult([], claims, again, context.busy)


def settle_and_claim(
    context: MemoryContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Settle first, so that a key that becomes free can be claimed at once."""
    took = settle(context, settlements)
    return replace(claim(context, queues, limit, lease, worker), took=took)


def _start_run(context: MemoryContext, record: MemoryRecord, lease: Wait, worker: str) -> Claim:
    """The job runs now, under a new token. Returns its claim."""
    job = context.change(
        record,
        state=State.RUNNING,
        token=record.job.token + 1,
        worker=worker,
        started=context.now,
        lease_until=context.now + lease,
    )
    return to_claim(job, context.now)


def _apply_busy_policy(context: MemoryContext, record: MemoryRecord) -> None:
    """The job's key is busy: block or end it, as its policy says."""
    job = record.job
    policy = BUSY_POLICIES[job.when_busy]
    context.busy.append(Busy(job.id, job.task, job.queue, policy.ends))
    if policy.replaces:
        _replace_others(context, job)
    assert job.resource is not None, "only a job with a key can find it busy"  # noqa: S101
    context.note(record, policy.line, busy_note(job.resource))
    if policy.ends:
        finish(context, record, policy.state, BUSY_RETENTION, busy=job.busy + 1)
    else:
        context.change(record, state=policy.state, busy=job.busy + 1)


def _replace_others(context: MemoryContext, job: Job) -> None:
    key = resource_key(job)
    assert key is not None, "only a job with a key can find it busy"  # noqa: S101
    for id in context.state.index.blocked(key):
        older = context.state.records[id]
        context.note(older, TimelineKind.REPLACED, replaced_note(job.id))
        finish(context, older, State.CANCELLED, BUSY_RETENTION)


def _again(context: MemoryContext, queues: Sequence[str]) -> Wait | None:
    """After which delay a claim may find more: when the next job is due, or a hold ends at which
    jobs wait."""
    index = context.state.index
    waited_for = set(index.waited_for())
    moments = [
        until
        for key, until in context.state.holds.items()
        if key[0] in queues and key in waited_for
    ]
    moments += [due for queue in queues if (due := index.next_due(queue)) is not None]
    return max(0, min(moments) - context.now) if moments else None
