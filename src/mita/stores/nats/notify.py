"""Sleeping until the server says that there is something.

Whatever is put in a ready line is published again by the server on a bell subject, also when the
server put it there itself because its time had come. We listen for one such message at a time, from
before a claim looks until it rings: nothing falls between, and a flood of jobs rings once. What is
not a new ticket (a queue resumed, a hold lifted, a wish for a running job, a new schedule) is rung
by whoever did it, on a wake subject that everybody hears."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

import msgspec

from mita.ports.store import ASKED, REPEATS

from .client.wire import Wire
from .subjects import Subjects, name

_ANY = "*"
ECHO = 0.02  # seconds
_pack = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(list[str]).decode


class Notifier:
    def __init__(self, wire: Wire, subjects: Subjects) -> None:
        self._wire = wire
        self._subjects = subjects
        self._armed: set[str] = set()
        self._heard: set[str] = set()
        self._someone = asyncio.Event()
        self.changed: set[str] = set()  # queues of which we know no more when their next job is due

    async def open(self) -> None:
        await self._wire.hear(self._subjects.wake, self._hear_wake)
        self._wire.reconnected.append(self._after_a_loss)

    def ring(self, topics: Collection[str]) -> None:
        """Tell everybody, ourselves included."""
        self.changed.update(topics)
        self._hear(topics)
        self._wire.say(self._subjects.wake, _pack(sorted(topics)))
        self._wire.flush_soon()

    def arm(self, queues: Collection[str]) -> set[str]:
        """Listen for these; gives those that nobody listened for until now. Sent with the next
        flush."""
        fresh = set() if _ANY in self._armed else set(queues) - self._armed
        for queue in fresh:
            self._armed.add(queue)
            subject = f"{self._subjects.bell}.>" if queue == _ANY else self._subjects.bells(queue)
            self._wire.hear_once(subject, self._hear_bell(queue))
        return fresh

    def _hear_bell(self, armed: str) -> "PushedWakeup":
        return PushedWakeup(self, armed)

    def heard(self, armed: str, queue: str) -> None:
        """Rung by the server, which may tell us before it tells the consumer: so it echoes."""
        self._armed.discard(armed)
        self._hear([queue])
        asyncio.get_running_loop().call_later(ECHO, self._hear, [queue])

    def _hear_wake(self, _: bytes, __: bytes, data: bytes, ___: bytes | None) -> None:
        with suppress(msgspec.MsgspecError):
            topics = _read(data)
            self.changed.update(topics)
            self._hear(topics)

    def _hear(self, topics: Collection[str]) -> None:
        self._heard.update(topics)
        self._someone.set()

    def _after_a_loss(self) -> None:
        """The server forgot what we listened for, and things may have happened: let everybody
        look."""
        waiting = set(self._armed)
        self._armed.clear()
        self._hear(waiting or {_ANY})

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        wanted = {_ANY} if queues is None else set(queues)
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            fresh = self.arm(wanted)
            self._wire.flush_soon()
            if mine := self._mine(queues):
                self._heard -= mine | {_ANY}
            # nobody listened for the fresh ones until now: something may have happened unheard,
            # look once
            if mine or fresh:
                return frozenset(mine | fresh)
            if not await self._sleep(deadline):
                return frozenset()

    async def _sleep(self, deadline: float) -> bool:
        """Until somebody rings; False when the time is over."""
        self._someone.clear()
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return False
        try:
            async with asyncio.timeout(left):
                await self._someone.wait()
        except TimeoutError:
            return False
        return True

    def _mine(self, queues: Collection[str] | None) -> set[str]:
        if queues is None or _ANY in self._heard:
            return set(self._heard)
        return {topic for topic in self._heard if topic in queues or topic in (ASKED, REPEATS)}


class PushedWakeup:
    """What to do when the bell rings that was armed for a queue, or for any."""

    def __init__(self, bell: Notifier, armed: str) -> None:
        self._bell = bell
        self._armed = armed

    def __call__(self, subject: bytes, _: bytes, __: bytes, ___: bytes | None) -> None:
        self._bell.heard(self._armed, name(subject.decode().split(".")[3]))
