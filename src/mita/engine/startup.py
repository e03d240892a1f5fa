"""What a worker and a lone scheduler begin with: a store that is there, and somebody to tell."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack
from typing import TypeAlias

from mita.events import Emit, EventPublisher, Signal
from mita.ports.store import Store

from .backoff import reach, within

LONGEST_CLOSE = 2.0  # seconds

# what is open to others while it runs: its metrics
Serve: TypeAlias = Callable[[], AbstractContextManager[None]]


async def opened(
    stack: AsyncExitStack,
    serve: Serve,
    open_store: Callable[[], Awaitable[Store]],
    stopping: asyncio.Event,
    here: Emit,
) -> tuple[Store, Emit] | None:
    """The store, and how to tell whoever watches in this process (`here`) and in others. None: told
    to stop before it came. All is closed with the stack."""
    stack.enter_context(serve())
    store = await reach(open_store, stopping)
    if store is None:
        return None
    stack.push_async_callback(within, LONGEST_CLOSE, "close the store", store.close)
    herald = EventPublisher(store)
    stack.push_async_callback(within, LONGEST_CLOSE, "send the last events", herald.close)

    def emit(note: Signal) -> None:
        here(note)
        herald.put(note)

    return store, emit
