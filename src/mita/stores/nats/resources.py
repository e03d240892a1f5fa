"""Who waits at resource keys, and whose turn it is.

A line is read whole, since its order is not that of arrival; of a very long one only the head.
Whoever frees many keys at once reads the lines of all of them, and the jobs at their heads, in a
few questions that go out together."""

import asyncio
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import Moment

from .codec import Waiter
from .indexes import change, key_of, on_hold, put_queue, queue_of
from .job_records import Place
from .reading import read_waiter
from .reads import Found, TooMany
from .tx import Tx

SOME = 20
# waiters: half of what the server gives in one answer, for those that left a moment ago are in it
# too
IN_ONE_QUESTION = 500


async def line_of(tx: Tx, queue: str, key: str) -> list[Waiter]:
    """Who waits for a key, first in line first. Of a very long line only the head of its highest
    priority."""
    line = tx.context.subjects.waiters(queue, key)
    found, exact = (tx.lines[line], True) if line in tx.lines else await messages_of(tx, queue, key)
    bodies = {message.subject: message.body for message in found}
    bodies.update(tx.puts(line.removesuffix("*.*")))
    waiters = [read_waiter(body, subject) for subject, body in bodies.items() if body]
    waiters.sort(
        key=lambda one: (-one.priority, one.due, one.age) if exact else (-one.priority, 0, 0)
    )
    return waiters


async def messages_of(tx: Tx, queue: str, key: str) -> tuple[list[Found], bool]:
    """A line as it is stored, and whether that is all of it."""
    try:
        return await tx.context.reader.last([tx.context.subjects.waiters(queue, key)]), True
    except TooMany:
        return await _head_of_line(tx, queue, key), False


async def _head_of_line(tx: Tx, queue: str, key: str) -> list[Found]:
    """In the order in which they came to the line, which is that of due time and age but for moved
    jobs."""
    for priority in range(9, -1, -1):
        found, _ = await tx.context.reader.slice(
            tx.context.subjects.waiters(queue, key, priority), 1, SOME
        )
        if any(message.body for message in found):
            return found
    return []


async def wake(tx: Tx, queue: str, key: str, most: int | None = None) -> None:
    """Put the first who wait for a key back in the queue, as many as may run by what the first of
    them allows."""
    record = await key_of(tx, queue, key)
    if record.waiting == 0 or await on_hold(tx, queue, key):
        return
    line = await line_of(tx, queue, key)
    places = await _waiting(tx, line[: most or SOME]) or await _waiting(tx, line[:SOME])
    if not places or places[0].record is None:
        return
    room = max(0, places[0].record.limit - len(record.holders))
    for place in places[: room if most is None else min(room, most)]:
        await change(tx, place, state=State.QUEUED)
        tx.rings.add(queue)


async def _waiting(tx: Tx, line: Sequence[Waiter]) -> list[Place]:
    places = await tx.jobs(waiter.id for waiter in line)
    return [
        place
        for place in places
        if place.record is not None and place.record.state is State.BLOCKED
    ]


async def hold(tx: Tx, queue: str, key: str, until: Moment) -> None:
    """Nobody with this key starts before `until`; a moment that has come lifts the hold."""
    tx.rings.add(queue)
    record = await queue_of(tx, queue)
    holds = {name: moment for name, moment in record.holds.items() if name != key}
    if until > tx.now:
        put_queue(tx, replace(record, holds={**holds, key: until}))
        return
    if key in record.holds:
        put_queue(tx, replace(record, holds=holds))
    await wake(tx, queue, key)


# ---------------------------------------------------------------- many keys at once


async def look_ahead(tx: Tx, keys: Sequence[tuple[str, str]]) -> None:
    """Read what a `wake` of one waiter at each of these keys needs."""
    await tx.see(
        subject
        for queue, key in keys
        for subject in (tx.context.subjects.queue(queue), tx.context.subjects.key(queue, key))
    )
    waiting = {}
    for queue, key in dict.fromkeys(keys):
        size = (await key_of(tx, queue, key)).waiting
        if 0 < size <= IN_ONE_QUESTION and not await on_hold(tx, queue, key):
            waiting[queue, key] = size
    await asyncio.gather(*(_read_lines(tx, portion) for portion in _portions(waiting)))
    lines = [
        await line_of(tx, *where)
        for where in waiting
        if tx.context.subjects.waiters(*where) in tx.lines
    ]
    await tx.jobs(line[0].id for line in lines if line)


def _portions(waiting: dict[tuple[str, str], int]) -> Iterator[list[tuple[str, str]]]:
    portion: list[tuple[str, str]] = []
    together = 0
    for where, size in waiting.items():
        if portion and together + size > IN_ONE_QUESTION:
            yield portion
            portion, together = [], 0
        portion.append(where)
        together += size
    if portion:
        yield portion


async def _read_lines(tx: Tx, keys: Sequence[tuple[str, str]]) -> None:
    lines: dict[str, list[Found]] = {tx.context.subjects.waiters(*where): [] for where in keys}
    try:
        found = await tx.context.reader.last(lines)
    except TooMany:  # each is read by itself then
        return
    for message in found:
        lines[message.subject.rsplit(".", 2)[0] + ".*.*"].append(message)
    tx.know(found)
    tx.lines.update(lines)
