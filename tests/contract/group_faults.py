"""Groups of failed jobs that are broken on purpose."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from mita.model.job import Job, State
from mita.model.time import HOUR, Moment
from mita.model.view import JobFilter, StoredGroup
from mita.rules import matching
from mita.rules.dead_groups import GroupPart
from mita.rules.dead_groups import counted as count_all
from mita.rules.dead_groups import merged as merge_all
from mita.stores.memory import amend as amending
from mita.stores.memory import inspect as inspecting
from mita.stores.memory import settle as settling
from mita.stores.memory.context import MemoryContext
from mita.stores.memory.state.memory_state import MemoryRecord
from mita.stores.shared.record import RESET_ON_RETRY

from .faults import Fault


def keep_the_group_after_a_retry(patch: pytest.MonkeyPatch) -> None:
    without = {name: value for name, value in RESET_ON_RETRY.items() if name != "group"}
    patch.setattr(amending, "RESET_ON_RETRY", without)


def forget_the_group(patch: pytest.MonkeyPatch) -> None:
    whole = settling.finish

    def finish(context: MemoryContext, record: MemoryRecord, *args: Any, **more: Any) -> None:
        whole(context, record, *args, **{**more, "group": None})

    patch.setattr(settling, "finish", finish)


def group_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    """The group of the verdict is written, whatever was asked meanwhile."""
    whole = settling.changes_of

    def changes(context: MemoryContext, job: Job, verdict: Any) -> dict[str, Any]:
        if verdict.group is not None and job.asked is not None:
            context.change(context.state.records[job.id], group=verdict.group)
        return whole(context, job, verdict)

    def finish(context: MemoryContext, record: MemoryRecord, *args: Any, **more: Any) -> None:
        ended(context, record, *args, **{**more, "group": more["group"] or record.job.group})

    ended = settling.finish
    patch.setattr(settling, "changes_of", changes)
    patch.setattr(settling, "finish", finish)


def _counted(patch: pytest.MonkeyPatch, change: Any) -> None:
    def counted(jobs: Iterable[Job], now: Moment) -> list[GroupPart]:
        made: list[GroupPart] = change(count_all, list(jobs), now)
        return made

    patch.setattr(inspecting, "counted", counted)


def skip_jobs_without_a_group(patch: pytest.MonkeyPatch) -> None:
    _counted(patch, lambda whole, jobs, now: whole([job for job in jobs if job.group], now))


def begin_the_hours_too_late(patch: pytest.MonkeyPatch) -> None:
    _counted(patch, lambda whole, jobs, now: whole(jobs, now + HOUR // 2))


def show_the_first_as_sample(patch: pytest.MonkeyPatch) -> None:
    def counted(whole: Any, jobs: list[Job], now: Moment) -> list[GroupPart]:
        oldest = {job.group or "": job.id for job in sorted(jobs, key=lambda job: -job.finished)}  # type: ignore[operator]
        return [replace(part, sample=oldest[part.group]) for part in whole(jobs, now)]

    _counted(patch, counted)


def smallest_group_first(patch: pytest.MonkeyPatch) -> None:
    def merged(parts: Iterable[GroupPart], limit: int) -> list[StoredGroup]:
        return merge_all(parts, 1000)[::-1][:limit]

    patch.setattr(inspecting, "merged", merged)


def count_every_job(patch: pytest.MonkeyPatch) -> None:
    """The filters of queue and task are forgotten."""

    def matches(job: Job, want: JobFilter, now: Moment) -> bool:
        return matching.matches(job, replace(want, queue=None, task=None), now)

    patch.setattr(inspecting, "matches", matches)


def find_waiting_jobs_without_a_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matching, "_is_in_group", lambda job, group: (job.group or "") == group)


def find_every_failed_job(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matching, "_is_in_group", lambda job, group: job.state is State.FAILED)


OF_GROUPS = [
    Fault(
        "a retried job that stays in its group",
        keep_the_group_after_a_retry,
        ("test_a_retry_takes_a_job_out_of_its_group",),
    ),
    Fault(
        "a group that is not stored",
        forget_the_group,
        ("test_a_failed_job_has_its_group", "test_jobs_with_keys_have_groups_too"),
    ),
    Fault(
        "a cancelled job with a group",
        group_what_was_cancelled,
        ("test_a_job_that_was_cancelled_while_it_failed_has_no_group",),
    ),
    Fault(
        "failed jobs without a group that are not counted",
        skip_jobs_without_a_group,
        ("test_jobs_without_a_group", "test_groups_of_a_queue_and_of_a_task"),
    ),
    Fault(
        "hours that begin too late",
        begin_the_hours_too_late,
        ("test_hours_count_the_failures_of_a_day",),
    ),
    Fault(
        "a sample that is not the latest",
        show_the_first_as_sample,
        ("test_groups_are_counted_with_first_and_last",),
    ),
    Fault(
        "the smallest group first",
        smallest_group_first,
        ("test_groups_are_counted_with_first_and_last",),
    ),
    Fault(
        "groups of one queue that have jobs of others",
        count_every_job,
        ("test_groups_of_a_queue_and_of_a_task",),
    ),
    Fault(
        "waiting jobs among those without a group",
        find_waiting_jobs_without_a_group,
        ("test_without_failed_jobs_there_are_no_groups",),
    ),
    Fault(
        "a page of a group with other failed jobs",
        find_every_failed_job,
        ("test_pages_of_a_group_show_each_job_once", "test_jobs_without_a_group"),
    ),
]
