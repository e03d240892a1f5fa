"""Where the jobs are: one URL, and a store for every event loop that asks."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from weakref import WeakKeyDictionary

from mita import forks
from mita.errors import StoreError, UsageError
from mita.events import Emit
from mita.events.signals import StoreFailed, ignore_signal
from mita.events.store_errors import OPEN, watched
from mita.ports.clock import Clock, SystemClock
from mita.ports.store import SILENCE, Store
from mita.settings import StoreURL


class StorePool:
    """Opens nothing until asked. A store belongs to the loop that opened it, and is closed with
    that loop."""

    def __init__(
        self,
        url: StoreURL,
        clock: Clock | None = None,
        emit: Emit = ignore_signal,
        *,
        create: bool = True,
    ) -> None:
        """`publish` is told of each call to a store that fails. `create=False`: the stores are
        there already."""
        self.url, self._emit = url, emit
        self._clock = clock
        self._create = create
        self._make: Callable[[], Store] | None = None
        self._making = forks.guarded(threading.Lock())
        self._forget()
        forks.renewed(self, StorePool._renew)

    @property
    def identity(self) -> object:
        """The same for all who see the same jobs, as far as their addresses tell. A store in memory
        is its owner's alone."""
        return self if self.url.scheme == "memory" else self.url

    def _forget(self) -> None:
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = WeakKeyDictionary()
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Task[Store]] = {}

    async def new(self, silence: float = SILENCE) -> Store:
        """One more store, opened, that its caller closes."""
        # loops on two threads may come at once, and share what one memory URL means
        with self._making:
            if self._make is None:
                self._make = maker(self.url, self._clock)
        made = self._make()
        made.silence = silence
        store = watched(made, self._emit)
        try:
            await store.open(create=self._create)
        except StoreError:
            self._emit(StoreFailed(OPEN))
            raise
        return store

    async def store(self) -> Store:
        """The store of the running loop."""
        loop = asyncio.get_running_loop()
        if (opened := self._opened.get(loop)) is not None:
            return opened.store
        if (opening := self._opening.get(loop)) is None:
            opening = self._opening[loop] = loop.create_task(self._open(loop))
        return await asyncio.shield(opening)  # others may wait for the same opening

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Store:
        try:
            self._drop_closed_loops()
            store = await self.new()
            keeper = _close_at_the_end(store)
            await anext(keeper)
            self._opened[loop] = _Opened(store, keeper)
            return store
        finally:
            self._opening.pop(loop, None)

    async def close(self) -> None:
        """Close the store of the running loop, if it has one. The next use opens it again."""
        loop = asyncio.get_running_loop()
        if (opening := self._opening.get(loop)) is not None:
            await asyncio.wait([opening])
        if (opened := self._opened.pop(loop, None)) is not None:
            await opened.keeper.aclose()

    def _drop_closed_loops(self) -> None:
        for loop in [loop for loop in self._opened if loop.is_closed()]:
            del self._opened[loop]

    def _renew(self) -> None:
        """In a forked child: the parent's stores are not the child's to use, nor to close. A store
        in memory is its own, and empty: the jobs in the parent's are the parent's."""
        forks.keep_for_ever(*self._opened.values(), *self._opening.values())
        self._make = None
        self._forget()


class _Opened:
    def __init__(self, store: Store, keeper: AsyncGenerator[None, None]) -> None:
        self.store = store
        self.keeper = keeper


async def _close_at_the_end(store: Store) -> AsyncGenerator[None, None]:
    """`asyncio.run` finishes the async generators of its loop before it closes it: that closes what
    nobody else closed."""
    try:
        yield
    finally:
        await store.close()


# ----------------------------------------- which store, by scheme; each is imported when it is used


EXTRAS = {
    "postgresql": "postgres",
    "postgres": "postgres",
    "redis": "redis",
    "rediss": "redis",
    "unix": "redis",
    "redis+cluster": "redis",
    "nats": "nats",
    "tls": "nats",
}


def maker(url: StoreURL, clock: Clock | None) -> Callable[[], Store]:
    """Makes stores for this URL, on that clock instead of their own if one is given. Those of one
    memory URL share their jobs."""
    if url.scheme == "sqlite":
        from mita.stores.sqlite import SqliteStore

        path = url.path.absolute()  # of the first use: the process may go elsewhere
        return lambda: SqliteStore(path, url.namespace, clock)
    if url.scheme == "memory":
        from mita.stores.memory import MemoryState, MemoryStore

        state = MemoryState()
        return lambda: MemoryStore(state, clock or SystemClock())
    try:
        return _server(url, clock)
    except ModuleNotFoundError as error:
        raise missing_extra(url, error) from error


def _server(url: StoreURL, clock: Clock | None) -> Callable[[], Store]:
    match EXTRAS[url.scheme]:
        case "postgres":
            from mita.stores.postgres import PostgresStore

            return lambda: PostgresStore(url.text, namespace=url.namespace, clock=clock)
        case "redis":
            from mita.stores.redis import RedisStore

            return lambda: RedisStore(url.text, namespace=url.namespace, clock=clock)
        case _:
            from mita.stores.nats import parse

            return lambda: parse(url.text, url.namespace, clock)


def missing_extra(url: StoreURL, error: ImportError) -> UsageError:
    """For a store whose driver is not installed."""
    install = f"pip install 'mita[{EXTRAS[url.scheme]}]'"
    return UsageError(f"{url.scheme}:// needs a driver that is not installed ({error}): {install}")
