"""Wake-ups: sleeping until a job may be ready.

The server publishes a copy of every new ticket, also of its own from schedules. A
store subscribes to one such message per queue at a time, before a claim looks for jobs, so that it
misses none, and a flood of jobs wakes it once. What is not a new ticket (a queue is resumed, a hold
ends, a running job is cancelled, repeats change) is published by the store that does it, on a
subject to which all stores subscribe."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

import msgspec

from mita.ports.store import ASKED, REPEATS

from .client.link import MessageHandler
from .client.wire import NatsWire
from .stream.subjects import Subjects, name

_ANY = "*"
# The server may notify us before it notifies the consumer, so a notification is repeated.
SECOND_WAKEUP_S = 0.02
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[str]).decode


class NatsNotifier:
    """The wake-ups of one store. `changed` are queues of which the next due time may have changed.
    `on_ticket` is called with queue and slot of a new ticket."""

    def __init__(
        self, wire: NatsWire, subjects: Subjects, on_ticket: Callable[[str, int], None]
    ) -> None:
        self._wire = wire
        self._subjects = subjects
        self._on_ticket = on_ticket
        self._armed: set[str] = set()
        self._received: set[str] = set()
        self._arrived = asyncio.Event()
        self.changed: set[str] = set()

    async def open(self) -> None:
        """Subscribe to the wake-ups of other stores."""
        await self._wire.subscribe_raw(self._subjects.wake, self._take_wakeup)
        self._wire.on_reconnect.append(self._after_reconnect)

    def notify(self, topics: Collection[str]) -> None:
        """Wake all stores that wait for these topics, this one included."""
        self.changed.update(topics)
        self.add(topics)
        self._wire.send_message(self._subjects.wake, _pack(sorted(topics)))
        self._wire.flush_soon()

    def arm(self, queues: Collection[str]) -> set[str]:
        """Subscribe to the next new ticket of these queues, with the next flush. Returns the queues
        that had no subscription."""
        fresh = set() if _ANY in self._armed else set(queues) - self._armed
        for queue in fresh:
            self._armed.add(queue)
            self._wire.subscribe_once(self._tickets(queue), self._ticket_handler(queue))
        return fresh

    def _tickets(self, queue: str) -> str:
        if queue == _ANY:
            return f"{self._subjects.republished}.>"
        return self._subjects.republished_tickets(queue)

    def _ticket_handler(self, armed: str) -> MessageHandler:
        """Returns the handler of the next new ticket of a queue, or of any."""

        def take(subject: bytes, _: bytes, __: bytes, ___: bytes | None) -> None:
            queue_token, slot = subject.decode().split(".")[3:5]
            queue = name(queue_token)
            self._on_ticket(queue, int(slot))
            self._armed.discard(armed)
            self.add([queue])
            asyncio.get_running_loop().call_later(SECOND_WAKEUP_S, self.add, [queue])

        return take

    def _take_wakeup(self, _: bytes, __: bytes, data: bytes, ___: bytes | None) -> None:
        with suppress(msgspec.MsgspecError):
            topics = _unpack(data)
            self.changed.update(topics)
            self.add(topics)

    def add(self, topics: Collection[str]) -> None:
        """Wake this store if it waits for one of these topics."""
        self._received.update(topics)
        self._arrived.set()

    def _after_reconnect(self) -> None:
        """The server has forgotten the subscriptions, and wake-ups may be lost: wake all."""
        waiting = set(self._armed)
        self._armed.clear()
        self.add(waiting or {_ANY})

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait until one of these queues (None: any) may have a ready job. Returns the topics;
        empty after `timeout` seconds."""
        wanted = {_ANY} if queues is None else set(queues)
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            fresh = self.arm(wanted)
            self._wire.flush_soon()
            if mine := self._wanted_topics(queues):
                self._received -= mine | {_ANY}
            # Until now there was no subscription for the fresh queues: they must be looked at once.
            if mine or fresh:
                return frozenset(mine | fresh)
            if not await self._sleep(deadline):
                return frozenset()

    async def _sleep(self, deadline: float) -> bool:
        """Wait for a wake-up. Returns False when the time is over."""
        self._arrived.clear()
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return False
        try:
            async with asyncio.timeout(left):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def _wanted_topics(self, queues: Collection[str] | None) -> set[str]:
        if queues is None or _ANY in self._received:
            return set(self._received)
        return {topic for topic in self._received if topic in queues or topic in (ASKED, REPEATS)}
