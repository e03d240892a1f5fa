"""Telling what happened to whoever listens in other processes: only if somebody does, and a
moment's worth at a time."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from mita.errors import MitaError
from mita.model.event import EventBatch, Kind
from mita.ports.pubsub import EVERY, EventMessage
from mita.ports.store import Store

from .batches import bunches
from .bus import EventBus
from .signals import Amended, Made, Signal, size

log = logging.getLogger("mita.events")

MOST = 10_000  # events that wait to be told
RAW = 2_000  # events that may wait as notes, with arguments and results hanging on them
TOGETHER = 5_000  # events in one message, and for which it is sent at once
QUIET = 0.05  # seconds in which things gather after something was told
BELIEVED = 1.0  # seconds for which whoever listened is believed to listen on
FAREWELL = 2.0  # seconds that leaving may take

_pack = msgspec.msgpack.Encoder().encode


class EventPublisher:
    """One for each store that things happen through, on that store's loop. The first note is passed
    on at once, and what comes in the moment after goes together. Where nobody is known to listen
    the store is asked twenty times a second, and once more for every two thousand events, and that
    question is all that a job costs. Where somebody is, a note is made into bunches as it comes,
    while it is warm."""

    def __init__(self, store: Store, bus: EventBus) -> None:
        self._store, self._bus = store, bus
        self.loop = asyncio.get_running_loop()
        self._notes: list[Signal] = []
        self._waiting = 0
        self._lost = False
        self._listened: frozenset[str] = frozenset()
        self._asked = 0.0
        self._many = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def emit(self, note: Signal) -> None:
        """Hand a signal to the listeners of this process, and queue it for other processes."""
        for sink in self._bus.sinks:
            sink(note)
        count = size(note)
        if not count:
            if self._listened:
                bunches(note)
            return
        if self._waiting and self._waiting + count > MOST:
            self._lost = True
            return
        raw = not (self._listened or self._waiting > RAW) or isinstance(note, Amended)
        self._notes.append(note if raw else Made(bunches(note)))
        self._waiting += count
        if self._waiting >= (TOGETHER if self._listened else RAW):
            self._many.set()
        if self._task is None:
            self._task = self.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._notes:
                await self._pass_on()
                with suppress(TimeoutError):
                    async with asyncio.timeout(QUIET):
                        await self._many.wait()
        finally:
            self._task = None

    async def close(self) -> None:
        """Pass on what is left, unless the store hangs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._pass_on()

    async def _pass_on(self) -> None:
        notes, self._notes, self._waiting = self._notes, [], 0
        self._many.clear()
        if not notes:
            return
        try:
            now = self.loop.time()
            # a queue that gets a subscriber is reported the next time, however soon
            if EVERY not in self._listened or now - self._asked > BELIEVED:
                self._listened, self._asked = await self._store.subscribed_queues(), now
            if listened := self._listened:
                await self._store.publish(list(self._told(await self._whole(notes), listened)))
            self._lost = False
        except MitaError as error:
            self._lost = True
            log.debug("what happened could not be told: %s", error)

    async def _whole(self, notes: list[Signal]) -> list[EventBatch]:
        """A note of an amend may only know the id."""
        made: list[EventBatch] = []
        for note in notes:
            if isinstance(note, Amended) and not note.queue:
                [job] = await self._store.find([note.id])
                made += (
                    [] if job is None else bunches(replace(note, task=job.task, queue=job.queue))
                )
            else:
                made += bunches(note)
        return made

    def _told(self, made: Sequence[EventBatch], listened: frozenset[str]) -> Iterator[EventMessage]:
        queues: dict[str, list[EventBatch]] = {}
        for bunch in made:
            queues.setdefault(bunch.queue, []).append(bunch)
        for queue, mine in queues.items():
            if listened & {queue, EVERY}:
                yield from _messages(
                    queue,
                    [EventBatch(Kind.MISSED, queue=queue, ids=[""]), *mine] if self._lost else mine,
                )


def _messages(queue: str, made: Sequence[EventBatch]) -> Iterator[EventMessage]:
    """As few as may be, each of a size that every store carries."""
    part: list[EventBatch] = []
    count = 0
    for bunch in (small for big in made for small in big.parts(TOGETHER)):
        if part and count + bunch.size > TOGETHER:
            yield EventMessage(queue, count, _pack(part))
            part, count = [], 0
        part.append(bunch)
        count += bunch.size
    if part:
        yield EventMessage(queue, count, _pack(part))
