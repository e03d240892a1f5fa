"""Entering and leaving a lab, from sync and from async code."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from types import TracebackType
from typing import Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from mita.app import Mita
from mita.engine.shared_values import SharedValues
from mita.errors import MitaError, UsageError
from mita.events.signals import Enqueued, Signal
from mita.ports.outbox import JobOutbox
from mita.ports.store import Store

from .awaited import check_awaited, check_sync
from .calling_thread import CallingThread
from .clock import FakeClock
from .lab_outbox import LabOutbox
from .lab_runs import LabInline
from .own_space import LabSpace

T = TypeVar("T")

_apps_in_labs: WeakSet[Mita] = WeakSet()


class LabBlock:
    """Between entering and leaving, the app's jobs are in a place of their own. Each event loop
    that runs jobs gets its own store there, and its own lifespans."""

    def __init__(
        self, app: Mita, space: LabSpace, clock: FakeClock, roll: float, time_limit: float
    ) -> None:
        self.app, self.clock = app, clock
        self._calls: list[tuple[Any, str]] = []  # coroutines, and the methods that made them
        self._space, self._roll, self._time_limit = space, roll, time_limit
        self._caller = CallingThread()
        self._overrides: dict[Callable[..., Any], Any] = {}
        self._inlines: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[LabInline, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()
        self._outbox: LabOutbox | None = None
        self._order: dict[str, int] = {}  # of the ids that were enqueued
        self._is_open = self._has_left = False

    # ------------------------------------------------------------ entering

    async def __aenter__(self) -> Self:
        self._enter()
        try:
            await self.app.repeats.put_declared()
            await self._runner()
        except BaseException:
            with suppress(Exception):  # what failed is more important than that
                await self.__aexit__(None, None, None)
            raise
        return self

    def __enter__(self) -> Self:
        check_sync("`with lab(…)`", "write `async with lab(…)`")
        self._enter()
        try:
            self.app._portal(self.app._pool.store())  # noqa: SLF001
            self.app.repeats.put_declared_sync()
        except BaseException:
            with suppress(Exception):  # what failed is more important than that
                self.__exit__(None, None, None)
            raise
        return self

    def _enter(self) -> None:
        if self._is_open or self._has_left:
            raise UsageError("a lab is entered once: make another one with lab(app)")
        if self.app in _apps_in_labs:
            raise UsageError(
                "this app is in a lab already: use that one. With pytest, a test that takes "
                "mita_lab needs no lab(app)"
            )
        self.app._registry.check()  # noqa: SLF001
        self._portal_was_open = self.app._portal.open  # noqa: SLF001
        clock = None if self._space.is_served_by_nats else self.clock
        self._using = self.app.using_sync(
            self._space.url, namespace=self._space.namespace, clock=clock
        )
        self._using.__enter__()
        self._outbox_of_app = self.app._outbox  # noqa: SLF001
        if self._outbox_of_app is not None:
            self._outbox = LabOutbox(self._outbox_of_app, f"lab_{token_hex(5)}")
            self._use_outbox(cast(JobOutbox, self._outbox))
        self.app._watch.add(self._note)  # noqa: SLF001
        _apps_in_labs.add(self.app)
        self._is_open = True

    # ------------------------------------------------------------ leaving

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._leave_loop()
        finally:
            await asyncio.to_thread(self._leave)
        check_awaited(self._calls, error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        check_awaited(self._calls, error)

    async def _leave_loop(self) -> None:
        """End what the lab has on the running event loop: lifespans, and the store."""
        if not self._is_open:
            return
        try:
            inline, keeper = self._inlines.pop(asyncio.get_running_loop(), (None, None))
            if inline is not None and keeper is not None:
                with suppress(MitaError):  # the database may be gone already
                    await inline.relay()  # rows that are left would stay there
                await keeper.aclose()
        finally:
            await self.app._close_here()  # noqa: SLF001

    @asynccontextmanager
    async def _on_this_loop(self) -> AsyncIterator[None]:
        """For an async test in a lab that was entered by sync code: at the end of the block, end
        what the lab has on the running event loop."""
        try:
            yield
            check_awaited(self._calls)
        except BaseException as error:
            check_awaited(self._calls, error)
            raise
        finally:
            await self._leave_loop()

    def _leave(self) -> None:
        if not self._is_open:
            return
        portal = self.app._portal  # noqa: SLF001
        try:
            if portal.open:
                portal(self._leave_loop())
        finally:
            self._is_open, self._has_left = False, True
            _apps_in_labs.discard(self.app)
            self.app._watch.remove(self._note)  # noqa: SLF001
            self._use_outbox(self._outbox_of_app)
            self._using.__exit__(None, None, None)
            try:
                if self._space.namespace is not None or self._space.scheme == "sqlite":
                    portal(self._space.remove())
            finally:
                if not self._portal_was_open:
                    portal.close()

    def _use_outbox(self, outbox: JobOutbox | None) -> None:
        self.app._outbox = self.app._sender.outbox = outbox  # noqa: SLF001

    def _note(self, signal: Signal) -> None:
        """Note the order in which jobs are enqueued: their ids do not tell it within a
        millisecond."""
        if isinstance(signal, Enqueued):
            for receipt in signal.receipts:
                self._order.setdefault(receipt.id, len(self._order))

    # ------------------------------------------------------------ for the lab

    async def _runner(self) -> LabInline:
        """What runs jobs on the running event loop."""
        self._check_open()
        loop = asyncio.get_running_loop()
        if loop not in self._inlines:
            registry = self.app._registry  # noqa: SLF001
            shared = SharedValues(registry.wiring)
            for provider, value in self._overrides.items():
                shared.override(provider, value)
            store = await self.app.open_store()
            keeper = _close_with_the_loop(shared, store)
            await anext(keeper)
            inline = LabInline(store, registry.known, self.app.kept, self._roll, shared)
            inline.caller, inline.time_limit = self._caller, self._time_limit
            inline.outbox = self._outbox
            self._inlines[loop] = inline, keeper
        return self._inline

    @property
    def _inline(self) -> LabInline:
        """The runner of the running event loop, if it has one."""
        return self._inlines[asyncio.get_running_loop()][0]

    def _run_here(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the `_sync` methods. Sync handlers run on this
        thread."""
        try:
            check_sync("a _sync method of a lab", "await the method without _sync")
            self._check_open()
        except UsageError:
            coro.close()
            raise
        return self._caller.run(self.app._portal, coro)  # noqa: SLF001

    def _check_open(self) -> None:
        if self._has_left:
            raise UsageError("this lab has ended, and its jobs are gone: use it inside its block")
        if not self._is_open:
            raise UsageError("enter the lab first: `with lab(app) as it:`, or `async with`")


async def _close_with_the_loop(shared: SharedValues, store: Store) -> AsyncGenerator[None, None]:
    """End the lifespans and close the store when the lab is left, at the latest when the event loop
    ends."""
    try:
        yield
    finally:
        try:
            await shared.close()
        finally:
            await store.close()
