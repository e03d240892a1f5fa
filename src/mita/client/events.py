"""Events of all processes, as they happen."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import Self

import msgspec

from mita.model.event import EventBatch, JobEvent, Kind
from mita.ports.pubsub import Delivery, Subscription
from mita.ports.store import Store
from mita.twins import RunSync

_read = msgspec.msgpack.Decoder(list[EventBatch]).decode


class Events:
    """The events of a queue: `async for event in app.events()`. The subscription begins with the
    first step of the loop. `async with app.events() as events` begins it before the block, so
    nothing that is started inside is missed. `missed` counts lost events."""

    def __init__(
        self, open_store: Callable[[], Awaitable[Store]], queue: str | None, kinds: frozenset[Kind]
    ) -> None:
        self._open_store, self._queue, self._kinds = open_store, queue, kinds
        self._store: Store | None = None
        self._subscription: Subscription | None = None
        self.loop: asyncio.AbstractEventLoop | None = (
            None  # the loop that the subscription belongs to
        )
        self.missed = 0

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[JobEvent]:
        """Yield events. A subscription that begins here ends when the loop is left."""
        began = self._subscription is None
        subscription = await self._opened()
        try:
            while (delivery := await subscription.receive()) is not None:
                for batch in self._read(delivery):
                    for event in batch.events():
                        yield event
        finally:
            if began:
                await self.aclose()

    async def aclose(self) -> None:
        """End the subscription; a loop over this ends."""
        subscription, store, self._subscription, self._store = (
            self._subscription,
            self._store,
            None,
            None,
        )
        if subscription is not None:
            await subscription.close()
        if store is not None:
            await store.close()

    async def _opened(self) -> Subscription:
        """Open a store of its own: a subscription must not take the notifications of a worker."""
        if self._subscription is None:
            self.loop = asyncio.get_running_loop()
            self._store = await self._open_store()
            try:
                self._subscription = await self._store.subscribe(self._queue)
            except BaseException:
                await self.aclose()
                raise
        return self._subscription

    def _read(self, delivery: Delivery) -> Iterator[EventBatch]:
        """Yield the events of a delivery. Each is made when it is read."""
        if delivery.missed or delivery.cut:
            self.missed += delivery.missed
            yield _missed(self._queue or "", delivery.missed)
        for message in delivery.messages:
            try:
                made = _read(message.events)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                # a newer version may have written it: one message is lost, not the loop
                self.missed += message.count
                yield _missed(message.queue, message.count)
                continue
            for batch in made:
                if (wanted := batch.only(self._kinds)) is not None:
                    yield wanted


class SyncEvents:
    """`for event in app.events_sync()`, from code that is not async. The subscription begins with
    the first step of the loop; `with app.events_sync() as events` begins it before the block.
    `missed` counts lost events."""

    def __init__(self, events: Events, run_sync: RunSync) -> None:
        self._events, self._run_sync = events, run_sync

    @property
    def missed(self) -> int:
        """How many events were lost."""
        return self._events.missed

    def __enter__(self) -> Self:
        self._run_sync(self._events.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[JobEvent]:
        steps = self._events.__aiter__()
        try:
            while (event := self._run_sync(_next(steps))) is not None:
                yield event
        finally:
            self._run_sync(_closed(steps))

    def close(self) -> None:
        """End the subscription; a loop over this ends."""
        self._run_sync(self._events.aclose())


async def _next(steps: AsyncIterator[JobEvent]) -> JobEvent | None:
    return await anext(steps, None)


async def _closed(steps: AsyncIterator[JobEvent]) -> None:
    if isinstance(steps, AsyncGenerator):
        await steps.aclose()


def _missed(queue: str, count: int) -> EventBatch:
    return EventBatch(Kind.MISSED, queue=queue, ids=[""], count=count)
