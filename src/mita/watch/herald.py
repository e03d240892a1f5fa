"""Telling what happened to whoever listens in other processes: only if somebody does, and a moment's worth at a time."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from mita.errors import MitaError
from mita.model.event import JobEvent, Kind
from mita.ports.ear import EVERY, Told
from mita.ports.store import Store

from .notes import WAITING, Amended, Note, events, light, size

log = logging.getLogger("mita.events")

MOST = 10_000  # events that wait to be told
QUIET = 0.05  # seconds in which things gather after something was told
TOGETHER = 500  # events in one message
FAREWELL = 2.0  # seconds that leaving may take

_pack = msgspec.msgpack.Encoder().encode


class Herald:
    """One for each store that things happen through, on that store's loop. The first note is passed on at once, and what
    comes in the moment after goes together: the store is asked whether anybody listens twenty times a second, and once more
    for every two thousand events. Where nobody does, that question is all that a job costs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.loop = asyncio.get_running_loop()
        self._notes: list[Note] = []
        self._waiting = 0
        self._lost = False
        self._many = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, note: Note) -> None:
        count = size(note)
        if not count:
            return
        if self._waiting and self._waiting + count > MOST:
            self._lost = True
            return
        self._notes.append(note if isinstance(note, Amended) else light(note, self._waiting))
        self._waiting += count
        if self._waiting >= WAITING:
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
            listened = await self._store.listened()
            if not listened:
                self._lost = False
                return
            await self._store.tell(list(self._told(await self._whole(notes), listened)))
            self._lost = False
        except MitaError as error:
            self._lost = True
            log.debug("what happened could not be told: %s", error)

    async def _whole(self, notes: list[Note]) -> list[JobEvent]:
        """A note of an amend may only know the id."""
        made: list[JobEvent] = []
        for note in notes:
            if isinstance(note, Amended) and not note.queue:
                [job] = await self._store.find([note.id])
                made += [] if job is None else events(replace(note, task=job.task, queue=job.queue))
            else:
                made += events(note)
        return made

    def _told(self, made: Sequence[JobEvent], listened: frozenset[str]) -> Iterator[Told]:
        for queue, mine in _by_queue(made).items():
            if not listened & {queue, EVERY}:
                continue
            if self._lost:
                mine.insert(0, JobEvent(Kind.MISSED, queue=queue))
            for start in range(0, len(mine), TOGETHER):
                part = mine[start : start + TOGETHER]
                yield Told(queue, len(part), _pack(part))


def _by_queue(made: Sequence[JobEvent]) -> dict[str, list[JobEvent]]:
    """Neighbours are mostly of one queue."""
    queues: dict[str, list[JobEvent]] = {}
    queue: str | None = None
    mine: list[JobEvent] = []
    for event in made:
        if event.queue != queue:
            queue = event.queue
            mine = queues.setdefault(queue, [])
        mine.append(event)
    return queues
