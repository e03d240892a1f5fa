"""The stores of an app: one for each event loop, all of them on the same jobs."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from functools import cache
from inspect import getattr_static, getmembers, iscoroutinefunction
from typing import Any, cast
from weakref import WeakKeyDictionary

from mita import forks
from mita.errors import StoreError, UsageError
from mita.events import Emit
from mita.events.signals import StoreFailed, ignore_signal
from mita.model.time import Wait
from mita.ports.clock import Clock
from mita.ports.store import SILENCE_S, Store, StoreFactory
from mita.sealing import Keyring, SealedStore
from mita.settings import AGEING_MS, StoreURL
from mita.stores.registry import parse_url, store_factory

OPEN = "open"
OPERATIONS = sorted({name for name, _ in getmembers(Store, iscoroutinefunction)} - {OPEN, "close"})


class StorePool:
    """Makes stores from a URL, or with a factory of the user's own. Opens nothing until it is
    asked. A store belongs to the event loop that opened it, and is closed with that loop."""

    def __init__(
        self,
        source: StoreURL | StoreFactory,
        clock: Clock | None = None,
        emit: Emit = ignore_signal,
        *,
        create: bool = True,
        ageing: Wait | None = AGEING_MS,
        keyring: Keyring | None = None,
    ) -> None:
        """`clock` replaces the clock of stores that are made from a URL. `emit` is called for each
        store operation that fails. `create=False`: never create the database, raise `StoreMissing`
        instead. `ageing` is how long a job waits until it has risen by one priority.
        `keyring` encrypts what the stores keep."""
        self.source, self._emit = source, emit
        self._clock = clock
        self._create = create
        self._ageing = ageing
        self._keyring = keyring
        self._make: StoreFactory | None = None
        self._making = forks.guarded(threading.Lock())
        self._forget()
        forks.renewed(self, StorePool._renew)

    @property
    def url(self) -> StoreURL:
        """The URL of the stores. Raises `UsageError` if the app was given a factory instead."""
        if isinstance(self.source, StoreURL):
            return self.source
        raise UsageError(f"this app has no store URL: it was given {shown_factory(self.source)}")

    @property
    def identity(self) -> object:
        """Equal for two pools if they are known to have the same jobs: by their URL, or by their
        factory. The jobs of a memory:// URL are in one pool only."""
        is_memory = isinstance(self.source, StoreURL) and self.source.scheme == "memory"
        return self if is_memory else self.source

    def _forget(self) -> None:
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = WeakKeyDictionary()
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Task[Store]] = {}

    async def new(self, silence: float = SILENCE_S) -> Store:
        """Return one more store, opened. The caller closes it."""
        # event loops on two threads may get here at once, and must share one memory:// store
        with self._making:
            if self._make is None:
                self._make = self._factory()
        made = self._make()
        made.silence = silence
        made.ageing = self._ageing
        store = counted(made, self._emit)
        try:
            await store.open(create=self._create)
        except StoreError:
            self._emit(StoreFailed(OPEN))
            raise
        return store if self._keyring is None else cast(Store, SealedStore(store, self._keyring))

    def _factory(self) -> StoreFactory:
        if isinstance(self.source, StoreURL):
            return store_factory(self.source, self._clock)
        return checked(self.source)

    async def store(self) -> Store:
        """Return the store of the running event loop. It is opened at the first call."""
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
        """Close the store of the running event loop, if it has one. The next use opens it again."""
        loop = asyncio.get_running_loop()
        if (opening := self._opening.get(loop)) is not None:
            await asyncio.wait([opening])
        if (opened := self._opened.pop(loop, None)) is not None:
            await opened.keeper.aclose()

    def _drop_closed_loops(self) -> None:
        for loop in [loop for loop in self._opened if loop.is_closed()]:
            del self._opened[loop]

    def _renew(self) -> None:
        """In a forked child: the parent's stores must neither be used nor closed. A memory:// store
        starts empty, because the jobs belong to the parent."""
        forks.keep_for_ever(*self._opened.values(), *self._opening.values())
        self._make = None
        self._forget()


class _Opened:
    def __init__(self, store: Store, keeper: AsyncGenerator[None, None]) -> None:
        self.store = store
        self.keeper = keeper


async def _close_at_the_end(store: Store) -> AsyncGenerator[None, None]:
    """Close the store when the event loop ends: `asyncio.run` finishes the async generators of its
    loop."""
    try:
        yield
    finally:
        await store.close()


# ---------------------------------------------------------------- a URL or a factory


def store_source(
    url: str | None, store: StoreFactory | None, namespace: str | None
) -> StoreURL | StoreFactory:
    """Return where an app's stores come from: the parsed URL, or the factory. Raises `UsageError`
    if both are given."""
    if store is None:
        return parse_url(url, namespace)
    if url is not None or namespace is not None:
        raise UsageError("store= replaces the URL and the namespace: leave those out")
    if not callable(store):
        raise UsageError(
            f"store={store!r}: give a function that makes a store, for example "
            "store=lambda: MyStore(path)"
        )
    return store


def shown_factory(factory: StoreFactory) -> str:
    """The factory as text, for people."""
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    return f"store={name}"


_MISSING = object()


def checked(factory: StoreFactory) -> StoreFactory:
    """Return a factory that raises `UsageError` when the other one returns something that is no
    store."""

    def make() -> Store:
        made = factory()
        needed = (OPEN, "close", "can", "room", *OPERATIONS)
        # without calling properties: `room` of a store that is not open yet may raise
        missing = [name for name in needed if getattr_static(made, name, _MISSING) is _MISSING]
        if missing:
            raise UsageError(
                f"{shown_factory(factory)} returned {type(made).__name__}, which is not a store: "
                f"it has no {', '.join(missing[:3])}. Implement mita.ports.store.Store"
            )
        return made

    return make


# ---------------------------------------------------------------- operations that fail


def counted(store: Store, emit: Emit) -> Store:
    """Return the same store, which now emits a `StoreFailed` for each operation that fails."""
    store.__class__ = _counting(type(store))
    store.__dict__["_emit_failure"] = emit
    return store


@cache
def _counting(kind: type[Store]) -> type[Store]:
    methods = {name: _counted(kind, name) for name in OPERATIONS}
    names = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**methods, **names})


def _counted(kind: type[Store], name: str) -> Callable[..., Any]:
    async def operation(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return await getattr(kind, name)(self, *args, **named)
        except StoreError as error:
            # an operation may call others: only the innermost one is counted
            if not hasattr(error, "operation"):
                error.operation = name  # type: ignore[attr-defined]
                self._emit_failure(StoreFailed(name))
            raise

    return operation
