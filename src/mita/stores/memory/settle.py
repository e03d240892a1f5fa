"""Settling jobs after their runs."""

from collections.abc import Sequence
from typing import Any

from mita.model.job import Job, State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import Wait
from mita.rules.asked import in_time, kind_after, state_after
from mita.rules.durable import signal_name
from mita.rules.gates import keys_of
from mita.rules.states import TERMINAL
from mita.stores.shared.apart import named

from . import unique
from .context import MemoryContext
from .resources import free_keys_of, give_back, hold_key
from .state.memory_state import MemoryRecord


def settle(context: MemoryContext, settlements: Sequence[Settlement]) -> list[bool]:
    """Apply verdicts. False: the claim is not valid any more, and nothing was changed. Raises
    `Rejected` with the positions of the jobs that are too large; the others are settled."""
    took: list[bool] = []
    rejected: dict[int, str] = {}
    room = context.room
    for at, settlement in enumerate(settlements):
        size = size_of(settlement)
        if room is not None and size > room and context.held_by(settlement.claim) is not None:
            rejected[at] = (
                f"a job of {size:,} bytes is more than this store has room for ({room:,})"
            )
        took.append(at not in rejected and settle_one(context, settlement))
    if rejected:
        raise named(took, rejected)
    return took


def size_of(settlement: Settlement) -> int:
    """The bytes of the arguments and the result."""
    return len(settlement.claim.payload) + len(settlement.verdict.result or b"")


def settle_one(context: MemoryContext, settlement: Settlement) -> bool:
    """Apply one verdict, if the claim is still valid."""
    record, verdict = context.held_by(settlement.claim), settlement.verdict
    if record is None:
        return False
    if kind := kind_after(record.job.asked, verdict):
        worker = verdict.worker or record.job.worker
        context.note(record, kind, verdict.note, worker, verdict.failure)
    queue, keys = record.job.queue, keys_of(record.job.resource, record.job.gates)
    if verdict.unstarted:
        give_back(context, record.job)
    move(context, record, verdict, changes_of(context, record.job, verdict))
    if keys and verdict.hold is not None:
        hold_key(context, (queue, keys[0]), verdict.hold.moment(context.now))
        keys = keys[1:]
    free_keys_of(context, queue, keys)
    if queue in context.state.queue_limits:
        context.topics.add(queue)
    return True


def changes_of(context: MemoryContext, job: Job, verdict: Verdict) -> dict[str, Any]:
    """The fields that a verdict changes, no matter which state follows."""
    since = context.now if job.stranded is None else job.stranded
    changes: dict[str, Any] = {"stranded": since if verdict.stranded else None}
    if verdict.counts is not None:
        changes[verdict.counts.value] = getattr(job, verdict.counts.value) + 1
    if verdict.error is not None:
        changes["error"] = verdict.error
    return changes


def move(
    context: MemoryContext, record: MemoryRecord, verdict: Verdict, changes: dict[str, Any]
) -> None:
    """Bring a job into the state after its run."""
    job = record.job
    asked = in_time(job.asked, verdict)
    state = state_after(asked, verdict)
    if state in TERMINAL:
        result = verdict.result if state is State.SUCCEEDED else None
        keep = record.asked_keep if asked else verdict.keep
        group = verdict.group if state is State.FAILED else None
        finish(context, record, state, keep, result=result, group=group, **changes)
        return
    if asked:
        due = record.asked_due
    elif verdict.waits is not None and signal_name(verdict.waits) in record.once_values:
        due = context.now
    else:
        due = job.due if verdict.when is None else verdict.when.moment(context.now)
    if state is State.BLOCKED:  # it waits at the key that it puts on hold
        changes["blocked_at"] = keys_of(job.resource, job.gates)[0]
    context.change(
        record, state=state, due=due, lease_until=None, worker=None, asked=None, **changes
    )
    context.topics.add(job.queue)


def finish(
    context: MemoryContext, record: MemoryRecord, state: State, keep: Wait, **changes: Any
) -> None:
    """Bring a job into a terminal state."""
    job = context.change(
        record,
        state=state,
        finished=context.now,
        expires=context.now + keep,
        lease_until=None,
        asked=None,
        blocked_at=None,
        **changes,
    )
    unique.free(context, job)
    if keep == 0:
        context.delete(record)
