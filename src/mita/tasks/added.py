"""Steps that a running handler adds to its flow."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.flow import AddedSteps, Addition, FlowPlace
from mita.model.time import NOW
from mita.rules.flow import ADDED_TASK
from mita.rules.flow_plan import plan_addition

from .flow_draft import FlowDraft, KnownTask, flow_job
from .flow_step import Step
from .handle import Call

R = TypeVar("R")


class AddedDraft(FlowDraft):
    """The steps that one run of a handler has added. They are stored if the run succeeds. `adder`
    is the place of its step."""

    _adds = "job.add(…) of this run"

    def __init__(self, name: str, tasks: Mapping[str, KnownTask], adder: FlowPlace) -> None:
        super().__init__(name, tasks)
        # only what is needed to tell the counter of the adder
        self._adder = FlowPlace(adder.flow, adder.number, counter=adder.counter)

    def add(
        self, call: Call[R], *, after: Iterable[Step[Any]] = (), always: bool = False
    ) -> Step[R]:
        """See `FlowDraft`. Every added step waits, at least for its adder."""
        step = super().add(call, after=after, always=always)
        if call.options.when is not NOW:
            self._steps.pop()
            raise UsageError(
                f"task {call.task!r}: an added step starts when the step that adds it has "
                "succeeded: leave out .at(…) and .after(…), or let its handler call job.sleep(…)"
            )
        return step

    def added(self, flow: str, result: bytes) -> AddedSteps:
        """All jobs of the addition, which is the flow with this id. `result` is that of the
        adder."""
        steps = self._planned()
        spec, jobs, sources = plan_addition(flow, self.name, steps)
        own = flow_job(ADDED_TASK, steps[0].queue, flow, spec, self._adder)
        addition = Addition(flow, own.queue, spec.needs + 1, sources, result)
        # a worker whose store is unreachable for a moment stores them again
        every = tuple(replace(job, fresh=False) for job in (own, *map(self._job, jobs)))
        return AddedSteps(addition, every)
