"""A task on the worker's event loop that runs coroutines one after the other.

An async generator must end in the task in which it began: it may contain a time-out or a task
group. A handler on a thread has no task of its own, and values that all runs share outlive the task
that first needed them."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

_Make: TypeAlias = Callable[[], Awaitable[Any]]
# what a call returned, or the error that it raised: a task that raised SystemExit would end the
# event loop
Outcome: TypeAlias = tuple[Any, BaseException | None]
_Waiting: TypeAlias = "asyncio.Future[Outcome] | Future[Outcome]"


class LoopHost:
    """Starts its task at the first call."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._todo: asyncio.Queue[tuple[_Make, _Waiting] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._is_busy = False
        self._is_halting = False

    async def run(self, make: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine, from the event loop. It goes on if the caller is cancelled."""
        waiting: asyncio.Future[Outcome] = self._loop.create_future()
        self._add(make, waiting)
        value: T = _unpacked(await asyncio.shield(waiting))
        return value

    def run_from_thread(self, make: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine, from a handler's thread, and wait for it."""
        waiting: Future[Outcome] = Future()
        self._loop.call_soon_threadsafe(self._add, make, waiting)
        value: T = _unpacked(waiting.result())
        return value

    def halt(self) -> None:
        """Cancel the coroutine that runs now, if one does. On the event loop only."""
        if self._task is not None and self._is_busy:
            self._is_halting = True
            self._task.cancel()

    def end_from_thread(self) -> None:
        """End the task, from a handler's thread."""
        self._loop.call_soon_threadsafe(self._todo.put_nowait, None)

    @property
    def has_ended(self) -> bool:
        """Whether the task has ended, for example because the event loop ends."""
        return self._task is not None and self._task.done()

    async def end(self) -> None:
        """End the task, from the event loop."""
        if self._task is not None:
            self._todo.put_nowait(None)
            await asyncio.wait([self._task])

    def _add(self, make: _Make, waiting: _Waiting) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._serve(), name="mita-host")
        if self._task.done():
            waiting.set_result((None, _ended()))
            return
        self._todo.put_nowait((make, waiting))

    async def _serve(self) -> None:
        try:
            while (item := await self._todo.get()) is not None:
                make, waiting = item
                outcome = await self._outcome(make)
                if not waiting.done():
                    waiting.set_result(outcome)
                if isinstance(outcome[1], asyncio.CancelledError) and not self._is_halting:
                    return  # the event loop ends, and cancels all tasks
                self._is_halting = False
        finally:
            while not self._todo.empty():
                if (left := self._todo.get_nowait()) is not None and not left[1].done():
                    left[1].set_result((None, _ended()))

    async def _outcome(self, make: _Make) -> Outcome:
        self._is_busy = True
        try:
            return await make(), None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self._is_halting and task is not None:
                task.uncancel()
            return None, error
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            return None, error
        finally:
            self._is_busy = False


def _unpacked(outcome: Outcome) -> Any:
    value, error = outcome
    if error is not None:
        raise error
    return value


def _ended() -> RuntimeError:
    return RuntimeError("the worker has ended")
