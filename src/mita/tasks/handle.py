"""A call before it is enqueued, and the handle of a job after it."""

from collections.abc import Awaitable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from mita.model.record import JobRecord

from .limits import CallLimits
from .options import Options

R_co = TypeVar("R_co", covariant=True)


class Call(Struct, Generic[R_co], frozen=True, gc=False):
    """A task with its arguments, validated and serialised, for `app.enqueue`, `app.enqueue_many` or
    `app.repeat`."""

    task: str
    payload: bytes
    options: Options
    resource: str | None = None
    unique: str | None = None
    limits: CallLimits | None = None
    pending: dict[str, Any] | None = None  # arguments of which some are results of other steps


class Tracker(Protocol):
    """What a handle asks about its job."""

    async def get(self, id: str) -> JobRecord | None:
        """Return the job's record; None if it is gone."""

    def get_sync(self, id: str) -> JobRecord | None:
        """`get`, from code that is not async."""

    async def result(self, id: str, timeout: float | None = None) -> Any:
        """Wait until the job has ended and return its result."""

    def result_sync(self, id: str, timeout: float | None = None) -> Any:
        """`result`, from code that is not async."""


class Handle(Struct, Generic[R_co], eq=False, gc=False):
    """An enqueued job. `created` is False when an earlier job has its unique key, or its id if the
    caller chose one: then this is the handle of that job."""

    id: str
    created: bool
    _tracker: Tracker

    async def result(self, timeout: float | None = None) -> R_co:
        """Wait until the job has ended and return what its task returned.

        Raises `JobFailed` with the text of the error, `JobCancelled`, or `TimeoutError` after
        `timeout` seconds."""
        value: R_co = await self._tracker.result(self.id, timeout)
        return value

    def result_sync(self, timeout: float | None = None) -> R_co:
        """`result`, from code that is not async."""
        value: R_co = self._tracker.result_sync(self.id, timeout)
        return value

    async def get(self) -> JobRecord | None:
        """Return the job's record; None if the job was deleted."""
        return await self._tracker.get(self.id)

    def get_sync(self) -> JobRecord | None:
        """`get`, from code that is not async."""
        return self._tracker.get_sync(self.id)

    def __repr__(self) -> str:
        return f"<Handle {self.id}{'' if self.created else ', of an earlier job'}>"


class Sender(Protocol):
    """What a task enqueues its calls with."""

    def send(self, calls: Sequence[Call[Any]]) -> Awaitable[list[Handle[Any]]]:
        """Enqueue these calls and return their handles."""

    def send_sync(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        """`send`, from code that is not async."""

    def within(self, connection: Any) -> "Sender":
        """Return a sender that enqueues in the transaction that is open on the user's
        connection."""
