"""Changes that a person asks for, by job id."""

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
    SignalJob,
)

from .codec import when_args
from .context import RedisContext, parts


async def amend(context: RedisContext, ids: Sequence[str], change: Change) -> list[Answer]:
    """Apply a change to jobs. Returns one answer for each id."""
    if len(set(ids)) < len(ids):  # the second change of a job must see what the first has done
        return [answer for id in ids for answer in await _amend(context, [id], change)]
    return [answer for part in parts(ids) for answer in await _amend(context, part, change)]


async def _amend(context: RedisContext, ids: Sequence[str], change: Change) -> list[Answer]:
    args = (context.now(), context.keys.notify_channel, *_args(change))
    found = await context.by_id("amend", ids, *args, repeatable=False)
    return [Answer(found[id][1].decode()) if id in found else Answer.UNKNOWN for id in ids]


def _args(change: Change) -> tuple[Any, ...]:
    """The change as `lua/amend.lua` reads it: its name, a number, a point in time and a note."""
    match change:
        case RescheduleJob(when, note):
            return ("reschedule", *when_args(when), note)
        case RetryJob(when, note):
            return ("retry", *when_args(when), note)
        case CancelJob(keep, reason):
            return ("cancel", keep, "", reason)
        case PrioritiseJob(priority):
            return ("prioritise", priority, "", "")
        case DeleteJob():
            return ("delete", "", "", "")
        case SignalJob(name, value):
            return ("signal", value, "", name)
