"""Durable handlers: steps, sleeps and signals.

A handler that sleeps or waits gives up its slot, lease and keys: its run ends here, and later the
handler starts from its top again. What it has done is stored with the job, so the next run passes
it: a step returns its stored result, a sleep that is over returns at once, and a signal that has
come returns its value.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast, overload

import msgspec

from mita.errors import LeaseLost, UsageError
from mita.model.job import Claim
from mita.model.time import LATEST, SECOND, Moment, When
from mita.rules.durable import (
    NEVER,
    TIMED_OUT,
    StoredStep,
    described,
    pack_durable,
    read_moment,
    read_step,
    signal_name,
    sleep_name,
    step_name,
    wait_name,
)
from mita.rules.names import check_key
from mita.rules.when import wait
from mita.twins import sync_twin

from .annotations import STORABLE, UNREADABLE, in_words, storable
from .awaited import only_awaited
from .results import Results
from .run import Run
from .signals import Abort, Suspend
from .stored import UNSTORABLE, encode, plain

P = ParamSpec("P")
T = TypeVar("T")


class DurableJob:
    """The verbs of a job whose handler survives restarts."""

    __slots__ = ("_claim", "_names", "_run", "_sleeps", "_values")

    def __init__(self, claim: Claim, run: Run) -> None:
        self._claim = claim
        self._run = run
        self._values: dict[str, bytes] | None = None  # read once, at the first of these verbs
        self._names: set[str] = set()  # of this run
        self._sleeps = 0

    # ------------------------------------------------------------ steps

    @overload
    async def step(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(
        self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @only_awaited
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run `fn` once for this job, with `args` and `kwargs`, store its result under this `name`,
        and return it. A later run of the handler does not call it again, and gets the stored result
        as `fn`'s return annotation says.

        `fn` runs again if the worker dies before the result is stored. Raises `UsageError` for two
        steps of one name in one run, and `LeaseLost` if another worker may have the job."""
        key, results = self._new_name(step_name, "step", name), Results(self._claim.task, fn)
        known = (await self._stored()).get(key)
        if known is None:
            began = time.monotonic()
            with self._run.doing_step(name):
                made = fn(*args, **kwargs)
                value = _packed(name, await made if inspect.isawaitable(made) else made)
            known = await self._keep(key, self._step(value, time.monotonic() - began))
        return self._result(name, known, results)

    def step_sync(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`step` for a handler that is a sync function: `fn` runs on the handler's own thread."""
        key, results = self._new_name(step_name, "step", name), Results(self._claim.task, fn)
        known = self._run_sync(self._stored()).get(key)
        if known is None:
            began = time.monotonic()
            with self._run.doing_step(name):
                value = _packed(name, fn(*args, **kwargs))
            known = self._run_sync(self._keep(key, self._step(value, time.monotonic() - began)))
        return cast(T, self._result(name, known, results))

    def _step(self, value: bytes, seconds: float) -> bytes:
        return pack_durable(StoredStep(self._run.now, seconds, value))

    def _result(self, name: str, known: bytes, results: Results) -> Any:
        try:
            return results.unpack_exactly(read_step(known).value)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Abort(
                f"the stored result of step {name!r} does not fit the return annotation of its "
                f"function ({error}); run code that can read it and retry the job, or give the "
                "step another name"
            ) from error

    # ------------------------------------------------------------ sleeps

    @only_awaited
    async def sleep(self, delay: float | timedelta, *, name: str | None = None) -> None:
        """Go on after this `delay` (seconds or a timedelta). Until then the job has no slot, lease
        or key, and survives restarts. It does not count as an attempt.

        Sleeps are numbered in their order. Give a `name` if their order can change between runs."""
        self._sleeps += 1
        pause = wait("delay", delay)
        key = self._new_name(sleep_name, "sleep", str(self._sleeps) if name is None else name)
        known = (await self._stored()).get(key)
        if known is None:
            known = await self._keep(key, pack_durable(min(self._run.now + pause, LATEST)))
        end = read_moment(known)
        if end > self._run.now:
            raise self._suspended(Suspend(When(end - self._run.now, end)))

    sleep_sync = sync_twin(sleep)

    # ------------------------------------------------------------ signals

    @overload
    async def wait_for(
        self, name: str, *, timeout: float | timedelta | None = ..., type: type[T]
    ) -> T: ...
    @overload
    async def wait_for(self, name: str, *, timeout: float | timedelta | None = ...) -> Any: ...
    @only_awaited
    async def wait_for(
        self, name: str, *, timeout: float | timedelta | None = None, type: Any = Any
    ) -> Any:
        """Wait for the signal of this `name` (`app.signal`) and return its value as `type`. Until
        it comes the job has no slot, lease or key. A signal that came before is returned at once.
        Raises `TimeoutError` if none has come after `timeout` seconds (or a timedelta; None: wait
        for ever); a later signal is refused then. A value that is not of this type fails the job
        (`Abort`)."""
        read, limit = _reader(name, type), _limit(timeout)
        key = self._new_name(signal_name, "signal", name)
        values = await self._stored()
        if key not in values:
            end = await self._end_of_wait(name, limit)
            now = self._run.now
            if end == NEVER or end > now:
                when = When(max(0, (end or LATEST) - now), end or LATEST)
                raise self._suspended(Suspend(when, name))
            values[key] = await self._keep(key, TIMED_OUT)
        if values[key] == TIMED_OUT:
            within = "in time" if limit is None else f"within {limit / SECOND:g} s"
            raise TimeoutError(f"no signal {name!r} came {within}")
        try:
            return read(values[key])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Abort(
                f"the value of signal {name!r} is no {in_words(type)} ({error}); enqueue the job "
                "again and signal it with a value that fits"
            ) from error

    wait_for_sync = sync_twin(wait_for)

    async def _end_of_wait(self, name: str, limit: int | None) -> Moment:
        """When the wait for this signal ends. It is stored at the first wait."""
        key = wait_name(name)
        known = (await self._stored()).get(key)
        if known is None:
            end = NEVER if limit is None else min(self._run.now + limit, LATEST)
            known = await self._keep(key, pack_durable(end))
        return read_moment(known)

    # ------------------------------------------------------------ what is stored

    async def _stored(self) -> dict[str, bytes]:
        if self._values is None:
            self._values = await self._run.recall_all()
        return self._values

    async def _keep(self, key: str, value: bytes) -> bytes:
        """Store a value unless there is one. Returns the stored one."""
        stands = await self._run.remember(key, value, None)
        if stands is None:
            raise LeaseLost(
                f"job {self._claim.id}: the lease expired before {described(key)} could be stored"
            )
        (await self._stored())[key] = stands
        return stands

    def _suspended(self, suspend: Suspend) -> Suspend:
        """Note that this run ends here, even if the handler catches what ends it."""
        self._run.suspended = suspend
        return suspend

    def _new_name(self, key_of: Callable[[str], str], what: str, name: str) -> str:
        """The name under which a value is stored. Raises `UsageError` if this run had it before,
        and raises what ended the run again if the handler has caught it."""
        if self._run.suspended is not None:
            raise self._run.suspended
        key = key_of(check_key(what, name))
        if key in self._names:
            raise UsageError(
                f"{what} {name!r} occurs twice in one run of task {self._claim.task!r}: give each "
                f"{what} a name of its own, for example with a number"
            )
        self._names.add(key)
        return key

    def _run_sync(self, coro: Coroutine[Any, Any, T]) -> T:
        return self._run.call(coro)


def _packed(name: str, value: Any) -> bytes:
    """The bytes of a step's result. Raises `Abort` for one that cannot be stored: the step has had
    its effect, and another run would repeat it."""
    try:
        return encode(value)
    except UNSTORABLE as error:
        if inspect.iscoroutine(value):
            value.close()
            raise UsageError(
                f"step {name!r}: its function is async, and a sync handler cannot await it; give "
                "the step a sync function, or make the handler async and use job.step(…)"
            ) from error
        raise Abort(
            f"step {name!r} returned a value of type {type(value).__qualname__}, which cannot be "
            f"stored ({error}); results of steps are {STORABLE}"
        ) from error


def _limit(timeout: float | timedelta | None) -> int | None:
    limit = None if timeout is None else wait("timeout", timeout)
    if limit == 0:
        raise UsageError(
            f"timeout={timeout!r}: give more than 0 seconds, or None to wait without a time-out"
        )
    return limit


def _reader(name: str, kind: Any) -> Callable[[bytes], Any]:
    """What reads the value of a signal. Raises `UsageError` for a type that cannot be read."""
    try:
        return plain if kind is Any else storable(kind)[1].read
    except UNREADABLE as error:
        raise UsageError(
            f"wait_for({name!r}, type={in_words(kind)}): values of this type cannot be stored "
            f"({error}); values are {STORABLE}"
        ) from error
