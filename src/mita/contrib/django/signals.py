"""Sends `task_finished` when the end of a task is stored, and not before.

Until then no one knows it: a run that returned may have lost its lease, and a run that failed may
be retried. So it follows the events of the app, on a thread of its own. It is sent in the process
that stored the end: the worker that ran the task, the worker that found out that another one had
died, or the program that cancelled it."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

from django.db import close_old_connections
from django.tasks import TaskResult, TaskResultStatus
from django.tasks.signals import task_finished

from mita import Mita
from mita.errors import MitaError
from mita.events import ListenerThread
from mita.events.signals import Amended, BusyJobs, RunsSettled
from mita.model.event import JobEvent, Kind
from mita.rules.display import as_datetime

from .errors import TaskFailed
from .handlers import DECLARED, RUNS, result_of
from .results import change

log = logging.getLogger("mita.django")

ENDS = frozenset({Kind.SUCCEEDED, Kind.FAILED, Kind.CANCELLED, Kind.EXPIRED})
ENDS_OF_RUNS = ENDS | {Kind.RETRIED, Kind.RESCHEDULED, Kind.CRASHED, Kind.STALE}
_senders: dict[int, "EndSignals"] = {}  # by app
_starting = threading.Lock()


def send_ends(app: Mita) -> Mita:
    """Send `task_finished` for the tasks of this app, in this process. Returns the app."""
    with _starting:
        if id(app) not in _senders:
            _senders[id(app)] = EndSignals(app)
    return app


def flush() -> None:
    """Send what waits to be sent, for a process that is about to end."""
    for sender in list(_senders.values()):
        sender.flush()


class EndSignals:
    """Follows the events of one app. Its thread starts at the first end of a task."""

    def __init__(self, app: Mita) -> None:
        self._app = app
        self._thread: ListenerThread | None = None
        app._watch.add(self._notice)  # noqa: SLF001

        def task_signals() -> Iterator[None]:
            yield
            self.flush()  # the worker has stored the ends of all runs

        app.lifespan(task_signals)

    def flush(self) -> None:
        """Send what waits to be sent. The thread ends, and starts again if there is more."""
        with _starting:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def _notice(self, signal: Any) -> None:
        if self._thread is None and isinstance(signal, RunsSettled | Amended | BusyJobs):
            with _starting:
                if self._thread is None:
                    self._thread = self._app.listen(self._deliver, ENDS_OF_RUNS)
                    self._thread.put(signal)

    def _deliver(self, events: list[JobEvent]) -> None:
        close_old_connections()
        try:
            for event in events:
                if event.kind in ENDS_OF_RUNS and (event.task in DECLARED or not event.task):
                    self._end(event)
        finally:
            close_old_connections()

    def _end(self, event: JobEvent) -> None:
        known = RUNS.pop((event.id, event.attempt), None)
        if event.kind not in ENDS:
            return
        try:
            result = self._result(event, known)
        except MitaError as error:
            log.warning("task_finished was not sent for job %s: %s", event.id, error)
            return
        if result is not None:
            send_end(result)

    def _result(self, event: JobEvent, known: TaskResult | None) -> TaskResult | None:
        """The result of an ended task; None for a job that is not of a Django task. A success is
        known here; what else happened is read from the store."""
        if event.kind is Kind.SUCCEEDED and known is not None:
            change(known, status=TaskResultStatus.SUCCESSFUL, finished_at=as_datetime(event.at))
            return known
        record = self._app.get_sync(event.id)
        if record is not None:
            return result_of(record) if record.task in DECLARED else None
        if known is not None:  # the store keeps no jobs that have ended
            change(known, status=TaskResultStatus.FAILED, finished_at=as_datetime(event.at))
        return known


def send_end(result: TaskResult) -> None:
    """Send `task_finished`."""
    from .backend import MitaBackend

    if result.status != TaskResultStatus.FAILED:
        task_finished.send_robust(MitaBackend, task_result=result)
        return
    try:  # Django logs the exception that is being handled
        raise TaskFailed(result.errors[-1].traceback if result.errors else "no reason was kept")
    except TaskFailed:
        task_finished.send_robust(MitaBackend, task_result=result)
