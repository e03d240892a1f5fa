"""What a person asks of a job by its id: one transaction each."""

import asyncio
from collections.abc import Sequence
from typing import Any

from mita.model.job import State
from mita.model.outcome import Answer, Cancel, Change, Delete, Move, Rank, Revive
from mita.ports.store import ASKED
from mita.rules.states import allowed

from . import indexes
from .context import Context
from .homes import Place
from .intake import open_lines
from .records import Record, noted
from .tx import Tx, transact

AT_ONCE = 16
COUNTERS_AT_ZERO = {"attempts": 0, "reschedules": 0, "busy": 0, "interruptions": 0, "crashes": 0}
AS_IF_NEVER_RUN = dict.fromkeys(("error", "result", "finished", "expires", "stranded", "worker", "started"))


async def amend(context: Context, ids: Sequence[str], change: Change) -> list[Answer]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(id: str) -> Answer:
        async with gate:
            if isinstance(change, Rank):
                await _open_line(context, id, change.priority)
            return await transact(context, lambda tx: _amend(tx, id, change))

    if len(set(ids)) == len(ids):
        return list(await asyncio.gather(*(one(id) for id in ids)))
    return [await one(id) for id in ids]


async def _open_line(context: Context, id: str, priority: int) -> None:
    place = await Tx(context).job(id)
    if place.record is not None:
        await open_lines(context, [(place.record.queue, priority)])


async def _amend(tx: Tx, id: str, change: Change) -> Answer:
    place = await tx.job(id)
    record = place.record
    if record is None:
        return Answer.UNKNOWN
    if record.state not in allowed(change):
        return Answer.TOO_LATE
    answer = await _apply(tx, place, record, change)
    if answer is Answer.DONE:
        tx.rings.add(record.queue)
    elif answer is Answer.ASKED and isinstance(change, Cancel):
        tx.rings.add(ASKED)
    return answer


async def _apply(tx: Tx, place: Place, record: Record, change: Change) -> Answer:
    running = record.state is State.RUNNING
    match change:
        case Move() if running:
            return await _ask_to_move(tx, place, record, change)
        case Move():
            moved: dict[str, Any] = {"due": change.when.moment(tx.now), "reschedules": record.reschedules + 1}
            said = noted(record, tx.now, "rescheduled", change.note)
            await indexes.change(tx, place, state=State.QUEUED, home=0, **moved, **said)
        case Cancel() if running:
            said = noted(record, tx.now, "cancelled", change.reason)
            await indexes.change(tx, place, asked="cancel", asked_keep=change.keep, **said)
            return Answer.ASKED
        case Cancel():
            said = noted(record, tx.now, "cancelled", change.reason)
            await indexes.finish(tx, place, State.CANCELLED, change.keep, home=0, **said)
        case Revive():
            return await _revive(tx, place, record, change)
        case Rank(priority):
            await indexes.change(tx, place, priority=priority, home=0)
        case Delete():
            await indexes.give_up(tx, record)
            await indexes.change(tx, place, gone=True)
    return Answer.DONE


async def _ask_to_move(tx: Tx, place: Place, record: Record, change: Move) -> Answer:
    if record.asked == "cancel":
        return Answer.TOO_LATE
    said = noted(record, tx.now, "rescheduled", change.note)
    due = change.when.moment(tx.now)
    await indexes.change(tx, place, asked="reschedule", asked_due=due, reschedules=record.reschedules + 1, **said)
    return Answer.ASKED


async def _revive(tx: Tx, place: Place, record: Record, change: Revive) -> Answer:
    if await indexes.reserved_for(tx, record.queue, record.unique) not in (None, record.id):
        return Answer.TAKEN
    said = noted(record, tx.now, "revived")
    due = change.when.moment(tx.now)
    await indexes.change(tx, place, state=State.QUEUED, due=due, home=0, **COUNTERS_AT_ZERO, **AS_IF_NEVER_RUN, **said)
    return Answer.DONE
