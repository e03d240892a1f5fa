"""Sends events to subscribers in other processes: only while there are any, and gathered for a
moment."""

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
from mita.rules.flow import FLOW_TASK

from .batches import amend_event, batches_of
from .bus import EventBus
from .flow_events import ended_flow
from .signals import (
    Amended,
    Batched,
    BusyJobs,
    Enqueued,
    Fired,
    FlowStarted,
    RepeatPaused,
    RunsSettled,
    RunsStarted,
    Signal,
)

log = logging.getLogger("mita.events")

MOST_WAITING_EVENTS = 10_000
# that may wait as signals, which keep the arguments and results of their jobs alive
MOST_RAW_EVENTS = 2_000
MESSAGE_EVENTS = 5_000  # in one message; so many are sent at once
GATHER_S = 0.05  # after each message
SUBSCRIBERS_KNOWN_S = 1.0  # after that the store is asked again who subscribes
CLOSE_TIMEOUT_S = 2.0

_pack = msgspec.msgpack.Encoder().encode


class EventPublisher:
    """Emits the signals of one store, on that store's event loop: to the app's bus at once, and to
    subscribers in other processes through the store. The first signal is published at once, and
    what follows within `GATHER_S` goes together.

    Without subscribers the store is asked for them twenty times a second at most, and once more for
    every `MOST_RAW_EVENTS`; jobs pay nothing else. With subscribers a signal becomes batches at
    once, while its jobs are in the processor's cache."""

    def __init__(self, store: Store, bus: EventBus) -> None:
        self._store, self._bus = store, bus
        self.loop = asyncio.get_running_loop()
        self._signals: list[Signal] = []
        self._waiting = 0  # events in them
        self._has_dropped = False
        self._subscribed: frozenset[str] = frozenset()  # queues with subscribers
        self._subscribed_at = 0.0  # when the store was asked
        self._many = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def emit(self, signal: Signal) -> None:
        """Hand a signal to the sinks of this process, and queue it for other processes."""
        for sink in self._bus.sinks:
            sink(signal)
        count = event_count(signal)
        if not count:
            if self._subscribed:
                batches_of(signal)
            return
        if self._waiting and self._waiting + count > MOST_WAITING_EVENTS:
            self._has_dropped = True
            return
        raw = not (self._subscribed or self._waiting > MOST_RAW_EVENTS)
        raw = raw or isinstance(signal, Amended)
        self._signals.append(signal if raw else Batched(batches_of(signal)))
        self._waiting += count
        if self._waiting >= (MESSAGE_EVENTS if self._subscribed else MOST_RAW_EVENTS):
            self._many.set()
        if self._task is None:
            self._task = self.loop.create_task(self._run())

    async def _run(self) -> None:
        """Publish until no signal is left. After each message comes a pause, so that the signals
        which follow go together."""
        try:
            while self._signals:
                signals, self._signals, self._waiting = self._signals, [], 0
                self._many.clear()
                try:
                    now = self.loop.time()
                    # a queue that gets its first subscriber is reported by the next question
                    age = now - self._subscribed_at
                    if EVERY not in self._subscribed or age > SUBSCRIBERS_KNOWN_S:
                        self._subscribed = await self._store.subscribed_queues()
                        self._subscribed_at = now
                    if self._subscribed:
                        await self._publish(signals)
                    self._has_dropped = False
                except MitaError as error:
                    self._has_dropped = True
                    log.debug("events could not be published: %s", error)
                if not self._closing:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(GATHER_S):
                            await self._many.wait()
        finally:
            self._task = None

    async def close(self) -> None:
        """Publish what is left, unless the store does not answer."""
        self._closing = True
        self._many.set()  # ends the pause
        if (task := self._task) is not None:
            await asyncio.wait([task], timeout=CLOSE_TIMEOUT_S)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _publish(self, signals: list[Signal]) -> None:
        """Send the events of these signals to the queues that have subscribers."""
        batches = await self._batches(signals)
        await self._store.publish(list(self._messages(batches, self._subscribed)))

    async def _batches(self, signals: list[Signal]) -> list[EventBatch]:
        """Returns the batches of all signals. An amend that has only the id of its job is completed
        from the store."""
        batches: list[EventBatch] = []
        for signal in signals:
            if isinstance(signal, Amended) and _is_incomplete(signal):
                known = await _completed(self._store, signal)
                batches += batches_of(known) if known.queue else []
            else:
                batches += batches_of(signal)
        return batches

    def _messages(
        self, batches: Sequence[EventBatch], subscribed: frozenset[str]
    ) -> Iterator[EventMessage]:
        """Yields the messages of the queues that have subscribers."""
        queues: dict[str, list[EventBatch]] = {}
        for batch in batches:
            queues.setdefault(batch.queue, []).append(batch)
        for queue, mine in queues.items():
            if subscribed & {queue, EVERY}:
                missed = [EventBatch(Kind.MISSED, queue=queue, ids=[""])]
                yield from _messages(queue, [*missed, *mine] if self._has_dropped else mine)


