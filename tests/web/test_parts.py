"""The pure parts of the dashboard: searches, remedies, alerts, bars, and values with an age."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from mita.model.history import HistoryPoint
from mita.model.record import RepeatRecord
from mita.model.repeat import RepeatState
from mita.model.time import MINUTE
from mita.model.view import QueueView, WorkerView
from mita.rules.explain.evidence import Reason, ReasonCode, advise
from mita.web.aged import AgedValues
from mita.web.alerts import alerts
from mita.web.remedies import remedy_of
from mita.web.search import as_filters, as_id, as_text
from mita.web.throughput import RANGES, bar_times, by_queue, chart_series

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("queue:mail state:failed", {"queue": "mail", "state": "failed"}),
        ('error:"no route" tag:a', {"error": "no route", "tag": "a"}),
        ("no route", {"error": "no route"}),
        ("http://x", {"error": "http://x"}),
        ("queue:", {"error": "queue:"}),
        ("", {}),
    ],
)
def test_a_search_means_filters(text: str, filters: dict[str, str]) -> None:
    assert as_filters(text) == filters
    assert as_filters(as_text(filters)) == filters


def test_only_hexadecimal_digits_are_an_id() -> None:
    assert as_id(" 01A1E575168C ") == "01a1e575168c"
    assert as_id("01a1e575168c.000007") == "01a1e575168c.000007"
    assert as_id("deadline") is None


def reason(*command: str) -> Reason:
    return Reason(ReasonCode.PAUSED, "it waits", **advise("do this", *command))


def test_a_command_becomes_a_button() -> None:
    found = remedy_of(reason("resume", "mail"))
    assert found is not None
    assert (found.advice, found.command) == ("do this", "mita resume mail")
    assert (found.path, found.fields) == ("/queues/act", {"act": "resume", "queue": "mail"})
    hold = remedy_of(reason("unhold", "gpu", "--queue", "images"))
    assert hold is not None
    assert hold.fields == {"act": "unhold", "key": "gpu", "queue": "images"}
    look = remedy_of(reason("why", "01a1"))
    assert look is not None
    assert (look.path, look.fields) == ("/jobs/01a1", {})


def test_a_command_that_needs_a_terminal_stays_a_command() -> None:
    found = remedy_of(reason("worker", "MODULE:APP"))
    assert found is not None
    assert (found.path, found.command) == ("", "mita worker MODULE:APP")
    assert remedy_of(Reason(ReasonCode.NEXT, "it is the next in line")) is None


def worker(*queues: str, offset: int = 0) -> WorkerView:
    return WorkerView(
        id="1", name="w", host="h", pid=1, queues=queues, tasks=(), slots=1, offset=offset
    )


def test_alerts_name_what_is_wrong() -> None:
    queues = [
        QueueView(name="paused", ready=1, paused=1),
        QueueView(name="alone", ready=2),
        QueueView(name="late", ready=1, oldest=6 * MINUTE),
        QueueView(name="fine", ready=1, oldest=1),
        QueueView(name="empty"),
    ]
    late = RepeatRecord(key="r", state=RepeatState.ACTIVE, next=NOW - timedelta(minutes=2))
    found = alerts(queues, [worker("late", "fine", "paused", offset=9000)], [late], NOW)
    assert [alert.text for alert in found] == [
        "Queue paused is paused, and 1 job waits.",
        "No worker serves queue alone, and 2 jobs wait.",
        "The oldest job of queue late has been ready for 6 m.",
        "Repeat r is late: no scheduler fires it.",
        "The clock of worker w is wrong by 9 s.",
    ]
    assert alerts([QueueView(name="fine")], [], [], NOW) == []


def test_bars_add_up_what_ended_in_their_time() -> None:
    hour = RANGES["1h"]
    times = bar_times(hour, NOW)
    assert (len(times), times[-1]) == (60, NOW.replace(second=0))
    points = [
        HistoryPoint(at=times[-1], queue="a", task="t", succeeded=2, failed=1),
        HistoryPoint(at=times[-1], queue="b", task="t", succeeded=3),
        HistoryPoint(at=times[0] - hour.each, queue="b", task="t", succeeded=9),
    ]
    rows = {one.name: one.values for one in chart_series(points, times, hour.each)}
    assert (rows["succeeded"][-1], rows["failed"][-1], sum(rows["succeeded"])) == (5, 1, 5)
    runs = by_queue(points, NOW)
    assert (runs["a"][-1], sum(runs["b"])) == (3, 3)


async def test_a_page_does_not_wait_for_what_takes_long() -> None:
    late: list[str] = []
    values = AgedValues(lambda: late.append("late"))
    may_end = asyncio.Event()

    async def slow() -> int:
        await may_end.wait()
        return 7

    first = await values.get("n", slow)
    assert first.value is None
    assert (await values.get("n", slow)).value is None  # it is read once at a time
    may_end.set()
    second = await values.get("n", slow)
    assert second.value == 7
    assert late == ["late"]


async def test_a_change_makes_values_outdated() -> None:
    count = 0
    values = AgedValues(lambda: None, clock=lambda: 0.0)

    async def read() -> int:
        nonlocal count
        count += 1
        return count

    assert [(await values.get("n", read)).value for _ in range(3)] == [1, 1, 1]
    values.forget()
    assert (await values.get("n", read)).value == 2


async def test_an_error_is_raised_and_the_next_read_may_succeed() -> None:
    clock = 0.0
    values = AgedValues(lambda: None, clock=lambda: clock)
    answers: list[int | Exception] = [ValueError("away"), 5]

    async def read() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(ValueError, match="away"):
        await values.get("n", read)
    clock = 10.0
    assert (await values.get("n", read)).value == 5
