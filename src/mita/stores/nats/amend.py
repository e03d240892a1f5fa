"""What a person asks of jobs by id."""

from collections.abc import Sequence
from typing import Any

from mita.errors import Rejected
from mita.model.job import State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
)
from mita.ports.store import ASKED
from mita.rules.states import DEAD, allowed
from mita.stores.shared.ids import without_repeats

from . import indexes
from .codec import Record, noted
from .context import Context
from .enqueue import open_lines
from .job_records import Place, locate
from .partition import side_by_side
from .reading import is_unreadable
from .tx import AboutToFire, Tx, transact

TOGETHER = 150  # jobs in one batch: each is up to five messages of the thousand a batch may have
COUNTERS_AT_ZERO = {"attempts": 0, "reschedules": 0, "busy": 0, "interruptions": 0, "crashes": 0}
AS_IF_NEVER_RUN = dict.fromkeys(
    ("error", "result", "finished", "expires", "stranded", "worker", "started")
)


async def amend(context: Context, ids: Sequence[str], change: Change) -> list[Answer]:
    answers: list[Answer] = []
    for some in without_repeats(ids):
        found = await _amend_all(context, some, change)
        answers += [found[id] for id in some]
    return answers


async def _amend_all(context: Context, ids: Sequence[str], change: Change) -> dict[str, Answer]:
    """Many in one transaction, and several transactions side by side. Jobs of one key are in one of
    them, so that two transactions do not write to the same records."""
    if len(ids) == 1 and not isinstance(change, PrioritiseJob):
        return {ids[0]: (await _amend_together(context, [ids[0]], change))[0]}
    places = await locate(context, ids)
    records = {id: place.record for id, place in places.items()}
    if isinstance(change, PrioritiseJob):
        await open_lines(
            context,
            sorted({(record.queue, change.priority) for record in records.values() if record}),
        )
    found: dict[str, Answer] = {}

    async def amend_some(part: list[str]) -> None:
        found.update(zip(part, await _amend_together(context, part, change), strict=True))

    await side_by_side(ids, lambda one: _meets(one, records[one]), TOGETHER, amend_some)
    return found


def _meets(id: str, record: Record | None) -> tuple[str, ...]:
    """Jobs whose changes may write to the same records have this in common."""
    key = None if record is None else record.resource or record.unique
    return (id,) if record is None or key is None else (record.queue, key)


async def _amend_together(context: Context, ids: list[str], change: Change) -> list[Answer]:
    """One transaction for all. When one of them is in the way of the others, because somebody else
    changes it, its time is about to come, or it does not fit, each half is tried by itself."""
    if len(ids) == 1:
        return [await transact(context, lambda tx: _amend(tx, ids[0], change))]
    tx = Tx(context)
    try:
        await _read_ahead(tx, ids)
        answers = [await _amend(tx, id, change) for id in ids]
        if await tx.commit():
            return answers
    except (AboutToFire, Rejected):
        pass
    half = len(ids) // 2
    return [
        answer
        for part in (ids[:half], ids[half:])
        for answer in await _amend_together(context, part, change)
    ]


async def _read_ahead(tx: Tx, ids: Sequence[str]) -> None:
    """What the changes will ask for, in two reads for all of them."""
    subjects: list[str] = []
    for place in await tx.jobs(ids):
        if (record := place.record) is None:
            continue
        if record.resource is not None:
            subjects.append(tx.context.subjects.key(record.queue, record.resource))
        if record.state is State.BLOCKED and record.resource is not None:
            subjects.append(
                tx.context.subjects.waiter(
                    record.queue, record.resource, record.priority, record.id
                )
            )
        if record.unique is not None:
            subjects.append(tx.context.subjects.unique(record.queue, record.unique))
    await tx.see(subjects)


async def _amend(tx: Tx, id: str, change: Change) -> Answer:
    place = await tx.job(id)
    record = place.record
    if record is None:
        return Answer.UNKNOWN
    if isinstance(change, RetryJob) and is_unreadable(record):
        return Answer.UNREADABLE
    if record.state not in allowed(change):
        return Answer.TOO_LATE
    answer = await _apply(tx, place, record, change)
    if answer is Answer.DONE:
        tx.rings.add(record.queue)
    elif answer is Answer.ASKED and isinstance(change, CancelJob):
        tx.rings.add(ASKED)
    return answer


async def _apply(tx: Tx, place: Place, record: Record, change: Change) -> Answer:
    running = record.state is State.RUNNING
    match change:
        case RescheduleJob() if running:
            return await _ask_to_move(tx, place, record, change)
        case RescheduleJob() if record.state in DEAD:
            return await _revive(tx, place, record, RetryJob(change.when, change.note))
        case RescheduleJob():
            moved: dict[str, Any] = {
                "due": change.when.moment(tx.now),
                "reschedules": record.reschedules + 1,
            }
            said = noted(record, tx.now, "rescheduled", change.note)
            await indexes.change(tx, place, state=State.QUEUED, home=0, **moved, **said)
        case CancelJob() if running:
            said = noted(record, tx.now, "cancelled", change.reason)
            await indexes.change(tx, place, asked="cancel", asked_keep=change.keep, **said)
            return Answer.ASKED
        case CancelJob():
            said = noted(record, tx.now, "cancelled", change.reason)
            await indexes.finish(tx, place, State.CANCELLED, change.keep, home=0, **said)
        case RetryJob():
            return await _revive(tx, place, record, change)
        case PrioritiseJob(priority):
            await indexes.change(tx, place, priority=priority, home=0)
        case DeleteJob():
            await indexes.give_up(tx, record)
            await indexes.change(tx, place, gone=True)
    return Answer.DONE


async def _ask_to_move(tx: Tx, place: Place, record: Record, change: RescheduleJob) -> Answer:
    if record.asked == "cancel":
        return Answer.TOO_LATE
    said = noted(record, tx.now, "rescheduled", change.note)
    due = change.when.moment(tx.now)
    await indexes.change(
        tx, place, asked="reschedule", asked_due=due, reschedules=record.reschedules + 1, **said
    )
    return Answer.ASKED


async def _revive(tx: Tx, place: Place, record: Record, change: RetryJob) -> Answer:
    if await indexes.reserved_for(tx, record.queue, record.unique) not in (None, record.id):
        return Answer.TAKEN
    said = noted(record, tx.now, "revived", change.note)
    due = change.when.moment(tx.now)
    await indexes.change(
        tx,
        place,
        state=State.QUEUED,
        due=due,
        home=0,
        **COUNTERS_AT_ZERO,
        **AS_IF_NEVER_RUN,
        **said,
    )
    return Answer.DONE
