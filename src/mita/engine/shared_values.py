"""Values that all runs of a worker share: those of lifespans and of providers with the scope
`worker`."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from mita.errors import MitaError, UsageError
from mita.tasks.depends import Need, Provider
from mita.tasks.injection import Wiring

from .generators import begin, begin_async, end, end_async
from .loop_host import LoopHost, Outcome

T = TypeVar("T")

log = logging.getLogger("mita.worker")

MISSING = object()  # no value yet


class SharedValues:
    """The shared values of one worker. A lifespan is entered by `start`, a provider when a run
    first needs it; `close` ends them, the last first. `wiring` is what the app declares."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self._made: dict[Callable[..., Any], Any] = {}
        self._overrides: dict[Callable[..., Any], Any] = {}
        self._making: dict[Callable[..., Any], asyncio.Task[Outcome]] = {}
        self._opened: list[tuple[Provider, Any]] = []
        self._host: LoopHost | None = None
        # values are made in it, and not in the context of the run that first needs one
        self._clean_context = copy_context()
        self._is_closing = False

    def override(self, fn: Callable[..., Any], value: Any) -> None:
        """Use this value from now on instead of what the provider makes."""
        self._overrides[fn] = value

    def known(self, need: Need) -> Any:
        """The value, if it is there and belongs to no single run; else `MISSING`."""
        fn = need.provider.fn
        if fn in self._overrides:
            return self._overrides[fn]
        return self._made.get(fn, MISSING) if self.is_shared(need) else MISSING

    def is_shared(self, need: Need) -> bool:
        """Whether all runs share this value."""
        return need.scope == "worker" or self.wiring.is_lifespan(need.provider.fn)

    async def start(self) -> None:
        """Enter the lifespans of the app. Raises `MitaError` if one fails."""
        for provider in self.wiring.lifespans:
            if provider.fn in self._overrides:
                continue
            try:
                await self.get(provider)
            except Exception as error:
                raise MitaError(
                    f"the lifespan {provider.label} failed, so the worker does not start: "
                    f"{type(error).__name__}: {error}"
                ) from error

    async def get(self, provider: Provider) -> Any:
        """Return the value of a shared provider. The first run that needs it has it made, others
        wait for that. If it fails, the next run tries again."""
        fn = provider.fn
        if fn in self._made:
            return self._made[fn]
        if fn not in self._making:
            # a task of its own: it goes on if the run that needs it is stopped
            making, context = self._make(provider), self._clean_context.copy()
            self._making[fn] = context.run(asyncio.create_task, making)
        value, error = await asyncio.shield(self._making[fn])
        if error is not None:
            raise error
        return value

    async def _make(self, provider: Provider) -> Outcome:
        if self._host is None:
            self._host = LoopHost(asyncio.get_running_loop())
        host = self._host
        try:
            needs = await self._needs(provider)
            value = await host.run(lambda: self._enter(provider, needs))
        except BaseException as error:  # noqa: BLE001 - it belongs to the runs that wait for it
            return None, error
        finally:
            self._making.pop(provider.fn, None)
        self._made[provider.fn] = value
        return value, None

    async def _needs(self, provider: Provider) -> dict[str, Any]:
        values = {}
        for need in provider.needs:
            known = self.known(need)
            values[need.name] = await self.get(need.provider) if known is MISSING else known
        return values

    async def _enter(self, provider: Provider, needs: dict[str, Any]) -> Any:
        """Call the provider, or begin its generator."""
        if self._is_closing:
            raise asyncio.CancelledError
        if not provider.yields:
            made = provider.call(**needs) if provider.is_async else None
            return await (self._called(lambda: provider.call(**needs)) if made is None else made)
        generator = provider.call(**needs)
        if provider.is_async:
            value = await begin_async(generator, provider.label)
        else:
            value = await self._called(lambda: begin(generator, provider.label))
        self._opened.append((provider, generator))
        return value

    async def _called(self, call: Callable[[], Any]) -> Any:
        """Call something sync. It may take long, for example to load a model, so it gets a thread:
        the event loop goes on."""

        def boxed() -> Outcome:
            try:
                return call(), None
            except BaseException as error:  # noqa: BLE001 - a future cannot carry every error
                return None, error

        value, error = await asyncio.to_thread(boxed)
        if error is not None:
            raise error
        return value

    async def close(self) -> None:
        """Clean up, the last value first. What fails is logged, and what is being made is
        stopped."""
        self._is_closing = True
        while self._making and self._host is not None:
            self._host.halt()
            making = list(self._making.values())
            await asyncio.wait(making, return_when=asyncio.FIRST_COMPLETED)
        if self._host is None or self._host.has_ended:
            await self._close()
        else:
            await self._host.run(self._close)
            await self._host.end()
        self._made.clear()

    async def _close(self) -> None:
        while self._opened:
            provider, generator = self._opened.pop()
            error = await self._end(provider, generator)
            if error is not None:
                log.error("the clean-up of %s failed", provider.label, exc_info=error)

    async def _end(self, provider: Provider, generator: Any) -> BaseException | None:
        if provider.is_async:
            return await end_async(generator, provider.label, None, None)
        error: BaseException | None = await self._called(
            lambda: end(generator, provider.label, None, None)
        )
        return error


class ProcessValues(SharedValues):
    """The shared values of a handler process. It has no event loop, and runs one job at a time, so
    everything happens at once and on its main thread."""

    async def get(self, provider: Provider) -> Any:
        """See `SharedValues`."""
        if provider.fn not in self._made:
            needs = await self._needs(provider)
            entering = self._enter(provider, needs)
            self._made[provider.fn] = self._clean_context.run(drive, entering)
        return self._made[provider.fn]

    async def _called(self, call: Callable[[], Any]) -> Any:
        return call()

    async def close(self) -> None:
        """See `SharedValues`."""
        self._clean_context.run(drive, self._close())


def drive(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits for an event loop."""
    try:
        coro.send(None)
    except StopIteration as ended:
        value: T = ended.value
        return value
    coro.close()
    raise UsageError("something async was called where there is no event loop")
