"""A step of a flow that is being built."""

from types import NoneType
from typing import Any, Generic, TypeVar, cast

from mita.errors import UsageError
from mita.tasks.placeholders import ResultOf

R_co = TypeVar("R_co", covariant=True)


class Step(Generic[R_co]):
    """A step of a flow. `result` is its result as an argument of a later step."""

    WHY_NOT_STORED = "it is a step: give its result, step.result"

    __slots__ = ("_kind", "flow", "number", "task")

    def __init__(self, flow: object, number: int, task: str, kind: Any) -> None:
        self.flow = flow
        self.number = number
        self.task = task
        self._kind = kind

    @property
    def has_result(self) -> bool:
        """Whether the task returns something."""
        return self._kind not in (None, NoneType)

    @property
    def result(self) -> R_co:
        """What the step returns, for the arguments of a later step of this flow. Until the flow
        runs it is a placeholder; for a type checker it has the type of the value. Raises
        `UsageError` if its task returns nothing."""
        if not self.has_result:
            raise UsageError(
                f"step {self.number} has no result: task {self.task!r} returns None. To run a step "
                "after it, use flow.add(…, after=[step])"
            )
        return cast(R_co, ResultOf(self.flow, [self.number], [self._kind], is_list=False))

    def __repr__(self) -> str:
        return f"<Step {self.number}, {self.task}>"
