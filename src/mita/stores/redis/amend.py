"""Changes that a person asks for, by job id."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from mita.model.flow import Arrival
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
)

from .codec import when_args
from .context import RedisContext, parts

_pack = msgspec.msgpack.Encoder().encode
CALL_ARRIVALS = 200  # the server does nothing else meanwhile


async def amend(context: RedisContext, ids: Sequence[str], change: Change) -> list[Answer]:
    """Apply a change to jobs. Returns one answer for each id."""
    if len(set(ids)) < len(ids):  # the second change of a job must see what the first has done
        return [answer for id in ids for answer in await _amend(context, [id], change)]
    return [answer for part in parts(ids) for answer in await _amend(context, part, change)]


async def arrive(context: RedisContext, arrivals: Sequence[Arrival]) -> list[Answer]:
    """Tell jobs how others have ended."""
    answers = [Answer.UNKNOWN] * len(arrivals)
    by_queue: dict[str, list[int]] = {}
    for at, arrival in enumerate(arrivals):
        by_queue.setdefault(arrival.queue, []).append(at)

    async def arrive_in(queue: str, places: list[int]) -> None:
        for part in parts(places, CALL_ARRIVALS):
            found = await _arrive(context, queue, [arrivals[at] for at in part])
            for at, answer in zip(part, found, strict=True):
                answers[at] = answer

    await asyncio.gather(*(arrive_in(queue, places) for queue, places in by_queue.items()))
    return answers


async def _arrive(context: RedisContext, queue: str, arrivals: list[Arrival]) -> list[Answer]:
    args = [value for one in arrivals for value in (one.receiver, one.sender, one.value, one.needs)]
    found = await context.in_queue(
        "arrive", queue, context.now(), context.keys.notify_channel, *args, repeatable=False
    )
    return [Answer(answer.decode()) for answer in found]


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
        case RewriteJob(payload, note):
            return ("rewrite", _pack(payload), "", note)
