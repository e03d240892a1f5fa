"""What a worker gives to the handler of a job."""

from collections.abc import Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from mita.model.job import NewJob
from mita.model.time import Moment, Wait

from .added import AddedDraft
from .flow_draft import KnownTask
from .signals import Suspend

T = TypeVar("T")


class Run(Protocol):
    """What the worker gives a job while it runs. `report` raises `LeaseLost` if the run no longer
    has its job. `suspended` is what ends the run, once its handler sleeps or waits. `added` are the
    steps that the handler has added to its flow."""

    suspended: Suspend | None
    added: AddedDraft | None

    @property
    def cancelled(self) -> bool:
        """Whether this run should stop."""

    @property
    def tasks(self) -> Mapping[str, KnownTask]:
        """The tasks that the worker knows."""

    @property
    def now(self) -> Moment:
        """The store's time, as far as this run knows it: the time of the claim, and what has passed
        since then."""

    async def report(self, packed: bytes) -> None:
        """Store the progress of the run."""

    async def recall(self, name: str, shared: bool) -> bytes | None:
        """Return the value that is stored under this name; None if there is none."""

    async def recall_all(self) -> dict[str, bytes]:
        """Return all values that this job has stored, by name, and its signals."""

    async def take_once(self, name: str) -> bytes | None:
        """Return the value that all jobs share under this name, as soon as there is one. None: no
        run computes it now, so this run has to, and then calls `release_once`."""

    async def release_once(self, name: str) -> None:
        """Let other runs compute the shared value of this name."""

    async def remember(self, name: str, value: bytes, keep: Wait | None) -> bytes | None:
        """Store a value under this name, unless there is one. Returns the stored value."""

    def doing_step(self, name: str) -> AbstractContextManager[None]:
        """What is around the function of a step, for traces."""

    async def start_child(self, job: NewJob) -> None:
        """Enqueue a child of this job; one that exists stays as it is."""

    async def child_outcome(self, id: str) -> bytes | None:
        """How a child has ended (`rules.flow.ChildOutcome`, packed); None if it has not."""

    def unpack_result(self, task: str, packed: bytes) -> Any:
        """Return the result of a task, by its return annotation if the worker knows the task."""

    async def complete(self, connection: Any, result: bytes) -> None:
        """Settle the job as succeeded in the user's transaction."""

    def complete_sync(self, connection: Any, result: bytes) -> None:
        """`complete`, from a sync function."""

    def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the worker's event loop, from a handler's thread."""
