"""Claiming jobs, and taking over those of a lost worker."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mita.model.gate import Gate
from mita.model.job import Claim, Job, State
from mita.model.outcome import Busy, ClaimResult
from mita.model.time import Moment, Wait
from mita.rules.busy import BUSY_RETENTION, RATE_POLICY, busy_policy, replaced_note
from mita.rules.gates import next_token_at

from .file import Content, Level, Record
from .jobs import finish
from .keys import closed_gate, next_wake_at, open_keys, places, set_level, take_tokens, use_of
from .order import first, use_turn

SHARED = set(Job.__struct_fields__) & set(Claim.__struct_fields__)


def claim(
    content: Content, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    served = [queue for queue in dict.fromkeys(queues) if content.queues.get(queue) is None]
    open_keys(content, served)
    claims: list[Claim] = []
    busy: list[Busy] = []
    for queue in served:
        while min(limit - len(claims), places(content, queue)) > 0:
            record = first(content, queue)
            if record is None:
                break
            gate = closed_gate(content, record.job)
            if gate is None:
                use_turn(content, record.job)
                take_tokens(content, record.job)
                claims.append(take(content, record, lease, worker, started=content.now))
            else:
                busy += turn_away(content, record, gate)
    again = 0 if 0 < limit == len(claims) else next_start(content, served)
    return ClaimResult([], claims, again, busy)


def take(content: Content, record: Record, lease: Wait, worker: str, **more: Any) -> Claim:
    """Give the job to this worker, with a new token."""
    record.change(
        state=State.RUNNING,
        token=record.job.token + 1,
        worker=worker,
        lease_until=content.now + lease,
        **more,
    )
    shared = {name: getattr(record.job, name) for name in SHARED}
    return Claim(at=content.now, **shared)


def turn_away(content: Content, record: Record, gate: Gate) -> list[Busy]:
    """The job cannot pass this gate: it waits there or ends, as `rules.busy` says. Returns it, and
    the jobs that it replaces."""
    replaced: list[Busy] = []
    job, use = record.job, use_of(content, record.job.queue, gate)
    policy = busy_policy(job.when_busy, gate, use, content.now)
    set_level(content, job.queue, gate, use)
    if policy.replaces:
        for other in content.waiting((job.queue, gate.key)):
            content.note(other, "replaced", replaced_note(job.id))
            finish(content, other, State.CANCELLED, BUSY_RETENTION)
            older = other.job
            replaced.append(Busy(older.id, older.task, older.queue, ended=True, replaced=True))
    content.note(record, policy.line, policy.note(gate.key))
    if policy.ends:
        finish(content, record, policy.state, BUSY_RETENTION, busy=job.busy + 1)
    else:
        record.change(state=policy.state, busy=job.busy + 1, blocked_at=gate.key)
    return [Busy(job.id, job.task, job.queue, policy.ends, policy is RATE_POLICY), *replaced]


def next_start(content: Content, queues: Sequence[str]) -> Wait | None:
    """How long it is until a claim may find more; None: only a notification tells."""
    times = [next_wake_at(content, key) for key in content.waited_for() if key[0] in queues]
    times = [moment for moment in times if moment > content.now]
    times += [moment for queue in queues for moment in _next_of_queue(content, queue)]
    return max(0, min(times) - content.now) if times else None


def _next_of_queue(content: Content, queue: str) -> list[Moment]:
    """When the next queued job may start; nothing if only the end of a run lets it start."""
    jobs = [record.job for record in content.records.values() if record.job.queue == queue]
    due = min((job.due for job in jobs if job.state is State.QUEUED), default=None)
    limit, level = content.limits.get((queue, None)), content.levels.get((queue, None), Level())
    if due is None:
        return []
    if limit is None or due > content.now:
        return [due]
    if limit.concurrency is not None and len(content.holders((queue, None))) >= limit.concurrency:
        return []
    return [next_token_at(limit, level.tat_us, content.now)]


def reap(content: Content, limit: int, lease: Wait, worker: str) -> list[Claim]:
    """Take over the jobs whose lease is over."""
    over = [
        record
        for record in content.records.values()
        if record.job.state is State.RUNNING and (record.job.lease_until or 0) <= content.now
    ]
    over.sort(key=lambda record: (record.job.lease_until or 0, record.age))
    return [
        replace(take(content, record, lease, worker), lost=lost)
        for record in over[:limit]
        for lost in [record.job.worker]
    ]
