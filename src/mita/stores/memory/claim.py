"""Claiming jobs."""

from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.gate import MOST_HOLDERS, Gate
from mita.model.job import Claim, Job, State
from mita.model.outcome import Busy, ClaimResult, Settlement, TimelineKind
from mita.model.time import Moment, Wait
from mita.rules.busy import BUSY_RETENTION, RATE_POLICY, busy_policy, replaced_note
from mita.rules.gates import after_starts, next_token_at, places
from mita.stores.shared.told import not_done, told_by

from .amend import arrive, check_arrivals
from .codec import to_claim
from .context import MemoryContext
from .resources import closed_gate, next_wake_at, open_keys, pass_gates, set_level, use_of
from .settle import finish, settle, size_of
from .state.memory_state import MemoryRecord

# Jobs that a claim examines at most: thousands of jobs of a busy key are blocked in several claims.
CLAIM_SCAN_JOBS = 1000


def claim(
    context: MemoryContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Claim up to `limit` due jobs, queue by queue. A job whose key is busy is blocked or ended."""
    state = context.state
    open_queues = [queue for queue in dict.fromkeys(queues) if state.queues.get(queue) is None]
    open_keys(context, open_queues)
    claims: list[Claim] = []
    examined = 0
    for queue in open_queues:
        ready, places = state.index.of_queue(queue), _places(context, queue)
        while (
            min(limit - len(claims), places) > 0
            and examined < CLAIM_SCAN_JOBS
            and (id := ready.first(context.now, context.ageing))
        ):
            examined += 1
            record = state.records[id]
            gate = closed_gate(context, record.job)
            if gate is None:
                claims.append(_start_run(context, record, lease, worker))
                places -= 1
            else:
                _apply_busy_policy(context, record, gate)
    again = 0 if 0 < limit <= len(claims) else _again(context, open_queues)
    return ClaimResult([], claims, again, context.busy)


def _places(context: MemoryContext, queue: str) -> int:
    """How many more jobs of this queue its limit lets start now."""
    state = context.state
    limit = state.queue_limits.get(queue)
    if limit is None:
        return MOST_HOLDERS
    return places(limit, state.index.running(queue), state.queue_levels.get(queue, 0), context.now)


def _check_all(context: MemoryContext, settlements: Sequence[Settlement]) -> None:
    """Raises Rejected if the store has no room for one of these, before anything is written."""
    room = context.room
    check_arrivals(context, told_by(settlements, [True] * len(settlements)))
    if room is not None and any(size_of(one) > room for one in settlements):
        raise Rejected(f"a job is larger than this store has room for ({room:,} bytes)")


def settle_and_claim(
    context: MemoryContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Settle first, so that a key that becomes free can be claimed at once."""
    if any(one.arrivals for one in settlements):
        _check_all(context, settlements)
    took = settle(context, settlements)
    told = told_by(settlements, took)
    untold = not_done(told, arrive(context, told))
    return replace(claim(context, queues, limit, lease, worker), took=took, untold=untold)


def _start_run(context: MemoryContext, record: MemoryRecord, lease: Wait, worker: str) -> Claim:
    """The job runs now, under a new token. Returns its claim."""
    state, queue = context.state, record.job.queue
    state.index.of_queue(queue).start(record.job.id)
    pass_gates(context, record.job)
    if (limit := state.queue_limits.get(queue)) is not None and limit.interval_us:
        level_us = state.queue_levels.get(queue, 0)
        state.queue_levels[queue] = after_starts(limit, level_us, context.now, 1)
    job = context.change(
        record,
        state=State.RUNNING,
        token=record.job.token + 1,
        worker=worker,
        started=context.now,
        lease_until=context.now + lease,
    )
    return to_claim(job, context.now)


def _apply_busy_policy(context: MemoryContext, record: MemoryRecord, gate: Gate) -> None:
    """The job cannot pass this gate: block or end it, as its policy says."""
    job, use = record.job, use_of(context, (record.job.queue, gate.key))
    policy = busy_policy(job.when_busy, gate, use, context.now)
    if gate.interval_us:
        set_level(context, (job.queue, gate.key), gate, use)
    context.busy.append(Busy(job.id, job.task, job.queue, policy.ends, policy is RATE_POLICY))
    if policy.replaces:
        _replace_others(context, job, gate.key)
    context.note(record, policy.line, policy.note(gate.key))
    if policy.ends:
        finish(context, record, policy.state, BUSY_RETENTION, busy=job.busy + 1)
    else:
        context.change(record, state=policy.state, busy=job.busy + 1, blocked_at=gate.key)


def _replace_others(context: MemoryContext, job: Job, key: str) -> None:
    for id in context.state.index.blocked((job.queue, key)):
        older = context.state.records[id]
        context.note(older, TimelineKind.REPLACED, replaced_note(job.id))
        finish(context, older, State.CANCELLED, BUSY_RETENTION)
        replaced = Busy(id, older.job.task, older.job.queue, ended=True, replaced=True)
        context.busy.append(replaced)


def _again(context: MemoryContext, queues: Sequence[str]) -> Wait | None:
    """After which delay a claim may find more: when the next job is due, or the clock opens a key
    at which jobs wait."""
    index = context.state.index
    moments = [next_wake_at(context, key) for key in index.waited_for() if key[0] in queues]
    moments += [_next_start(context, queue) for queue in queues]
    waits = [max(0, moment - context.now) for moment in moments if moment is not None]
    return min(waits, default=None)


def _next_start(context: MemoryContext, queue: str) -> Moment | None:
    """When a queued job of this queue may start, as far as the clock can tell."""
    state, now = context.state, context.now
    due, limit = state.index.of_queue(queue).next_due(), state.queue_limits.get(queue)
    if due is None or limit is None:
        return due
    if limit.concurrency is not None and state.index.running(queue) >= limit.concurrency:
        return due if due > now else None  # the end of a run is a notification
    if not limit.interval_us:
        return due
    return max(due, next_token_at(limit, state.queue_levels.get(queue, 0), now))
