"""How a worker and a standalone scheduler start: with an open store, and a way to report events."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack
from typing import TypeAlias

from mita.events import Emit, EventBus, EventPublisher
from mita.ports.store import Store

from .backoff import reach, within
from .pulse import Pulse

CLOSE_TIMEOUT_S = 2.0

# what is served while it runs: its metrics, and whether it is alive and ready
Serve: TypeAlias = Callable[[Pulse], AbstractContextManager[object]]


async def opened(
    stack: AsyncExitStack,
    serve: Serve,
    open_store: Callable[[], Awaitable[Store]],
    stopping: asyncio.Event,
    bus: EventBus,
) -> tuple[Store, Emit] | None:
    """Open the store, and wait for it while it is unreachable. Returns it and a function that
    reports a signal in this process (to `bus`) and in others; None if `stopping` was set before.
    The stack closes all of it."""
    pulse = Pulse(stopping)
    stack.enter_context(serve(pulse))
    store = await reach(open_store, stopping)
    if store is None:
        return None
    pulse.store = store
    stack.callback(setattr, pulse, "store", None)
    stack.push_async_callback(within, CLOSE_TIMEOUT_S, "close the store", store.close)
    publisher = EventPublisher(store, bus)
    stack.push_async_callback(within, CLOSE_TIMEOUT_S, "send the last events", publisher.close)
    return store, publisher.emit
