"""Running async code from sync code: one event loop on its own thread."""

import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any, TypeVar

from mita import forks
from mita.errors import MitaError, UsageError

T = TypeVar("T")


# by process and thread: how many workers run on it
_loops_with_jobs: Counter[tuple[int, int]] = Counter()


@contextmanager
def runs_jobs() -> Iterator[None]:
    """Note, until the end of the block, that the event loop of this thread runs jobs."""
    here = os.getpid(), threading.get_ident()
    _loops_with_jobs[here] += 1
    try:
        yield
    finally:
        _loops_with_jobs[here] -= 1


def check_may_wait(called: str, instead: str) -> None:
    """Raise `UsageError` if this thread's event loop runs jobs: a call that waits for a job there
    would wait for ever."""
    if _loops_with_jobs[os.getpid(), threading.get_ident()]:
        raise UsageError(
            f"{called} blocks the event loop of this worker, which would have to run the job "
            "that it waits for. In an async "
            f"handler use {instead}; or make the handler a sync function, which runs on a thread"
        )


# event loops that serve requests: a call that blocks one of them delays all requests
_serving_loops: Counter[asyncio.AbstractEventLoop] = Counter()


@contextmanager
def serves_requests() -> Iterator[None]:
    """Note, until the end of the block, that the running event loop serves web requests. A `_sync`
    method that is called on it raises `UsageError`."""
    loop = asyncio.get_running_loop()
    _serving_loops[loop] += 1
    try:
        yield
    finally:
        _serving_loops[loop] -= 1
        if not _serving_loops[loop]:
            del _serving_loops[loop]


def _check_may_block() -> None:
    """Raise `UsageError` if this is the event loop of a web server."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if loop in _serving_loops and not _is_in_greenlet():
        raise UsageError(
            "a _sync method was called on the event loop of the web server, where it would delay "
            "all requests: `await` the method without _sync, or make the endpoint (or handler) "
            "a plain `def`, which runs on a thread"
        )


def _is_in_greenlet() -> bool:
    """Whether sync code is run by async code, as `AsyncSession.run_sync` of SQLAlchemy does it."""
    greenlet = sys.modules.get("greenlet")
    return greenlet is not None and greenlet.getcurrent().parent is not None


class Portal:
    """Runs coroutines on an event loop in a thread of its own. The thread starts at the first call;
    after a fork the child starts its own. `on_close` is awaited before the loop stops.

    A program that ends without `close` loses nothing: the results of all calls are in the store,
    and the thread is a daemon. (At that point the executors that `on_close` may need are gone.)"""

    def __init__(self, on_close: Callable[[], Awaitable[None]]) -> None:
        self._on_close = on_close
        self._starting = forks.guarded(threading.Lock())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        forks.renewed(self, Portal._renew)

    def __call__(self, coro: Coroutine[Any, Any, T], /) -> T:
        """Run a coroutine to its end and return its value."""
        if self.open and threading.current_thread() is self._thread:
            coro.close()
            raise UsageError(
                "a _sync method was called on the event loop that serves it, which would wait "
                "for itself"
            )
        if _serving_loops:
            try:
                _check_may_block()
            except UsageError:
                coro.close()
                raise
        return self._run(self._running_loop(), coro)

    def start(self, coro: Coroutine[Any, Any, T], /) -> Future[T]:
        """Start a coroutine, and return a future with its value."""
        return asyncio.run_coroutine_threadsafe(coro, self._running_loop())

    @property
    def open(self) -> bool:
        """Whether the thread has started."""
        return self._loop is not None

    def _renew(self) -> None:
        """In a forked child: the parent's thread is not there, and its loop must not be used."""
        forks.keep_for_ever(self._loop, self._thread)
        self._loop = self._thread = None

    def close(self) -> None:
        """Await `on_close` and stop the thread. The next call starts it again."""
        loop, thread = self._loop, self._thread
        if not self.open or loop is None or thread is None:
            return
        try:
            self._run(loop, self._await_on_close())
        finally:
            self._loop = self._thread = None
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    async def _await_on_close(self) -> None:
        """`on_close` as a coroutine, which `_run` needs."""
        await self._on_close()

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coro, loop)
        try:
            return future.result()
        except CancelledError:
            raise MitaError(
                "the app was closed during this call; the call may have reached the store"
            ) from None
        except BaseException:  # an interrupted caller must not leave its work behind
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            return self._loop or self._start()

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(loop,), name="mita-sync", daemon=True)
        self._thread.start()
        self._loop = loop
        return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_cancel_the_rest())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _cancel_the_rest() -> None:
    """Cancel the calls that were running when the loop stopped: their callers must not wait for
    ever."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
