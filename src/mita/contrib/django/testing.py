"""For tests of a project: its tasks on a store in memory, run when a test says so.

    class OrderTests(TestCase):
        def test_an_order_sends_a_mail(self):
            with mita_lab() as lab:
                self.client.post("/orders/", {"name": "tea"})
                self.assertEqual(lab.drain(), 1)
            self.assertEqual(len(mail.outbox), 1)

Handlers run on the thread and the connection of the test, inside its transaction: they see its
data, and what they write is rolled back with it. That holds for async handlers, too."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import Context
from datetime import datetime, timedelta
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections

from mita.errors import UsageError
from mita.model.record import DisplayState
from mita.testing import Lab, lab

from .conf import project_app, project_settings

T = TypeVar("T")


class _OnCallingThread(Executor):
    """Calls what `sync_to_async` is given on the thread that waits in `drain`."""

    def __init__(self, its_lab: Lab) -> None:
        self._lab = its_lab

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See `Executor`."""
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
                future.set_exception(error)

        work = self._lab._caller._work  # noqa: SLF001
        assert work is not None, "no thread waits in drain()"  # noqa: S101
        work.put(call)
        return future


class _Here(ThreadSensitiveContext):
    """Stands for the thread of a test in asgiref's table of threads."""


class ProjectLab:
    """The lab of a project: see `mita_lab`. `lab` is Mita's own lab, with everything that it can
    do."""

    def __init__(self, its_lab: Lab, database: str) -> None:
        self.lab = its_lab
        self._connection = connections[database]
        self._begun = len(self._connection.run_on_commit)
        self._depth = len(self._connection.savepoint_ids)

    def commit(self) -> None:
        """Do what waits for the commit of the test's transaction: a `TestCase` never commits.
        Raises `UsageError` inside an `atomic()` of the test itself."""
        connection = self._connection
        if len(connection.savepoint_ids) > self._depth:
            raise UsageError("a task starts after the commit: leave the atomic() block first")
        while len(connection.run_on_commit) > self._begun:
            waiting = connection.run_on_commit[self._begun :]
            del connection.run_on_commit[self._begun :]
            for _, function, *_rest in waiting:
                function()

    def drain(self, *, raises: bool = True) -> int:
        """Run all jobs that are due now, and jobs that become due as a result. Returns the number
        of runs. The error of a handler is raised here, unless `raises=False`."""
        return self._run(lambda: self.lab.drain_sync(raises=raises))

    def advance(
        self,
        by: float | timedelta | None = None,
        *,
        to: datetime | None = None,
        raises: bool = True,
    ) -> int:
        """Move the clock, and run all jobs on the way. Returns the number of runs."""
        return self._run(lambda: self.lab.advance_sync(by, to=to, raises=raises))

    async def adrain(self, *, raises: bool = True) -> int:
        """`drain`, in an async test."""
        return await sync_to_async(self.drain)(raises=raises)

    async def aadvance(
        self,
        by: float | timedelta | None = None,
        *,
        to: datetime | None = None,
        raises: bool = True,
    ) -> int:
        """`advance`, in an async test."""
        return await sync_to_async(self.advance)(by, to=to, raises=raises)

    def results(self, task: Any = None) -> list[Any]:
        """The results of the Django tasks that were enqueued here, oldest first; of one task, if it
        is given."""
        from .handlers import DECLARED, result_of

        self.commit()
        records = [self.lab.app.get_sync(job.id) for job in self.lab.enqueued()]
        found = [result_of(one) for one in records if one is not None and one.task in DECLARED]
        return [one for one in found if task is None or one.task.func is task.func]

    def _run(self, runs: Callable[[], int]) -> int:
        self.commit()
        try:
            # as in a worker: without what an async test keeps in its context
            return Context().run(self._run_here, runs)
        finally:
            if "mita.contrib.django.signals" in sys.modules:
                self._tell_ends()

    def _run_here(self, runs: Callable[[], int]) -> int:
        here, executors = _Here(), SyncToAsync.context_to_thread_executor
        executors[here] = _OnCallingThread(self.lab)
        SyncToAsync.thread_sensitive_context.set(here)
        try:
            ran, more = 0, runs()
            while more:
                ran += more
                before = len(self._connection.run_on_commit)
                self.commit()  # what handlers have enqueued
                more = runs() if before > self._begun else 0
            return ran
        finally:
            del executors[here]

    def _tell_ends(self) -> None:
        """Send `task_finished` for the tasks that have ended."""
        from .handlers import RUNS, result_of
        from .signals import send_end

        ends = {DisplayState.SUCCEEDED, DisplayState.FAILED, DisplayState.CANCELLED}
        for id in dict.fromkeys(id for id, _ in list(RUNS)):
            record = self.lab.app.get_sync(id)
            if record is not None and record.state in ends:
                send_end(result_of(record))
        RUNS.clear()


@contextmanager
def mita_lab(
    *, start: datetime | None = None, roll: float = 1.0, time_limit: float = 30.0
) -> Iterator[ProjectLab]:
    """Until the end of the block the jobs of this project are in memory, and run only when you say
    so. The clock begins at `start`, an aware datetime. `roll` stands for chance in the backoff of
    retries: 1 gives the longest waits, 0 none at all. In `setUp`: `self.lab =
    self.enterContext(mita_lab())`."""
    with lab(project_app(), start=start, roll=roll, time_limit=time_limit) as its_lab:
        yield ProjectLab(its_lab, project_settings().database)
