"""A job to be, and what its caller holds once it is in the store."""

from collections.abc import Awaitable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from mita.model.record import JobRecord

from .options import Options

R_co = TypeVar("R_co", covariant=True)


class Call(Struct, Generic[R_co], frozen=True, gc=False):
    """A task with its arguments, checked and packed: ready to be enqueued, alone, with many or by a
    repeat."""

    task: str
    payload: bytes
    options: Options
    resource: str | None = None
    unique: str | None = None


class Tracker(Protocol):
    """Where a handle asks after its job."""

    async def get(self, id: str) -> JobRecord | None: ...

    def get_sync(self, id: str) -> JobRecord | None: ...

    async def result(self, id: str, timeout: float | None = None) -> Any: ...

    def result_sync(self, id: str, timeout: float | None = None) -> Any: ...


class Handle(Struct, Generic[R_co], eq=False, gc=False):
    """An enqueued job. `created` is False when its unique key belonged to an earlier job, whose
    handle this then is."""

    id: str
    created: bool
    _tracker: Tracker

    async def result(self, timeout: float | None = None) -> R_co:
        """Wait for the job to end and give what its task returned.

        Raises `JobFailed` with the text of the error, `JobCancelled`, or `TimeoutError` after
        `timeout` seconds."""
        value: R_co = await self._tracker.result(self.id, timeout)
        return value

    def result_sync(self, timeout: float | None = None) -> R_co:
        """`result`, from code that is not async."""
        value: R_co = self._tracker.result_sync(self.id, timeout)
        return value

    async def get(self) -> JobRecord | None:
        """The job's record; None once it is forgotten."""
        return await self._tracker.get(self.id)

    def get_sync(self) -> JobRecord | None:
        """`get`, from code that is not async."""
        return self._tracker.get_sync(self.id)

    def __repr__(self) -> str:
        return f"<Handle {self.id}{'' if self.created else ', of an earlier job'}>"


class Sender(Protocol):
    """How a task reaches its store."""

    def send(self, calls: Sequence[Call[Any]]) -> Awaitable[list[Handle[Any]]]: ...

    def send_sync(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]: ...

    def within(self, connection: Any) -> "Sender":
        """One that sends as part of the transaction that is open on the user's connection."""
