"""Durable handlers: steps, sleeps and signals.

A handler that sleeps or waits gives up its slot, lease and keys: its run ends here, and later the
handler starts from its top again. What it has done is stored with the job, so the next run passes
it: a step returns its stored result, a sleep that is over returns at once, and a signal that has
come returns its value.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast, overload

import msgspec
from msgspec.structs import replace

from mita.errors import JobCancelled, JobFailed, LeaseLost, UsageError
from mita.model.flow import FlowPlace
from mita.model.job import Claim, NewJob, State
from mita.model.record import DisplayState, StepOutcome
from mita.model.time import LATEST, SECOND, Moment, When
from mita.rules.durable import (
    ARRIVAL,
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
from mita.rules.flow import (
    NO_RESULT,
    child_id,
    child_signal,
    patrol_wait,
    read_child,
    read_told,
    together,
)
from mita.rules.names import check_key
from mita.rules.options import options_of, with_flow
from mita.rules.when import wait
from mita.twins import sync_twin

from .added import AddedDraft
from .annotations import STORABLE, UNREADABLE, in_words, storable
from .awaited import only_awaited
from .calls import not_a_call
from .flow_step import Step
from .handle import Call
from .new_job import job_of_call
from .results import Results
from .run import Run
from .signals import Abort, Suspend
from .stored import UNSTORABLE, encode, plain

P = ParamSpec("P")
T = TypeVar("T")

_NOT_BOTH = (
    "a run cannot add steps (job.add) and complete its job in a transaction of its own "
    "(job.complete_in): let a step after it add them, or return without complete_in"
)


class DurableJob:
    """The verbs of a job whose handler survives restarts."""

    __slots__ = ("_children", "_claim", "_is_completed", "_names", "_run", "_sleeps", "_values")

    def __init__(self, claim: Claim, run: Run) -> None:
        self._claim = claim
        self._run = run
        self._values: dict[str, bytes] | None = None  # read once, at the first of these verbs
        self._names: set[str] = set()  # of this run
        self._sleeps = 0
        self._children = 0
        self._is_completed = False

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
        """Run `fn` once for this job and store its result. A later run of the handler does not call
        it again, and gets the stored result as `fn`'s return annotation says.

        `fn` runs again if the worker dies before the result is stored. Two steps of one name in one
        run are an error."""
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
        """Go on after this delay (seconds or a timedelta). Until then the job has no slot, lease or
        key, and survives restarts. It does not count as an attempt.

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
        """Wait for a signal (`app.signal`) and return its value as `type`. Until it comes the job
        has no slot, lease or key. A signal that came before is returned at once. Raises
        `TimeoutError` if none has come after `timeout` seconds; a later signal is refused then."""
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

    # ------------------------------------------------------------ child jobs

    @only_awaited
    async def run(self, call: Call[T], *, name: str | None = None) -> T:
        """Run another job and return its result. Until it has ended this job has no slot, lease or
        key. Raises `JobFailed` or `JobCancelled` if the child did not succeed. A later run of the
        handler does not start it again.

        Children are numbered in their order. Give a `name` if their order can change between
        runs."""
        if not isinstance(call, Call):
            raise not_a_call(call)
        self._children += 1
        label = str(self._children) if name is None else name
        self._new_name(child_signal, "child", label)
        id = child_id(self._claim.id, label)
        signal = child_signal(id)
        key = signal_name(signal)
        values = await self._stored()
        if key not in values:
            await self._wait_for_child(id, call, signal, key)
        outcome = read_child(values[key])
        if outcome.state is State.SUCCEEDED:
            result: T = self._run.unpack_result(call.task, outcome.result or NO_RESULT)
            return result
        kind = JobFailed if outcome.state is State.FAILED else JobCancelled
        raise kind(id, outcome.error)

    run_sync = sync_twin(run)

    async def _wait_for_child(self, id: str, call: Call[Any], signal: str, key: str) -> None:
        """Start the child, or look whether it has ended. Returns if it has."""
        if wait_name(signal) not in await self._stored():
            await self._run.start_child(_child(id, call, self._claim.id))
            await self._keep(wait_name(signal), pack_durable(NEVER))
        else:
            outcome = await self._run.child_outcome(id)
            if outcome is not None:
                await self._keep(key, outcome)
                return
        pause = patrol_wait(self._run.now - self._claim.created)
        raise self._suspended(Suspend(When(pause), signal))

    # ------------------------------------------------------------ flows

    async def outcomes(self) -> list[StepOutcome]:
        """How the predecessors of this step ended, in the order of their numbers: `number`, `task`,
        `state` and the first line of the `error`. It is for steps with `always=True`; other steps
        start only if all of them succeeded, and this is empty for them."""
        told = (
            read_told(value)
            for name, value in (await self._stored()).items()
            if name.startswith(ARRIVAL)
        )
        ended = sorted(together(told).ended, key=lambda one: one.number)
        return [
            StepOutcome(one.number, one.task, DisplayState(one.state), one.error) for one in ended
        ]

    outcomes_sync = sync_twin(outcomes)

    @only_awaited
    async def add(
        self, call: Call[T], *, after: Iterable[Step[Any]] = (), always: bool = False
    ) -> Step[T]:
        """Add a step to the flow of this job. It is stored if this run succeeds, and starts then,
        or when the steps `after` which it comes have succeeded: those are steps that this run has
        added. The results of added steps can be arguments of others, as in `flow.add`. The flow
        ends when the added steps have ended, too."""
        return self._draft().add(call, after=after, always=always)

    add_sync = sync_twin(add)

    def results(self, steps: Sequence[Step[T]]) -> list[T]:
        """The results of steps that this run has added, as one list, for the arguments of a later
        step."""
        return self._draft().results(steps)

    def _complete(self) -> None:
        """Note that the handler completes its job itself. Raises `UsageError` if it has added
        steps."""
        if self._run.added is not None:
            raise UsageError(_NOT_BOTH)
        self._is_completed = True

    def _draft(self) -> AddedDraft:
        """The steps that this run has added. Raises `UsageError` if this job is in no flow."""
        if self._is_completed:
            raise UsageError(_NOT_BOTH)
        if self._run.added is None:
            place = options_of(self._claim.options).flow
            if place is None or place.counter is None:
                raise UsageError(
                    f"job {self._claim.id} of task {self._claim.task!r} is in no flow, so it can "
                    "add no steps: enqueue it as a step (app.flow), or enqueue other jobs with "
                    "task.enqueue(…)"
                )
            self._run.added = AddedDraft(self._claim.task, self._run.tasks, place)
        return self._run.added

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


def _child(id: str, call: Call[Any], parent: str) -> NewJob:
    """The job of a child."""
    if call.unique is not None:
        raise UsageError(
            f"job.run({call.task}): a child has no unique key: another job could stand for it, and "
            "its parent would wait for ever. Leave unique= out"
        )
    job = job_of_call(id, call, b"")
    return replace(
        job, options=with_flow(job.options, FlowPlace(id, 0, parent=parent)), fresh=False
    )


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
