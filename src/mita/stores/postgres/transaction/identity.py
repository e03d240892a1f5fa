"""Which database a store's jobs are in, whatever address a connection to it has. A user's
connection may be to another database that has jobs of Mita as well, where no worker of this app
would find the new ones."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from mita.errors import StoreError

Ask = Callable[[], Coroutine[Any, Any, str]]


class DatabaseIdentity:
    """The identity of the store's database, as the server tells it. It changes when the server
    starts again, so it is asked for again before a connection is refused."""

    def __init__(self) -> None:
        self._known: str | None = None
        self._ask: Ask | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def opened(self, ask: Ask) -> None:
        """The store is open: `ask` reads the identity, on the running event loop."""
        self._ask, self._loop = ask, asyncio.get_running_loop()

    def closed(self) -> None:
        """The store is closed, and cannot be asked."""
        self._ask = self._loop = None

    async def is_other(self, told: str) -> bool:
        """Whether `told`, which a user's connection says, is another database. False if the store
        cannot be asked now."""
        if told != self._known and self._ask is not None:
            with suppress(StoreError):
                self._known = await self._ask()
        return self._known not in (None, told)

    def is_other_sync(self, told: str) -> bool:
        """`is_other`, from code that is not async."""
        if told != self._known and self._ask is not None and self._loop is not None:
            with suppress(StoreError, RuntimeError):  # RuntimeError: the store's loop has ended
                if self._loop is not _running_loop():
                    asked = asyncio.run_coroutine_threadsafe(self._ask(), self._loop)
                    self._known = asked.result()
        return self._known not in (None, told)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
