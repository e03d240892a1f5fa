"""Bulk runs: changes of many jobs that survive the program which asked for them."""

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Unpack, get_args

import msgspec
from msgspec.structs import replace

from mita.errors import StoreError, UsageError
from mita.model.bulk import BulkPage, BulkRecord, BulkVerb
from mita.model.job import Job
from mita.model.policy import Retry
from mita.model.record import DisplayState, ProgressReport
from mita.model.time import Moment, When
from mita.model.view import JobFilter
from mita.ports.store import Store
from mita.rules.bulk import read_counts
from mita.rules.display import as_datetime, shown
from mita.rules.judge import Retention
from mita.rules.own_tasks import BULK_QUEUE, BULK_TASK
from mita.rules.sealed import shown_text
from mita.rules.text import note
from mita.rules.when import when, when_or_now
from mita.tasks import Job as RunningJob
from mita.tasks import Task
from mita.tasks.amended import check_changes
from mita.tasks.handle import Sender
from mita.tasks.options import Options
from mita.tasks.stored import UNSTORABLE, encode
from mita.tasks.task import CallableTask
from mita.twins import RunSync, sync_twin

from .acting import AuditRecorder, audited, of_jobs
from .bulk import check_choice
from .bulk_work import BulkSpec, BulkTools, BulkWork
from .enqueue import JobSender
from .filters import JobFilters, cursor, job_filter, page_size

# A bulk run goes on after whatever happens to its workers and to the store.
_RETRY = Retry(max_retries=1000, base=1.0, max_crashes=1_000_000)
_TIMED = ("retry", "reschedule")
_WITH_ARGUMENTS = ("retry", "amend")
_read_spec = msgspec.msgpack.Decoder(BulkSpec).decode
_read_progress = msgspec.msgpack.Decoder(ProgressReport).decode
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def bulk_task(
    open_store: Callable[[], Awaitable[Store]], sender: Sender, tools: BulkTools
) -> Task[..., dict[str, int]]:
    """Make the task of bulk runs, which every worker knows."""

    async def run(
        job: RunningJob,
        verb: BulkVerb,
        filters: dict[str, str],
        rate: float | None = None,
        arguments: bytes | None = None,
        when: When | None = None,
        reason: str = "",
        limit: int | None = None,
    ) -> dict[str, int]:
        spec = BulkSpec(
            verb=verb,
            filters=filters,
            rate=rate,
            arguments=arguments,
            when=when,
            reason=reason,
            limit=limit,
        )
        return await BulkWork(tools, await open_store(), job, spec).run()

    options = Options(queue=BULK_QUEUE, retry=_RETRY).repacked()
    return CallableTask(BULK_TASK, run, options, sender, final=(UsageError,))


