"""`mita history`."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from mita.cli.history import Bars
from mita.model.history import HistoryPoint
from mita.model.time import HOUR, MINUTE

from .conftest import Run

Put = Callable[..., str]
NOW = datetime(2030, 1, 31, 12, 30, 30, tzinfo=UTC)


def test_runs_are_shown_by_queue_and_with_a_queue_by_task(mita: Run, enqueue: Put) -> None:
    for n in range(3):
        enqueue("greet", f"{n}")
    enqueue("flaky")
    enqueue("charge", "1", "5")
    mita("worker", "shop:app", "--until-empty")
    said = mita("history")
    header, billing, default, last = said.out.splitlines()
    assert header.split()[:4] == ["QUEUE", "SUCCEEDED", "FAILED", "RETRIED"]
    assert billing.split()[:4] == ["billing", "1", "0", "0"]
    assert default.split()[:4] == ["default", "3", "1", "1"]
    assert "█" in default
    assert last == "6 runs ended in the last 1 h; a bar of RUNS is 1 m"
    by_task = mita("history", "--queue", "default", "--since", "24h").out.splitlines()
    assert [line.split()[0] for line in by_task] == ["TASK", "flaky", "greet", "5"]
    assert "a bar of RUNS is 1 h" in by_task[-1]
    of_task = mita("history", "--task", "greet", "--since", "90d").out.splitlines()
    assert [line.split()[0] for line in of_task] == ["QUEUE", "default", "3"]
    points = mita("history", "--queue", "billing", "--json").data
    assert (points["by"], [point["task"] for point in points["history"]]) == (
        "minute",
        ["charge"],
    )
    assert points["history"][0]["at"].endswith(":00Z")


def test_without_runs_the_history_says_so(mita: Run) -> None:
    mita("migrate")
    assert mita("history").out == "no run has ended in the last 1 h\n"
    said = mita("history", "--queue", "mail", "--task", "send", "--since", "2d")
    assert said.out == "no run has ended in the last 2 d for queue mail and task send\n"
    assert mita("history", "--json").data == {"by": "minute", "history": []}


def test_a_time_that_makes_no_sense_is_refused(mita: Run) -> None:
    mita("migrate")
    for given, words in (("0", "say how long ago"), ("tomorrow", "not a length of time")):
        said = mita("history", "--since", given)
        assert said.code == 2
        assert words in said.err


def point(ago: timedelta, succeeded: int) -> HistoryPoint:
    at = (NOW - ago).replace(second=0)
    return HistoryPoint(at=at, queue="q", task="t", succeeded=succeeded)


def test_bars_cover_the_whole_time_and_nothing_is_lost() -> None:
    hour = Bars(NOW - timedelta(hours=1), NOW, MINUTE)
    found = hour.of([point(timedelta(0), 1), point(timedelta(minutes=60), 2)])
    assert (len(found), found[0], found[-1], hour.width) == (61, 2, 1, timedelta(minutes=1))
    days = Bars(NOW - timedelta(days=90), NOW, HOUR)
    found = days.of([point(timedelta(hours=hours), 1) for hours in range(90 * 24)])
    assert sum(found) == 90 * 24
    assert len(found) <= 61
    # a point from before, or from a clock that is ahead, is at the edge
    edges = hour.of([point(timedelta(days=1), 1), point(timedelta(days=-1), 2)])
    assert (edges[0], edges[-1]) == (1, 2)
