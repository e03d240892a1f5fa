"""What a person asks of jobs by id."""

from collections.abc import Sequence
from typing import Any

from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
)

from .codec import moment
from .context import Room, parts


async def amend(room: Room, ids: Sequence[str], change: Change) -> list[Answer]:
    if len(set(ids)) < len(ids):  # the second ask of a job must see what the first has done
        return [answer for id in ids for answer in await _amend(room, [id], change)]
    return [answer for part in parts(ids) for answer in await _amend(room, part, change)]


async def _amend(room: Room, ids: Sequence[str], change: Change) -> list[Answer]:
    found = await room.by_id("amend", ids, room.now(), room.keys.bell, *_words(change), again=False)
    return [Answer(found[id][1].decode()) if id in found else Answer.UNKNOWN for id in ids]


def _words(change: Change) -> tuple[Any, ...]:
    match change:
        case RescheduleJob(when, note):
            return ("move", *moment(when), note)
        case RetryJob(when, note):
            return ("revive", *moment(when), note)
        case CancelJob(keep, reason):
            return ("cancel", keep, "", reason)
        case PrioritiseJob(priority):
            return ("rank", priority, "", "")
        case DeleteJob():
            return ("delete", "", "", "")
