"""Enqueuing as part of a transaction of the user's own."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from mita.errors import UsageError
from mita.events import Emit
from mita.events.signals import Enqueued
from mita.model.job import NewJob, Receipt
from mita.ports.clock import wall_clock
from mita.ports.store import Store, transactional
from mita.tasks import Call, Handle
from mita.tasks.handle import Sender, Tracker
from mita.traces import Sending, sending

from .enqueue import new_jobs


class OpenSync(Protocol):
    """Opens the store, from code that is not async."""

    def __call__(self) -> Store: ...


class TransactionalSender:
    """Sends on `connection`, which is inside a transaction that only the user ends."""

    def __init__(
        self,
        connection: Any,
        open_store: Callable[[], Awaitable[Store]],
        open_sync: OpenSync,
        tracker: Tracker,
        emit: Emit,
    ) -> None:
        self._connection, self._open, self._open_sync, self._tracker = (
            connection,
            open_store,
            open_sync,
            tracker,
        )
        self._emit = emit

    async def send(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        store = transactional(await self._open())
        with sending(calls) as trace:
            jobs = new_jobs(calls, trace.headers)
            return self._handles(jobs, await store.enqueue_in(self._connection, jobs), trace)

    def send_sync(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        """`send`, from code that is not async, on the caller's own thread: that is where the
        connection may be used."""
        store = transactional(self._open_sync())
        with sending(calls) as trace:
            jobs = new_jobs(calls, trace.headers)
            return self._handles(jobs, store.enqueue_in_sync(self._connection, jobs), trace)

    def within(self, connection: Any) -> Sender:  # noqa: ARG002
        raise UsageError("this call is part of a transaction already: say using(…) once")

    def _handles(
        self, jobs: list[NewJob], receipts: list[Receipt], trace: Sending
    ) -> list[Handle[Any]]:
        # whether the user will commit, nobody can know
        self._emit(Enqueued(jobs, receipts, wall_clock()))
        handles: list[Handle[Any]] = [
            Handle(receipt.id, receipt.created, self._tracker) for receipt in receipts
        ]
        trace.sent(handles)
        return handles
