"""Histories of runs that are broken on purpose."""

from collections.abc import Sequence

import pytest

from mita.model.history import RunCounts, StoredCounts
from mita.model.time import MINUTE, Moment
from mita.rules.history import begin, summed
from mita.stores.memory import MemoryStore, history, maintenance
from mita.stores.memory.context import MemoryContext
from mita.stores.memory.store import atomic

from .faults import Fault, said_as


def replace_the_numbers(patch: pytest.MonkeyPatch) -> None:
    """The last worker wins."""
    patch.setattr(history, "summed", lambda before, numbers: list(numbers))


def forget_the_hours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "SPANS_KEPT_MS", {MINUTE: 0})


def lose_the_last_number(patch: pytest.MonkeyPatch) -> None:
    def add(before: Sequence[int] | None, numbers: Sequence[int]) -> list[int]:
        return [*summed(before, numbers)[:-1], numbers[-1] if before is None else before[-1]]

    patch.setattr(history, "summed", add)


def begin_at_the_very_moment(patch: pytest.MonkeyPatch) -> None:
    """A point for each flush instead of one for each minute."""
    patch.setattr(history, "begin", lambda moment, span: moment)


def begin_with_the_next_minute(patch: pytest.MonkeyPatch) -> None:
    """`since` in the middle of a minute hides that minute."""
    patch.setattr(history, "first_shown", lambda since, now, span: max(since, now - 100 * 86400000))


def prune_everything(patch: pytest.MonkeyPatch) -> None:
    def prune(context: MemoryContext) -> None:
        for rows in context.state.history.values():
            rows.clear()

    patch.setattr(maintenance, "prune_history", prune)


def show_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "first_shown", lambda since, now, span: begin(since, span))


def ignore_the_task(patch: pytest.MonkeyPatch) -> None:
    whole = history.run_history

    def shown(
        context: MemoryContext, since: Moment, hourly: bool, queue: str | None, task: str | None
    ) -> list[StoredCounts]:
        return whole(context, since, hourly, queue, None)

    patch.setattr(MemoryStore, "run_history", atomic(shown))


def count_only_the_first(patch: pytest.MonkeyPatch) -> None:
    whole = history.count_runs

    def count(context: MemoryContext, counts: Sequence[RunCounts]) -> None:
        whole(context, counts[:1])

    patch.setattr(MemoryStore, "count_runs", atomic(count))


OF_HISTORY = [
    Fault(
        "counts that replace the counts of another worker",
        replace_the_numbers,
        ("test_counts_add_up", "test_two_workers_that_add_at_once_lose_nothing"),
    ),
    Fault("no counts by the hour", forget_the_hours, ("test_counts_are_shown_as_they_were_added",)),
    Fault("waits that are not added", lose_the_last_number, ("test_counts_add_up",)),
    Fault(
        "a point for each flush",
        begin_at_the_very_moment,
        ("test_each_minute_and_each_hour_has_its_own_counts",),
    ),
    Fault(
        "a history that begins too late",
        begin_with_the_next_minute,
        ("test_the_history_begins_with_the_minute_of_since",),
    ),
    Fault(
        "a prune that deletes what is kept",
        prune_everything,
        ("test_minutes_are_kept_for_a_day_and_hours_for_ninety",),
    ),
    Fault(
        "a history without an end",
        show_for_ever,
        ("test_minutes_are_kept_for_a_day_and_hours_for_ninety",),
    ),
    Fault("a filter that is ignored", ignore_the_task, ("test_filters_by_queue_and_task",)),
    Fault(
        "a flush of which the first pair is counted",
        count_only_the_first,
        ("test_many_pairs_in_one_call", "test_two_workers_that_add_at_once_lose_nothing"),
    ),
]
HISTORY_IN_SQL = [
    Fault(
        "an upsert that replaces",
        said_as(count_runs=("= succeeded + excluded.succeeded", "= excluded.succeeded")),
        ("test_counts_add_up", "test_two_workers_that_add_at_once_lose_nothing"),
    ),
    Fault(
        "a prune that deletes the newest",
        said_as(prune_history=("at < :first", "at > :first")),
        ("test_minutes_are_kept_for_a_day_and_hours_for_ninety",),
    ),
]
