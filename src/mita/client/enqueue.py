"""Enqueuing: from calls to jobs in the store."""

import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeAlias

from mita.errors import UsageError
from mita.events import ClientEvents
from mita.events.signals import Enqueued
from mita.model.job import NewJob, Receipt
from mita.ports.acting import ACTING
from mita.ports.ahead import one_ahead
from mita.ports.clock import wall_clock
from mita.ports.ids import new_id, new_ids
from mita.ports.outbox import JobOutbox
from mita.ports.store import Store
from mita.ports.transactional import transactional
from mita.rules.claim_size import CALL_JOBS
from mita.tasks import Call, Handle
from mita.tasks.handle import Sender, Tracker
from mita.tasks.new_job import job_of_call
from mita.traces import TRACING, Sending, sending, tracer
from mita.twins import RunSync

from .acting import Act, AuditRecorder, of_calls

ENQUEUE_BYTES = 16_000_000  # of arguments in one call to a store
OpenStore: TypeAlias = Callable[[], Coroutine[Any, Any, Store]]  # for the running event loop
UNCHECKED_JOBS = 50  # so few always fit into one operation: the payload of each is limited


class JobSender:
    """Enqueues calls: makes jobs of them, and gives those to the store of the running event loop.
    `open_store` returns that store. `tracker` answers what a handle asks about its job. `outbox`:
    where jobs of a user's transaction are written, instead of the store."""

    def __init__(
        self,
        open_store: OpenStore,
        tracker: Tracker,
        events: ClientEvents,
        run_sync: RunSync,
        outbox: JobOutbox | None = None,
    ) -> None:
        self.open_store = open_store
        self.outbox = outbox
        self._tracker = tracker
        self._events = events
        self._run_sync = run_sync
        self.recorder = AuditRecorder(self.store)

    def store(self) -> Coroutine[Any, Any, Store]:
        """Open the store of the running event loop, or return the one that is open."""
        return self.open_store()

    def send(
        self, calls: Sequence[Call[Any]], headers: bytes | None = None
    ) -> Coroutine[Any, Any, list[Handle[Any]]]:
        """Enqueue calls of this app's own tasks. `headers` carries the caller's trace; None: the
        current trace, if the program has one."""
        if ACTING.get() is not None and self.recorder.actor() is not None:
            act = Act("enqueue", of_calls(self, {"calls": calls}), {"calls": calls})
            return self.recorder.recorded(act, lambda: self.send(calls, headers))
        if headers is None and TRACING in sys.modules and tracer() is not None:
            return self._send_traced(calls)
        headers = headers or b""
        if len(calls) <= UNCHECKED_JOBS or fit_together(calls):
            return self._store_jobs(new_jobs(calls, headers))
        return one_ahead(in_parts(calls, headers), self._store_jobs)

    def send_sync(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        """`send`, from code that is not async."""
        # the span starts here: the thread of the event loop does not know the caller's trace
        with sending(calls) as trace:
            handles = self._run_sync(self.send(calls, trace.headers))
            trace.sent(handles)
            return handles

    def within(self, connection: Any) -> "TransactionalSender":
        """Return a sender that enqueues in the transaction that is open on `connection`."""
        return TransactionalSender(
            connection, self.store, self._run_sync, self._tracker, self._events, self.outbox
        )

    async def _send_traced(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        with sending(calls) as trace:
            handles = await self.send(calls, trace.headers)
            trace.sent(handles)
            return handles

    async def _store_jobs(self, jobs: list[NewJob]) -> list[Handle[Any]]:
        store = await self.open_store()
        receipts = await store.enqueue(jobs)
        self._events.emit(store, Enqueued(jobs, receipts, wall_clock()))
        return [Handle(receipt.id, receipt.created, self._tracker) for receipt in receipts]


class TransactionalSender:
    """Enqueues on `connection`, which is inside a transaction that only the user ends: in the
    app's outbox, if it has one, else in the store."""

    def __init__(
        self,
        connection: Any,
        open_store: OpenStore,
        run_sync: RunSync,
        tracker: Tracker,
        events: ClientEvents,
        outbox: JobOutbox | None = None,
    ) -> None:
        self._connection = connection
        self._outbox = outbox
        self._open_store = open_store
        self._run_sync = run_sync
        self._tracker = tracker
        self._events = events

    async def send(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        """Enqueue these `calls` and return their handles; the jobs are stored when the transaction
        commits."""
        store = self._outbox or transactional(await self._open_store())
        with sending(calls) as trace:
            jobs = new_jobs(calls, trace.headers)
            return self._handles(jobs, await store.enqueue_in(self._connection, jobs), trace)

    def send_sync(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        """`send`, from code that is not async. It runs on the caller's thread, because no other may
        use the connection."""
        store = self._outbox or transactional(self._run_sync(self._open_store()))
        with sending(calls) as trace:
            jobs = new_jobs(calls, trace.headers)
            return self._handles(jobs, store.enqueue_in_sync(self._connection, jobs), trace)

    def within(self, connection: Any) -> Sender:  # noqa: ARG002
        """Raise `UsageError`: a call is part of one transaction at most, whatever the
        `connection`."""
        raise UsageError("this call is part of a transaction already: call using(…) once")

    def _handles(
        self, jobs: list[NewJob], receipts: list[Receipt], trace: Sending
    ) -> list[Handle[Any]]:
        # here only: other processes must not see jobs that the user may roll back
        self._events.emit_here(Enqueued(jobs, receipts, wall_clock()))
        handles: list[Handle[Any]] = [
            Handle(receipt.id, receipt.created, self._tracker) for receipt in receipts
        ]
        trace.sent(handles)
        return handles


def new_jobs(calls: Sequence[Call[Any]], headers: bytes = b"") -> list[NewJob]:
    """Make a job of each call, with a new id. It is written out field by field for speed: a bulk
    enqueue makes 60,000 jobs a second here."""
    ids = [new_id()] if len(calls) == 1 else new_ids(len(calls))
    return [
        job_of_call(id, call, headers)
        if call.limits is not None
        else NewJob(
            id=id,
            task=call.task,
            queue=(options := call.options).queue,
            payload=call.payload,
            options=options.packed,
            headers=headers,
            priority=options.priority,
            when=options.when,
            unique=call.unique,
            unique_for=options.unique_for,
            resource=call.resource,
            limit=options.limit,
            when_busy=options.when_busy,
            fresh=True,
        )
        for id, call in zip(ids, calls, strict=True)
    ]


def fit_together(calls: Sequence[Call[Any]]) -> bool:
    """Whether a store takes these calls in one operation."""
    return len(calls) <= CALL_JOBS and sum([len(call.payload) for call in calls]) <= ENQUEUE_BYTES


def in_parts(calls: Sequence[Call[Any]], headers: bytes = b"") -> Iterator[list[NewJob]]:
    """Yield the jobs in parts, each as large as a store takes in one operation. A part is made when
    it is asked for."""
    start = 0
    while start < len(calls):
        end, size = start, 0
        while (
            end < len(calls)
            and end - start < CALL_JOBS
            and (end == start or size + len(calls[end].payload) <= ENQUEUE_BYTES)
        ):
            size += len(calls[end].payload)
            end += 1
        yield new_jobs(calls[start:end], headers)
        start = end
