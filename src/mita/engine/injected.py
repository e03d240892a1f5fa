"""Runs of handlers that need more than their arguments: middleware around them, and the values of
providers. Tasks without these never come here."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from mita.tasks.depends import Need, Provider
from mita.tasks.injection import Injection

from .execution import Execution
from .generators import begin, begin_async, end, end_async
from .loop_host import LoopHost
from .shared_values import MISSING, ProcessValues, SharedValues, drive

T = TypeVar("T")


class Side(Protocol):
    """Where a handler runs, and how something async is called there."""

    async def awaited(self, make: Callable[[], Awaitable[T]]) -> T:
        """Return what this coroutine returns."""

    def halt(self) -> None:
        """The run must stop: cancel what it waits for. Called on the event loop."""

    def clean_up(self) -> None:
        """From now on the run cleans up, and is not disturbed."""

    def is_gone(self) -> bool:
        """Whether nothing can be awaited any more."""

    def close(self) -> None:
        """The run has ended."""


class LoopSide:
    """The handler is async: everything runs in its own task, which the worker cancels itself."""

    async def awaited(self, make: Callable[[], Awaitable[T]]) -> T:
        """See `Side`."""
        return await make()

    def halt(self) -> None:
        """See `Side`."""

    def clean_up(self) -> None:
        """See `Side`."""

    def is_gone(self) -> bool:
        """Whether this coroutine is deleted with its event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return True
        return False

    def close(self) -> None:
        """See `Side`."""


class ThreadSide:
    """The handler is on a thread: what is async runs on the worker's event loop, in one task, while
    the thread waits. So these coroutines never wait for a loop themselves."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._host: LoopHost | None = None
        self._is_halted = False
        self._is_cleaning_up = False

    async def awaited(self, make: Callable[[], Awaitable[T]]) -> T:
        """See `Side`."""
        if self._host is None:
            self._host = LoopHost(self._loop)

        async def unless_halted() -> T:
            if self._is_halted and not self._is_cleaning_up:  # it was halted before this began
                raise asyncio.CancelledError
            return await make()

        return self._host.run_from_thread(unless_halted)

    def halt(self) -> None:
        """See `Side`."""
        self._is_halted = True
        if self._host is not None:
            self._host.halt()

    def clean_up(self) -> None:
        """See `Side`."""
        self._is_cleaning_up = True

    def is_gone(self) -> bool:
        """See `Side`."""
        return False

    def close(self) -> None:
        """See `Side`."""
        if self._host is not None:
            self._host.end_from_thread()


class ProcessSide(LoopSide):
    """The handler is in a process of its own, which has no event loop. Nothing async comes here:
    `check_needs` refuses it when the worker is made."""


class Opened(Struct, frozen=True, eq=False):
    """A generator that has to clean up. `where` says what it is for, in messages."""

    provider: Provider
    generator: Any
    where: str
    is_middleware: bool


class InjectedRun:
    """One run. `failure` is an error that a provider or middleware raised, and which."""

    def __init__(self, execution: Execution, injection: Injection, side: Side) -> None:
        self._execution, self._injection, self._side = execution, injection, side
        self._shared: SharedValues = execution.context.shared
        self._job = injection.job_class(execution.claim, execution)
        self._values: dict[Callable[..., Any], Any] = {}
        self._opened: list[Opened] = []
        self.is_cleaning_up = False
        self.failure: tuple[BaseException, str] | None = None

    def halt(self) -> None:
        """The run must stop; called on the event loop."""
        self._side.halt()

    async def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the handler, and clean up however it ends. Returns its value; raises its error, or
        that of a provider or middleware."""
        value, error = None, None
        try:
            value = await self._inside(args, kwargs)
        except BaseException as raised:  # noqa: BLE001 - raised again below
            error = raised
        self.is_cleaning_up = True
        self._side.clean_up()
        try:
            while self._opened:
                error = await self._end(self._opened.pop(), value, error)
            if error is not None:
                raise error
            return value
        finally:
            self._side.close()
            # what refers back to this run would keep it until the garbage collector finds it
            del error, self._execution, self._job, self._values

    async def _inside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        injection, job, task = self._injection, self._job, self._execution.task
        for middleware in self._shared.wiring.middlewares:
            where = f"middleware {middleware.label}"
            await self._begin(middleware, await self._needs(middleware), where, True)
        for need in injection.attributes:
            setattr(job, need.name, await self._value(need, injection.job_class.__qualname__))
        values = {need.name: await self._value(need, "the task") for need in injection.needs}
        positional, named = injection.arranged(job, args, kwargs, values)
        if self._execution.stop is not None:  # a thread is not told otherwise
            raise asyncio.CancelledError
        made = task.fn(*positional, **named)
        return await made if task.is_async else made

    async def _needs(self, provider: Provider) -> dict[str, Any]:
        values = {
            need.name: await self._value(need, f"provider {provider.label}")
            for need in provider.needs
        }
        return {**values, **dict.fromkeys(provider.job_parameters, self._job)}

    async def _value(self, need: Need, owner: str) -> Any:
        known = self._shared.known(need)
        if known is not MISSING:
            return known
        provider = need.provider
        where = f"provider {provider.label}, for {need.name!r} of {owner}"
        if self._shared.is_shared(need):
            try:
                return await self._side.awaited(lambda: self._shared.get(provider))
            except BaseException as error:
                self._note(error, where)
                raise
        if provider.fn not in self._values:
            needs = await self._needs(provider)
            self._values[provider.fn] = await self._begin(provider, needs, where, False)
        return self._values[provider.fn]

    async def _begin(
        self, provider: Provider, needs: dict[str, Any], where: str, is_middleware: bool
    ) -> Any:
        try:
            made = provider.call(**needs)
            if not provider.yields:
                return await self._side.awaited(lambda: made) if provider.is_async else made
            if provider.is_async:
                value = await self._side.awaited(lambda: begin_async(made, provider.label))
            else:
                value = begin(made, provider.label)
        except BaseException as error:
            self._note(error, where)
            raise
        self._opened.append(Opened(provider, made, where, is_middleware))
        return value

    async def _end(
        self, opened: Opened, value: Any, error: BaseException | None
    ) -> BaseException | None:
        """Let a generator clean up. Middleware sees what the handler returned. Returns the error
        that stands then."""
        generator, label = opened.generator, opened.provider.label
        sent = value if opened.is_middleware else None
        if not opened.provider.is_async:
            stands = end(generator, label, sent, error)
        elif isinstance(error, GeneratorExit) and self._side.is_gone():
            return error
        else:
            try:
                stands = await self._side.awaited(lambda: end_async(generator, label, sent, error))
            except BaseException as raised:  # noqa: BLE001 - it was cancelled, or the loop is gone
                stands = raised
        if stands is not None and stands is not error:
            self._note(stands, f"the clean-up of {opened.where}")
        return stands

    def _note(self, error: BaseException, where: str) -> None:
        """Remember who raised an error. An error of a provider also passes those that need it."""
        if self.failure is None or self.failure[0] is not error:
            self.failure = error, where


def call_injected(
    execution: Execution, injection: Injection, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a handler with what it needs. Returns its value, or a coroutine if it is async."""
    side: Side
    if execution.task.is_async:
        side = LoopSide()
    elif isinstance(execution.context.shared, ProcessValues):
        side = ProcessSide()
    else:
        side = ThreadSide(execution.context.loop)
    execution.injected = run = InjectedRun(execution, injection, side)
    called = run.call(args, kwargs)
    return called if execution.task.is_async else drive(called)
