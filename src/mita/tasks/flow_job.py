"""Handlers and other jobs: children, and the flow of the job.

A handler that waits for a child gives up its slot, lease and keys, as one that waits for a signal
does."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from mita.errors import JobCancelled, JobFailed, UsageError
from mita.model.flow import FlowPlace
from mita.model.job import Claim, NewJob, State
from mita.model.record import DisplayState, StepOutcome
from mita.model.time import When
from mita.rules.durable import ARRIVAL, NEVER, pack_durable, signal_name, wait_name
from mita.rules.flow import (
    NO_RESULT,
    ChildOutcome,
    child_again,
    child_id,
    child_signal,
    patrol_wait,
    read_child,
    read_told,
    together,
)
from mita.rules.options import options_of, with_flow
from mita.twins import sync_twin

from .added import AddedDraft
from .awaited import only_awaited
from .calls import not_a_call
from .durable import DurableJob
from .flow_step import Step
from .handle import Call
from .new_job import job_of_call, refuse_id
from .run import Run
from .signals import Suspend

T = TypeVar("T")

_NOT_BOTH = (
    "a run cannot add steps (job.add) and complete its job in a transaction of its own "
    "(job.complete_in): let a step after it add them, or return without complete_in"
)


class FlowJob(DurableJob):
    """The verbs of a job that has to do with other jobs."""

    __slots__ = ("_children", "_is_completed")

    def __init__(self, claim: Claim, run: Run) -> None:
        super().__init__(claim, run)
        self._children = 0
        self._is_completed = False

    # ------------------------------------------------------------ child jobs

    @only_awaited
    async def run(self, call: Call[T], *, name: str | None = None) -> T:
        """Run another job and return its result. `call` was made with `task.call(…)`. Until it has
        ended this job has no slot, lease or key. Raises `JobFailed` or `JobCancelled` if the child
        did not succeed. A later run of the handler does not start it again.

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
        if outcome.state is not State.SUCCEEDED:
            outcome = await self._after_retries(id, outcome)
        if outcome.state is State.SUCCEEDED:
            result: T = self._run.unpack_result(call.task, outcome.result or NO_RESULT)
            return result
        failure = (JobFailed if outcome.state is State.FAILED else JobCancelled)(id, outcome.error)
        failure.is_lasting = name is None  # with a name, another run may start another child
        raise failure

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

    async def _after_retries(self, id: str, outcome: ChildOutcome) -> ChildOutcome:
        """How a child ended that did not succeed at first: a person may have retried it, alone or
        with this job. If it runs again, this run ends and waits for it."""
        values, number = await self._stored(), 1
        while (key := signal_name(child_again(id, number))) in values:
            outcome, number = read_child(values[key]), number + 1
        if outcome.state is State.SUCCEEDED:
            return outcome
        packed = await self._run.child_outcome(id)
        if packed is None:
            signal = child_again(id, number)
            if wait_name(signal) not in values:
                await self._keep(wait_name(signal), pack_durable(NEVER))
            pause = patrol_wait(self._run.now - self._claim.created)
            raise self._suspended(Suspend(When(pause), signal))
        if read_child(packed).state is not State.SUCCEEDED:  # or it is gone
            return outcome
        return read_child(await self._keep(key, packed))

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
        """Add a step to the flow of this job and return it. `call` was made with `task.call(…)`. It
        is stored if this run succeeds, and starts then, or when the steps `after` which it comes
        have succeeded (with `always`: have ended): those are steps that this run has added. The
        results of added steps can be arguments of others, as in `flow.add`. The flow ends when the
        added steps have ended, too. Raises `UsageError` if the job is in no flow."""
        return self._draft().add(call, after=after, always=always)

    add_sync = sync_twin(add)

    def results(self, steps: Sequence[Step[T]]) -> list[T]:
        """Return the results of `steps` that this run has added, as one list, for the arguments of
        a later step."""
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


def _child(id: str, call: Call[Any], parent: str) -> NewJob:
    """The job of a child."""
    refuse_id(call, "a child job has its id from its parent")
    if call.unique is not None:
        raise UsageError(
            f"job.run({call.task}): a child has no unique key: another job could stand for it, and "
            "its parent would wait for ever. Leave unique= out"
        )
    job = job_of_call(id, call, b"")
    return replace(
        job, options=with_flow(job.options, FlowPlace(id, 0, parent=parent)), fresh=False
    )
