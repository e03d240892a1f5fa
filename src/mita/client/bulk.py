"""Operations on all jobs that match a filter, in batches."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, Unpack

from mita.errors import UsageError
from mita.events import ClientEvents
from mita.events.signals import Amended
from mita.flows.acts import Acts, amend_jobs, concerns_flows
from mita.model.outcome import (
    OUTSIDE,
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    RescheduleJob,
    RetryJob,
    RewriteJob,
)
from mita.model.record import BulkResult, DisplayState
from mita.ports.clock import wall_clock
from mita.ports.store import Store
from mita.rules.bulk import changeable, left_out
from mita.rules.claim_size import CALL_JOBS
from mita.rules.judge import Retention
from mita.rules.matching import stored_state
from mita.rules.states import allowed
from mita.rules.text import note
from mita.rules.when import when, when_or_now
from mita.twins import RunSync, sync_twin

from .acting import AuditRecorder, audited, of_failed_jobs, of_jobs
from .filters import FILTERS, JobFilters, job_filter

Confirm: TypeAlias = Callable[[int], bool]
"""Gets the number of jobs before anything is changed. If it returns False, nothing is changed."""
ShowProgress: TypeAlias = Callable[[int, int], object]
"""Gets the number of jobs that are done, and the total, after each batch."""

_DONE = {
    CancelJob: "cancelled",
    RescheduleJob: "rescheduled",
    RetryJob: "retried",
    DeleteJob: "deleted",
    RewriteJob: "amended",
}


class Bulk:
    """Bulk operations. A call first collects the ids of the jobs that match, 1,000 at a time; jobs
    that change later do not change the choice. Then it changes them in batches of 1,000. The result
    counts the jobs that matched, and how many gave which `Answer`. If the store fails in the
    middle, the earlier batches are done.

    What follows from a change happens at once: steps of flows that waited for a cancelled job are
    cancelled, and a retried step brings the steps back that were cancelled because of it. The jobs
    `mita.flow` and `mita.gather` of flows are left out, unless `task` names them: a flow ends with
    its steps.

    A call without a filter needs `all=True`. With `dry_run=True` the jobs are only counted.
    `confirm` is called with the number of jobs before anything is changed; if it returns False,
    nothing is. `progress` is called after each batch, with the number of jobs that are done and the
    number of all."""

    _store: Callable[[], Awaitable[Store]]
    _keep: Retention
    _run_sync: RunSync
    _reports: ClientEvents
    _recorder: AuditRecorder

    @audited(of_jobs, "cancel")
    async def cancel_many(
        self,
        *,
        reason: str = "",
        all: bool = False,
        dry_run: bool = False,
        confirm: Confirm | None = None,
        progress: ShowProgress | None = None,
        **filters: Unpack[JobFilters],
    ) -> BulkResult:
        """Cancel every waiting or running job that matches. The `reason` is stored in their
        timelines.

        The `filters` are those of `jobs`; without any, `all=True` selects every job. With `dry_run`
        jobs are only counted. `confirm` gets their number before anything is changed, and stops it
        by returning False. `progress` gets the number done and the total after each 1,000 jobs.
        Raises `UsageError` without a filter and without `all`."""
        change = CancelJob(self._keep.failed, note(reason))
        return await self._amend_many(change, filters, all, dry_run, confirm, progress)

    cancel_many_sync = sync_twin(cancel_many)

    @audited(of_jobs, "reschedule")
    async def reschedule_many(
        self,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
        all: bool = False,
        dry_run: bool = False,
        confirm: Confirm | None = None,
        progress: ShowProgress | None = None,
        **filters: Unpack[JobFilters],
    ) -> BulkResult:
        """Run every waiting or running job that matches `at` another time, or `after` seconds (or a
        timedelta) from now. `state="failed"` or `"cancelled"`, or a `group`, retries such jobs at
        that time. The `reason` is stored in their timelines.

        The `filters` are those of `jobs`; without any, `all=True` selects every job. With `dry_run`
        jobs are only counted. `confirm` gets their number before anything is changed, and stops it
        by returning False. `progress` gets the number done and the total after each 1,000 jobs.
        Raises `UsageError` without a filter and without `all`."""
        change = RescheduleJob(when(at=at, after=after), note(reason) or OUTSIDE)
        return await self._amend_many(change, filters, all, dry_run, confirm, progress)

    reschedule_many_sync = sync_twin(reschedule_many)

    @audited(of_failed_jobs, "retry")
    async def retry_many(
        self,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
        all: bool = False,
        dry_run: bool = False,
        confirm: Confirm | None = None,
        progress: ShowProgress | None = None,
        **filters: Unpack[JobFilters],
    ) -> BulkResult:
        """Run every failed job that matches again, with its counters at zero: now, `at` a time, or
        `after` seconds (or a timedelta). `state="cancelled"` chooses cancelled jobs instead. The
        `reason` is stored in their timelines.

        The `filters` are those of `jobs`; without any, `all=True` selects every job. With `dry_run`
        jobs are only counted. `confirm` gets their number before anything is changed, and stops it
        by returning False. `progress` gets the number done and the total after each 1,000 jobs.
        Raises `UsageError` without a filter and without `all`."""
        change = RetryJob(when_or_now(at=at, after=after), note(reason))
        chosen = {**filters, "state": filters.get("state") or DisplayState.FAILED}
        some = all or any(value is not None for value in filters.values())
        return await self._amend_many(
            change, chosen if some else {}, all, dry_run, confirm, progress
        )

    retry_many_sync = sync_twin(retry_many)

    @audited(of_jobs, "delete")
    async def delete_many(
        self,
        *,
        all: bool = False,
        dry_run: bool = False,
        confirm: Confirm | None = None,
        progress: ShowProgress | None = None,
        **filters: Unpack[JobFilters],
    ) -> BulkResult:
        """Delete every job that matches and has ended, with its result, timeline and unique key.

        The `filters` are those of `jobs`; without any, `all=True` selects every job. With `dry_run`
        jobs are only counted. `confirm` gets their number before anything is changed, and stops it
        by returning False. `progress` gets the number done and the total after each 1,000 jobs.
        Raises `UsageError` without a filter and without `all`."""
        return await self._amend_many(DeleteJob(), filters, all, dry_run, confirm, progress)

    delete_many_sync = sync_twin(delete_many)

    async def _amend_many(
        self,
        change: Change,
        filters: Mapping[str, Any],
        all: bool,
        dry_run: bool,
        confirm: Confirm | None,
        progress: ShowProgress | None,
    ) -> BulkResult:
        check_choice(change, filters, all)
        store = await self._store()
        jobs = await _matching(store, filters, change)
        if dry_run or not jobs or (confirm is not None and not confirm(len(jobs))):
            return BulkResult(matched=len(jobs))
        answers: Counter[Answer] = Counter()
        for start in range(0, len(jobs), CALL_JOBS):
            part = jobs[start : start + CALL_JOBS]
            answers.update(await self._amend_part(store, part, change))
            if progress is not None:
                progress(start + len(part), len(jobs))
        return BulkResult(matched=len(jobs), answers=dict(answers))

    async def _amend_part(self, store: Store, jobs: list["Match"], change: Change) -> list[Answer]:
        """Change up to 1,000 jobs, with what follows from it in flows."""
        special = [job.id for job in jobs if job.concerns_flows]
        found = [job for job in await store.find(special) if job is not None] if special else []
        acts = Acts([])
        if found:
            acts = await amend_jobs(store, found, change, self._keep.failed)
        known = {job.id: answer for job, answer in zip(found, acts.answers, strict=True)}
        plain = iter(await store.amend([job.id for job in jobs if job.id not in known], change))
        answers = [known[job.id] if job.id in known else next(plain) for job in jobs]
        now = wall_clock()
        for job, answer in zip(jobs, answers, strict=True):
            signal = Amended(job.id, change, answer, now, job.task, job.queue)
            await self._reports.amended(store, signal)
        for signal in acts.followed:
            await self._reports.amended(store, signal)
        return answers


class Match(NamedTuple):
    """A job that matches. `concerns_flows`: more may follow from its change."""

    id: str
    task: str
    queue: str
    concerns_flows: bool


def check_choice(change: Change, filters: Mapping[str, Any], all: bool) -> None:
    """Raise `UsageError` if no jobs are chosen, or only jobs that cannot be changed so."""
    chosen = {name: value for name, value in filters.items() if value is not None}
    if not chosen and not all:
        raise UsageError(
            f"no filter was given: choose jobs with {', '.join(FILTERS)}, or pass all=True to "
            "take every job"
        )
    possible = _shown_states(change)
    _check_group(change, chosen, possible)
    state = chosen.get("state")
    if state is not None and state in tuple(DisplayState) and state not in possible:
        raise UsageError(
            f"state={str(state)!r}: only {', '.join(possible)} jobs can be {_DONE[type(change)]}"
        )


def _check_group(change: Change, chosen: Mapping[str, Any], possible: list[str]) -> None:
    """The jobs of a group have failed: no other state and no cancel can mean them."""
    group, state = chosen.get("group"), chosen.get("state", DisplayState.FAILED)
    if group is None:
        return
    if DisplayState.FAILED not in possible:
        raise UsageError(
            f"group={group!r}: the jobs of a group have failed, and only {', '.join(possible)} "
            f"jobs can be {_DONE[type(change)]}. Retry, reschedule or delete them"
        )
    if state in tuple(DisplayState) and state != DisplayState.FAILED:
        raise UsageError(
            f"group={group!r}, state={str(state)!r}: the jobs of a group have failed; leave state "
            "out"
        )


def _shown_states(change: Change) -> list[str]:
    """The states, as people see them, that allow this change."""
    states = allowed(change)
    return [shown.value for shown in DisplayState if stored_state(shown) in states]


async def _matching(store: Store, filters: Mapping[str, Any], change: Change) -> list[Match]:
    """Return every job that matches now and allows this change, newest first. The pages go by id,
    so each job is met once, even if its state changes meanwhile."""
    want = job_filter(**filters)
    possible, never = changeable(change, want), left_out(change, want)
    jobs: list[Match] = []
    after: str | None = None
    while True:
        page = await store.page(want, after, CALL_JOBS)
        jobs += [
            Match(job.id, job.task, job.queue, concerns_flows(job, change))
            for job in page.jobs
            if job.state in possible and job.task not in never
        ]
        if (after := page.after) is None:
            return jobs
