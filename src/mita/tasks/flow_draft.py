"""The steps of a flow that is being built: in a client, or by the handler of a step."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.flow import MOST_STEPS, FlowPlace
from mita.model.job import NewJob
from mita.model.time import LATEST, NOW, When
from mita.rules.flow import FLOW_PRIORITY, FLOW_TASK, GATHER_TASK, patrol_wait, step_id
from mita.rules.flow_plan import FlowSpec, PlannedJob, PlannedStep, pack_spec, plan, rows_of
from mita.rules.options import with_flow

from .calls import check_call
from .flow_step import Step
from .handle import Call
from .new_job import job_of_call, refuse_id
from .placeholders import Places, ResultOf, as_extension, found_in, pack_arguments

R = TypeVar("R")

UNTIL_TOLD = When(at=LATEST)


class KnownTask(Protocol):
    """A task, as a flow knows it."""

    @property
    def result_kind(self) -> Any:
        """The type of what the task returns."""


class _Added:
    """A step as it was added: its call, and the steps that it waits for."""

    __slots__ = ("after", "always", "call")

    def __init__(self, call: Call[Any], after: list[int], always: bool) -> None:
        self.call, self.after, self.always = call, after, always


class FlowDraft:
    """Steps that were added to a flow and are not stored yet."""

    _adds = "flow.add(…)"  # what adds a step, in the words of an error

    def __init__(self, name: str, tasks: Mapping[str, KnownTask]) -> None:
        self.name = name
        self._tasks = tasks
        self._steps: list[_Added] = []
        self._closed = ""  # why no steps can be added any more

    def add(
        self, call: Call[R], *, after: Iterable[Step[Any]] = (), always: bool = False
    ) -> Step[R]:
        """Add a step and return it. `call` was made with `task.call(…)`; its arguments may be
        `step.result` of steps that were added before. It starts when the steps `after` which it
        comes, and those whose results are its arguments, have succeeded. If one of them fails or is
        cancelled, it is cancelled. With `always` it starts however they end. Raises `UsageError`
        for a step of another flow, for options that a step cannot have, and for too many steps."""
        if self._closed:
            raise UsageError(self._closed)
        check_call(call, self._tasks)
        wanted = list(dict.fromkeys(n for ref in found_in(call.pending) for n in self._own(ref)))
        _check_step(call, wanted, always)
        waits = [*wanted, *map(self._number, listed("after", after))]
        if len(self._steps) == MOST_STEPS:
            raise UsageError(f"a flow has at most {MOST_STEPS:,} steps: make several flows")
        if waits and call.options.when is not NOW:
            raise UsageError(
                f"task {call.task!r}: a step that waits for others starts when they have ended: "
                "leave out .at(…) and .after(…), or let its handler call job.sleep(…)"
            )
        self._steps.append(_Added(call, list(dict.fromkeys(waits)), always))
        return self._step(len(self._steps))

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        """All steps, in the order in which they were added."""
        return tuple(self._step(number) for number in range(1, len(self._steps) + 1))

    def _step(self, number: int) -> Step[Any]:
        task = self._steps[number - 1].call.task
        return Step(self, number, task, self._tasks[task].result_kind)

    def results(self, steps: Sequence[Step[R]]) -> list[R]:
        """Return the results of these `steps` as one list, for the arguments of a later step.
        Raises `UsageError` if there are none."""
        numbers = [self._number(step) for step in listed("results", steps)]
        if not numbers:
            raise UsageError("results([]): give at least one step")
        kinds = [cast(ResultOf, step.result).kinds[0] for step in steps]
        return cast(list[R], ResultOf(self, numbers, kinds, is_list=True))

    # ------------------------------------------------------------ from steps to jobs

    def _own(self, ref: ResultOf) -> tuple[int, ...]:
        if ref.flow is not self:
            raise UsageError(
                f"flow {self.name!r}: an argument is the result of a step of another flow; use "
                "results of steps of this flow, or make it one flow"
            )
        return ref.steps

    def _number(self, step: Step[Any]) -> int:
        if not isinstance(step, Step):
            raise UsageError(f"{step!r} is not a step: give what {self._adds} returned")
        if step.flow is not self:
            raise UsageError(
                f"{step!r} is a step of another flow than {self.name!r}: give steps that were "
                f"added to this one, by {self._adds}"
            )
        if not 0 < step.number <= len(self._steps):
            raise UsageError(
                f"{step!r} was not made by {self._adds}: a step waits for earlier ones"
            )
        return step.number

    def _jobs(
        self, flow: str, headers: bytes = b"", *, in_transaction: bool = False
    ) -> tuple[FlowSpec, list[NewJob]]:
        """All jobs of the flow with this id, its own first, in the order in which they are
        stored. `headers` carries the trace of the enqueue. `in_transaction`: all of them are stored
        in one transaction."""
        if not self._steps:
            raise UsageError(f"flow {self.name!r} has no steps: add some with flow.add(…)")
        steps = self._planned()
        spec, jobs = plan(flow, self.name, steps, in_transaction=in_transaction)
        own = flow_job(FLOW_TASK, steps[0].queue, flow, spec)
        return spec, [own, *(self._job(job, headers) for job in jobs)]

    def _planned(self) -> list[PlannedStep]:
        return [
            PlannedStep(
                one.call.options.queue,
                one.after,
                frozenset(n for ref in found_in(one.call.pending) for n in ref.steps),
                one.always,
            )
            for one in self._steps
        ]

    def _job(self, planned: PlannedJob, headers: bytes = b"") -> NewJob:
        place = planned.place
        id = step_id(place.flow, place.number)
        if planned.step is None:
            return _own_job(id, GATHER_TASK, planned.queue, place)
        added = self._steps[planned.step]
        job = job_of_call(id, _whole(added), headers)
        when = UNTIL_TOLD if place.needs else job.when
        return replace(job, options=with_flow(job.options, place), when=when)


def listed(what: str, steps: Iterable[Step[Any]]) -> list[Step[Any]]:
    """The steps as a list. Raises `UsageError` for one step that is in no list."""
    if isinstance(steps, Step) or not isinstance(steps, Iterable):
        raise UsageError(f"{what}: {steps!r} is no list of steps: write [step]")
    return list(steps)


def _check_step(call: Call[Any], wanted: Sequence[int], always: bool) -> None:
    refuse_id(call, "a step has its id from its flow")
    if call.unique is not None:
        raise UsageError(
            f"task {call.task!r}: a step of a flow has no unique key: another job could stand for "
            "it, and its flow would wait for ever. Leave unique= out"
        )
    if always and wanted:
        raise UsageError(
            f"task {call.task!r}: a step with always=True starts even if others failed, and they "
            "have no result then: use after=[…], and let the handler read await job.outcomes()"
        )


def _whole(added: _Added) -> Call[Any]:
    """The call of a step, with the places of the results among its arguments."""
    call = added.call
    if call.pending is None:
        return call
    places = {number: place for place, number in enumerate(added.after)}

    def extension(ref: ResultOf) -> Any:
        found = [places[number] for number in ref.steps]
        in_order = found == sorted(found)
        rows = rows_of(found) if in_order else tuple((place, place) for place in found)
        return as_extension(Places(rows, ref.is_list))

    return replace(call, payload=pack_arguments(call.pending, extension), pending=None)


def flow_job(
    task: str, queue: str, flow: str, spec: FlowSpec, adder: FlowPlace | None = None
) -> NewJob:
    """The own job of the flow with this id. It is told by `spec.needs` jobs, and that the flow is
    stored."""
    own = _own_job(flow, task, queue, FlowPlace(flow, 0, spec.needs + 1, adder=adder))
    return replace(own, payload=pack_spec(spec), when=When(patrol_wait(0, spec.steps)))


def _own_job(id: str, task: str, queue: str, place: FlowPlace) -> NewJob:
    """A job of the flow that runs no code of the user."""
    return NewJob(
        id=id,
        task=task,
        queue=queue,
        payload=b"",
        options=with_flow(b"", place),
        priority=FLOW_PRIORITY,
        when=UNTIL_TOLD,
        fresh=True,
    )
