"""Changing jobs by id: reschedule, cancel, retry, prioritise, delete, signal, rewrite."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.flow import Arrival
from mita.model.job import Asked, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    RewriteJob,
    SignalJob,
    TimelineKind,
)
from mita.ports.store import ASKED
from mita.rules.asked import may_ask
from mita.rules.durable import arrival_name, signal_name, wait_name
from mita.rules.durable import arrivals as count_arrivals
from mita.rules.gates import keys_of
from mita.rules.states import DEAD, allowed
from mita.stores.shared.ids import without_repeats
from mita.stores.shared.record import COUNTERS

from . import unique
from .codec import NatsJob, timeline_with
from .context import NatsContext
from .once import check_room, check_room_for_arguments
from .stream.consumers import ensure_consumers
from .stream.decode import is_unreadable
from .stream.job_changes import change as change_job
from .stream.job_changes import finish
from .stream.job_records import LocatedJob, locate
from .stream.partition import in_parallel
from .stream.slots import slot_of
from .stream.together import act_together
from .stream.transaction import AboutToFire, StreamTransaction, transact

# A job takes up to five messages, and a batch has at most a thousand.
AMEND_BATCH_JOBS = 150
AMEND_PLAIN_JOBS = 500  # that are read, and then written, together
COUNTERS_AT_ZERO = dict.fromkeys(COUNTERS, 0)
AS_IF_NEVER_RUN = dict.fromkeys(
    ("error", "result", "finished", "expires", "stranded", "worker", "started", "group")
)


async def amend(context: NatsContext, ids: Sequence[str], change: Change) -> list[Answer]:
    """Change jobs. Returns an answer for each id, in the same order."""
    answers: list[Answer] = []
    for some in without_repeats(ids):
        found = await _amend_all(context, some, change)
        answers += [found[id] for id in some]
    return answers


async def _amend_all(context: NatsContext, ids: Sequence[str], wanted: Change) -> dict[str, Answer]:
    """Change many jobs, some at a time and several times some in parallel. A job without keys is
    one write. Jobs with the same key are changed in one transaction, so that no two of them write
    the same record."""
    if len(ids) == 1 and not isinstance(wanted, PrioritiseJob):
        return {ids[0]: (await _amend_together(context, [ids[0]], wanted))[0]}
    found: dict[str, Answer] = {}
    keyed: dict[str, NatsJob] = {}

    async def amend_some(some: Sequence[str]) -> None:
        located = await locate(context, some)
        records = {id: one.record for id, one in located.items() if one.record is not None}
        if isinstance(wanted, PrioritiseJob):
            moved = [replace(record, priority=wanted.priority) for record in records.values()]
            await ensure_consumers(context, {(record.queue, slot_of(record)) for record in moved})
        with_keys = {id: record for id, record in records.items() if _shared_keys(record)}
        keyed.update(with_keys)
        plain = {id: one for id, one in located.items() if id not in with_keys}
        found.update(
            await act_together(context, plain, lambda tx, one: _amend_one(tx, one, wanted))
        )

    async def amend_part(part: list[str]) -> None:
        found.update(zip(part, await _amend_together(context, part, wanted), strict=True))

    parts = iter([ids[at : at + AMEND_PLAIN_JOBS] for at in range(0, len(ids), AMEND_PLAIN_JOBS)])

    async def amend_next() -> None:
        for part in parts:
            await amend_some(part)

    await asyncio.gather(amend_next(), amend_next())
    in_order = [id for id in ids if id in keyed]
    await in_parallel(in_order, lambda one: _shared_keys(keyed[one]), AMEND_BATCH_JOBS, amend_part)
    return found


def _shared_keys(record: NatsJob) -> Collection[tuple[str, str]]:
    """Jobs whose changes may write the same records have a value in common."""
    keys = [(record.queue, key) for key in keys_of(record.resource, record.gates)]
    if record.unique is not None:
        keys.append((record.queue, record.unique))
    return keys


async def _amend_together(context: NatsContext, ids: list[str], wanted: Change) -> list[Answer]:
    """Change all in one transaction. If that fails because of one of them (another writer changes
    it, its schedule is about to fire, or it does not fit), change each half by itself."""
    if len(ids) == 1:
        return [await transact(context, lambda tx: _amend_one(tx, ids[0], wanted))]
    tx = StreamTransaction(context)
    try:
        await _read_ahead(tx, ids)
        answers = [await _amend_one(tx, id, wanted) for id in ids]
        if await tx.commit():
            return answers
    except (AboutToFire, Rejected):
        pass
    half = len(ids) // 2
    return [
        answer
        for part in (ids[:half], ids[half:])
        for answer in await _amend_together(context, part, wanted)
    ]


async def _read_ahead(tx: StreamTransaction, ids: Sequence[str]) -> None:
    """Read what the changes need, in two requests for all of them."""
    subjects, wanted = tx.context.subjects, list[str]()
    for located in await tx.jobs(ids):
        if (record := located.record) is None:
            continue
        queue, key = record.queue, record.blocked_at
        if key is not None:
            wanted.append(subjects.resource_key(queue, key))
            wanted.append(subjects.waiter(queue, key, record.priority, record.id))
        if record.unique is not None:
            wanted.append(subjects.unique(queue, record.unique))
    await tx.read(wanted)


async def _amend_one(tx: StreamTransaction, id: str, wanted: Change) -> Answer:
    located = await tx.job(id)
    record = located.record
    if record is None:
        return Answer.UNKNOWN
    if isinstance(wanted, RetryJob | RewriteJob) and is_unreadable(record):
        return Answer.UNREADABLE
    if record.state not in allowed(wanted):
        return Answer.TOO_LATE
    if record.state is State.RUNNING and isinstance(wanted, RescheduleJob | CancelJob):
        return await _ask(tx, located, record, wanted)
    answer = await _apply(tx, located, record, wanted)
    if answer is Answer.DONE:
        tx.wakeups.add(record.queue)
    return answer


async def _ask(
    tx: StreamTransaction, located: LocatedJob, record: NatsJob, wanted: RescheduleJob | CancelJob
) -> Answer:
    """Note what is asked of a running job; it takes effect when the run ends."""
    if isinstance(wanted, CancelJob):
        tx.wakeups.add(ASKED)
        entry = timeline_with(record, tx.now, TimelineKind.CANCELLED, wanted.reason)
        await change_job(tx, located, asked=Asked.CANCEL, asked_keep=wanted.keep, **entry)
        return Answer.ASKED
    if not may_ask(record.asked, Asked.RESCHEDULE):
        return Answer.TOO_LATE
    entry = timeline_with(record, tx.now, TimelineKind.RESCHEDULED, wanted.note)
    await change_job(
        tx,
        located,
        asked=Asked.RESCHEDULE,
        asked_due=wanted.when.moment(tx.now),
        reschedules=record.reschedules + 1,
        **entry,
    )
    return Answer.ASKED


async def _apply(
    tx: StreamTransaction, located: LocatedJob, record: NatsJob, wanted: Change
) -> Answer:
    match wanted:
        case RescheduleJob() if record.state in DEAD:
            return await _retry(tx, located, record, RetryJob(wanted.when, wanted.note))
        case RescheduleJob():
            moved: dict[str, Any] = {
                "due": wanted.when.moment(tx.now),
                "reschedules": record.reschedules + 1,
                "blocked_at": None,
            }
            entry = timeline_with(record, tx.now, TimelineKind.RESCHEDULED, wanted.note)
            await change_job(tx, located, state=State.QUEUED, **moved, **entry)
        case CancelJob():
            entry = timeline_with(record, tx.now, TimelineKind.CANCELLED, wanted.reason)
            await finish(tx, located, State.CANCELLED, wanted.keep, record_seq=0, **entry)
        case RetryJob():
            return await _retry(tx, located, record, wanted)
        case PrioritiseJob(priority):
            await change_job(tx, located, priority=priority)
        case SignalJob():
            return await _signal(tx, located, record, wanted)
        case RewriteJob(payload, note):
            check_room_for_arguments(tx.context, record, payload)
            entry = timeline_with(record, tx.now, TimelineKind.AMENDED, note)
            await change_job(tx, located, payload=payload, **entry)
        case DeleteJob():
            await unique.release(tx, record)
            await change_job(tx, located, gone=True)
    return Answer.DONE


async def arrive(context: NatsContext, arrivals: Sequence[Arrival]) -> list[Answer]:
    """Tell jobs how others have ended. All are read together and written together; arrivals at one
    job are one change of it."""
    receivers: dict[str, list[int]] = {}
    for at, arrival in enumerate(arrivals):
        receivers.setdefault(arrival.receiver, []).append(at)
    found = await act_together(
        context,
        await locate(context, receivers),
        lambda tx, one: _arrive(tx, [arrivals[at] for at in receivers[one]]),
    )
    answers = [Answer.UNKNOWN] * len(arrivals)
    for id, places in receivers.items():
        for at, answer in zip(places, found[id], strict=True):
            answers[at] = answer
    return answers


async def _arrive(tx: StreamTransaction, arrivals: list[Arrival]) -> list[Answer]:
    """Tell one job how others have ended."""
    located = await tx.job(arrivals[0].receiver)
    record = located.record
    if record is None:
        return [Answer.UNKNOWN] * len(arrivals)
    if record.state is State.SUCCEEDED or is_unreadable(record):
        return [Answer.TOO_LATE] * len(arrivals)
    values, answers = dict(record.once_values), list[Answer]()
    for arrival in arrivals:
        name = arrival_name(arrival.sender)
        answers.append(Answer.TAKEN if name in values else Answer.DONE)
        if name not in values:
            check_room(tx.context, record, name, arrival.value)
            values[name] = arrival.value
    if Answer.DONE not in answers:
        return answers
    changes: dict[str, Any] = {"once_values": values}
    if record.state is State.QUEUED and count_arrivals(values) >= arrivals[0].needs:
        changes["due"] = min(record.due, tx.now)
        tx.wakeups.add(record.queue)
    await change_job(tx, located, **changes)
    return answers


async def _signal(
    tx: StreamTransaction, located: LocatedJob, record: NatsJob, wanted: SignalJob
) -> Answer:
    name, values = signal_name(wanted.name), record.once_values
    if name in values:
        return Answer.TAKEN
    check_room(tx.context, record, name, wanted.value)
    changes: dict[str, Any] = {"once_values": {**values, name: wanted.value}}
    changes |= timeline_with(record, tx.now, TimelineKind.SIGNALLED, wanted.name)
    if record.state is State.QUEUED and wait_name(wanted.name) in values:
        changes["due"] = min(record.due, tx.now)
    await change_job(tx, located, **changes)
    return Answer.DONE


async def _retry(
    tx: StreamTransaction, located: LocatedJob, record: NatsJob, wanted: RetryJob
) -> Answer:
    if await unique.holder(tx, record.queue, record.unique) not in (None, record.id):
        return Answer.TAKEN
    entry = timeline_with(record, tx.now, TimelineKind.REVIVED, wanted.note)
    await change_job(
        tx,
        located,
        state=State.QUEUED,
        due=wanted.when.moment(tx.now),
        **COUNTERS_AT_ZERO,
        **AS_IF_NEVER_RUN,
        **entry,
    )
    return Answer.DONE