def _messages(queue: str, batches: Sequence[EventBatch]) -> Iterator[EventMessage]:
    """Yields as few messages as possible, each of a size that every store carries."""
    part: list[EventBatch] = []
    count = 0
    for batch in (small for big in batches for small in big.parts(MESSAGE_EVENTS)):
        if part and count + batch.size > MESSAGE_EVENTS:
            yield EventMessage(queue, count, _pack(part))
            part, count = [], 0
        part.append(batch)
        count += batch.size
    if part:
        yield EventMessage(queue, count, _pack(part))


def event_count(signal: Signal) -> int:
    """Returns how many events a signal makes at most."""
    match signal:
        case RunsSettled(settlements):
            return 2 * len(settlements)
        case RunsStarted(runs):
            return len(runs)
        case Enqueued() | BusyJobs():
            return len(signal.jobs)
        case Batched(batches):
            return sum(batch.size for batch in batches)
        case Fired(firings):
            return sum(len(firing.jobs) + bool(firing.dropped) for firing in firings)
        case Amended() | RepeatPaused() | FlowStarted():
            return 1
    return 0


def _is_incomplete(signal: Amended) -> bool:
    """Whether the job must be read to report this: its task is not known, or it is a flow."""
    return not signal.queue or (signal.task == FLOW_TASK and signal.flow is None)


async def _completed(store: Store, signal: Amended) -> Amended:
    """The same amend with what the store knows of its job; unchanged if the job is gone."""
    [job] = await store.find([signal.id])
    if job is None:
        return signal
    return replace(signal, task=job.task, queue=job.queue, flow=ended_flow(job))


class ClientEvents:
    """Emits what callers of an app do: one publisher for each store, on that store's event loop."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._publishers: dict[Store, EventPublisher] = {}

    def emit(self, store: Store, signal: Signal) -> None:
        """Emit a signal, on the store's own event loop."""
        publisher = self._publishers.get(store)
        if publisher is None:
            self._drop_closed_loops()
            publisher = self._publishers[store] = EventPublisher(store, self._bus)
        publisher.emit(signal)

    def emit_here(self, signal: Signal) -> None:
        """Emit a signal in this process only, from any thread: for enqueues in the user's own
        transaction, which may still be rolled back."""
        self._bus.emit(signal)

    async def amended(self, store: Store, signal: Amended) -> None:
        """Emit an amend. If this process listens, the task and the queue of the job are read from
        the store."""
        if amend_event(signal) is None:
            return
        if self._bus.sinks and _is_incomplete(signal):
            signal = await _completed(store, signal)
        self.emit(store, signal)

    async def close(self) -> None:
        """Publish what is left, for the stores of the running event loop."""
        for store, publisher in list(self._publishers.items()):
            if publisher.loop is asyncio.get_running_loop():
                del self._publishers[store]
                await publisher.close()

    def _drop_closed_loops(self) -> None:
        """Forget the stores of event loops that were closed: their stores were closed with them."""
        for store, publisher in list(self._publishers.items()):
            if publisher.loop.is_closed():
                del self._publishers[store]