class BulkRuns:
    """Bulk runs. Unlike `retry_many` and `cancel_many`, a bulk run is a job of Mita itself: any
    worker that serves all queues, or the queue `mita.bulk`, runs it. It goes on if the program that
    started it ends, and if its worker dies."""

    _store: Callable[[], Awaitable[Store]]
    _keep: Retention
    _run_sync: RunSync
    _tasks: Mapping[str, Task[Any, Any]]
    _bulk_task: Task[..., dict[str, int]]
    _sender: JobSender
    _recorder: AuditRecorder

    @audited(of_jobs, verbs=get_args(BulkVerb))
    async def start_bulk(
        self,
        verb: BulkVerb,
        *,
        rate: float | None = None,
        arguments: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
        limit: int | None = None,
        all: bool = False,
        **filters: Unpack[JobFilters],
    ) -> BulkRecord:
        """Start a bulk run, which does this to every job that matches, at most `rate` of them in a
        second, and to at most `limit` of them. The `verb` is "retry", "cancel", "reschedule",
        "delete" or "amend". Returns its record; `bulk(record.id)` tells how far it is, and
        `cancel(record.id)` stops it.

        The ids are chosen and stored when it begins, so jobs that match later are not changed. A
        job is changed only if it still matches and has not been changed since it was chosen: none
        is retried twice, whatever dies meanwhile. `arguments` are merged into those of each job, as
        by `amend`: `amend` needs them, and `retry` gives each job its arguments before it runs
        again. `at` and `after` are those of `retry` and `reschedule`. The `reason` is stored in the
        timelines, with the id of the run.

        The `filters` are those of `jobs`; without any, `all=True` selects every job. `retry`
        chooses failed jobs, unless `state` says otherwise. Raises `UsageError` without a filter and
        without `all`, and for values that make no sense."""
        spec = self._checked(verb, rate, arguments, at, after, limit, all, filters)
        call = self._bulk_task.call(**spec, reason=note(reason))
        if arguments is not None:  # those of a secret task may be among them
            secret = replace(call.options, secret=("arguments",)).repacked()
            call = replace(call, options=secret)
        [handle] = await self._sender.send([call])
        record = await self.bulk(handle.id)
        if record is None:
            raise StoreError(f"bulk run {handle.id} was deleted just now")
        return record

    start_bulk_sync = sync_twin(start_bulk)

    async def bulk(self, id: str) -> BulkRecord | None:
        """Return the bulk run with this `id`: what it does, and how far it is. None if there is
        none: finished ones are kept as long as failed jobs."""
        store = await self._store()
        [job] = await store.find([id])
        return None if job is None or job.task != BULK_TASK else _record(job, await store.now())

    bulk_sync = sync_twin(bulk)

    async def bulks(self, *, after: str | None = None, limit: int = 50) -> BulkPage:
        """Return a page of at most `limit` bulk runs, newest first. `after` is the `after` of the
        page before; None for the first page."""
        store = await self._store()
        page = await store.page(
            JobFilter(queue=BULK_QUEUE, task=BULK_TASK), cursor(after), page_size(limit)
        )
        now = await store.now()
        return BulkPage(tuple(_record(job, now) for job in page.jobs), page.after)

    bulks_sync = sync_twin(bulks)

    def _checked(
        self,
        verb: BulkVerb,
        rate: float | None,
        arguments: Mapping[str, Any] | None,
        at: datetime | None,
        after: float | timedelta | None,
        limit: int | None,
        all: bool,
        filters: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The arguments of the run's job. Raises `UsageError` for one that makes no sense."""
        if verb not in get_args(BulkVerb):
            raise UsageError(f"verb={verb!r}: use one of {', '.join(get_args(BulkVerb))}")
        if rate is not None and not _is_positive(rate):
            raise UsageError(f"rate={rate!r}: give the number of jobs in a second, more than 0")
        if limit is not None and not (_is_positive(limit) and isinstance(limit, int)):
            raise UsageError(f"limit={limit!r}: give a whole number, 1 or more")
        chosen = {name: str(value) for name, value in filters.items() if value is not None}
        job_filter(**filters)
        moment = self._moment(verb, at, after)
        spec = BulkSpec(verb=verb, filters=chosen, when=moment)
        check_choice(spec.change("", self._keep), chosen, all)
        if verb == "retry":
            chosen.setdefault("state", DisplayState.FAILED.value)
        return {
            "verb": verb,
            "filters": chosen,
            "rate": None if rate is None else float(rate),
            "arguments": self._packed(verb, arguments, chosen.get("task")),
            "when": moment,
            "limit": limit,
        }

    @staticmethod
    def _moment(
        verb: BulkVerb, at: datetime | None, after: float | timedelta | None
    ) -> When | None:
        if verb == "reschedule":
            return when(at=at, after=after)
        if at is None and after is None:
            return None
        if verb not in _TIMED:
            raise UsageError(f"at= and after= are for {' and '.join(_TIMED)}, not for {verb}")
        return when_or_now(at=at, after=after)

    def _packed(
        self, verb: BulkVerb, arguments: Mapping[str, Any] | None, task: str | None
    ) -> bytes | None:
        if arguments is None and verb == "amend":
            raise UsageError("amend changes arguments: give them, arguments={…}, by their names")
        if arguments is None:
            return None
        if verb not in _WITH_ARGUMENTS:
            raise UsageError(f"arguments= is for {' and '.join(_WITH_ARGUMENTS)}, not for {verb}")
        if not isinstance(arguments, Mapping) or not arguments:
            raise UsageError(
                f"arguments={arguments!r}: give a dict of the arguments to change, by their names"
            )
        known = None if task is None else self._tasks.get(task)
        if known is not None:
            check_changes(known, arguments)
        try:
            return encode(dict(arguments))
        except UNSTORABLE as error:
            raise UsageError(f"arguments=: they cannot be stored ({error})") from error


def _is_positive(number: object) -> bool:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return is_number and math.isfinite(number) and number > 0  # type: ignore[arg-type, operator]


def _record(job: Job, now: Moment) -> BulkRecord:
    """The record of a bulk run's job."""
    try:
        spec = _read_spec(job.payload)
    except _UNREADABLE:  # it is encrypted, or damaged
        spec = None
    progress = ProgressReport(0)
    if job.progress:
        with suppress(*_UNREADABLE):
            progress = _read_progress(job.progress)
    is_chosen = progress.total is not None
    counts = read_counts(progress.message if is_chosen else "")
    return BulkRecord(
        id=job.id,
        verb="" if spec is None else spec.verb,
        state=shown(job, now),
        created=as_datetime(job.created),
        filters={} if spec is None else spec.filters,
        rate=None if spec is None else spec.rate,
        reason="" if spec is None else spec.reason,
        total=None if progress.total is None else int(progress.total),
        done=int(progress.done) if is_chosen else 0,
        answers=counts.answers,
        refusal=counts.refusal,
        started=None if job.started is None else as_datetime(job.started),
        finished=None if job.finished is None else as_datetime(job.finished),
        error=None if job.error is None else shown_text(job.error),
    )
