"""Sync tests: the lab runs on the event loop of the app's `_sync` methods, and sync handlers run on
the thread of the test.

A handler then sees what belongs to that thread: the database connection of a Django `TestCase`, a
scoped session, a transaction that the test rolls back."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from mita.sync import Portal

T = TypeVar("T")
Work: TypeAlias = Callable[[], None]


class CallingThread:
    """The thread of a sync test. It waits for the event loop, and meanwhile calls what that asks it
    to call."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Work | None] | None = None

    @property
    def waits(self) -> bool:
        """Whether a thread waits in `run`."""
        return self._work is not None

    def run(self, portal: Portal, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the portal's event loop. Until it ends, this thread calls what
        `call` is given. Returns the value of the coroutine, or raises its error."""
        work: SimpleQueue[Work | None] = SimpleQueue()
        before, self._work = self._work, work
        future = portal.start(coro)
        future.add_done_callback(lambda _: work.put(None))
        try:
            while (one := work.get()) is not None:
                one()
            return future.result()
        except BaseException:  # an interrupted test must not leave its work behind
            future.cancel()
            raise
        finally:
            self._work = before

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function on the thread that waits in `run`. Returns its value, or raises its
        error."""
        work, done = self._work, Future[T]()
        assert work is not None, "no thread waits"  # noqa: S101

        def one() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised on the event loop
                done.set_exception(error)

        work.put(one)
        return await asyncio.wrap_future(done)
