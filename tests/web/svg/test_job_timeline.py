from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.model.record import DisplayState, Failure, JobRecord, TimelineLine
from mita.web.svg import job_timeline
from mita.web.svg.broken_scale import BrokenScale
from mita.web.svg.job_spans import spans_of

from .reading import NASTY, picture, share, with_class, words

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY_S = 86_400


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def job(state: DisplayState, **fields: Any) -> JobRecord:
    known: dict[str, Any] = {"created": at(-100), "due": at(-100)} | fields
    lines = known.pop("lines", ())
    timeline = (TimelineLine(known["created"], "created"), *lines)
    return JobRecord(
        id="1", task="send", queue="mail", state=state, priority=4, timeline=timeline, **known
    )


def line(seconds: float, kind: str, note: str = "", worker: str | None = None) -> TimelineLine:
    return TimelineLine(at(seconds), kind, note, worker)


def failure(start: float, end: float, kind: str = "retried") -> Failure:
    return Failure("ValueError", "no", "no", kind, at(end), at(start), "w1")


def told(record: JobRecord) -> list[tuple[str, float, float]]:
    """The stretches, in seconds from now."""
    return [
        (one.kind, (one.start - NOW).total_seconds(), (one.end - NOW).total_seconds())
        for one in spans_of(record, NOW)
    ]


RETRIED = job(
    DisplayState.SUCCEEDED,
    attempts=2,
    started=at(-10),
    finished=NOW,
    due=at(-20),
    worker="w2",
    lines=(
        line(-80, "retried", "boom", "w1"),
        line(-50, "retried", "", "w1"),
        line(-10, "started", "", "w2"),
    ),
    failures=(failure(-90, -80), failure(-60, -50)),
)


def test_the_runs_of_a_job_and_the_time_between_them() -> None:
    assert told(RETRIED) == [
        ("ready", -100, -90),
        ("running", -90, -80),
        ("scheduled", -80, -60),
        ("running", -60, -50),
        ("scheduled", -50, -20),
        ("ready", -20, -10),
        ("running", -10, 0),
    ]
    assert [one.attempt for one in spans_of(RETRIED, NOW) if one.attempt] == [1, 2, 3]


def test_a_job_that_waits_for_its_time() -> None:
    later = job(DisplayState.SCHEDULED, due=at(60))
    assert told(later) == [("scheduled", -100, 0), ("scheduled", 0, 60)]


def test_a_job_that_waits_for_others() -> None:
    never = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert told(job(DisplayState.WAITING, due=never)) == [("waiting", -100, 0)]


def test_a_step_of_a_flow_waits_for_the_steps_before_it() -> None:
    record = msgspec.structs.replace(
        job(DisplayState.SUCCEEDED, due=at(-30), started=at(-20), finished=NOW),
        id="0123456789abcdef0123456789abcdef.000002",
    )
    assert told(record) == [("waiting", -100, -30), ("ready", -30, -20), ("running", -20, 0)]


def test_a_job_that_was_blocked_and_runs() -> None:
    record = job(
        DisplayState.RUNNING,
        started=at(-5),
        lines=(line(-95, "blocked", "gpu"), line(-20, "queued")),
    )
    assert told(record) == [
        ("ready", -100, -95),
        ("blocked", -95, -20),
        ("ready", -20, -5),
        ("running", -5, 0),
    ]


def test_a_handler_that_sleeps() -> None:
    record = job(
        DisplayState.SCHEDULED, started=at(-90), due=at(3600), lines=(line(-80, "sleeping"),)
    )
    assert told(record) == [
        ("ready", -100, -90),
        ("running", -90, -80),
        ("sleeping", -80, 0),
        ("sleeping", 0, 3600),
    ]


def test_a_run_whose_start_is_not_known_is_named() -> None:
    record = job(
        DisplayState.SUCCEEDED,
        started=at(-5),
        finished=NOW,
        lines=(line(-80, "sleeping", "", "w1"), line(-50, "sleeping", "", "w1")),
    )
    spans = spans_of(record, NOW)
    assert [(one.kind, one.hides_run, one.attempt) for one in spans] == [
        ("ready", True, 0),
        ("sleeping", True, 0),
        ("sleeping", False, 0),
        ("running", False, 3),
    ]
    assert "a run whose start is not known" in job_timeline(record, NOW)


def test_runs_are_not_numbered_if_the_first_ones_are_forgotten() -> None:
    record = job(
        DisplayState.SUCCEEDED, started=at(-5), finished=NOW, lines=(line(-80, "folded", "{}"),)
    )
    assert {one.attempt for one in spans_of(record, NOW)} == {0}


def test_a_retry_by_a_person_begins_after_the_end() -> None:
    record = job(
        DisplayState.READY,
        due=at(-10),
        lines=(line(-80, "failed"), line(-10, "revived", "by hand")),
        failures=(failure(-90, -80, "failed"),),
    )
    assert told(record) == [("ready", -100, -90), ("running", -90, -80), ("ready", -10, 0)]


def test_a_job_that_was_never_run() -> None:
    record = job(DisplayState.CANCELLED, finished=at(-40), lines=(line(-40, "cancelled"),))
    assert told(record) == [("ready", -100, -40)]


# ---------------------------------------------------------------- the picture


def test_it_is_to_scale_and_inside() -> None:
    drawn = picture(job_timeline(RETRIED, NOW), "job-timeline")
    bars = list(with_class(drawn, "span"))
    assert [round(share(one, "width"), 3) for one in bars] == [
        *(0.1, 0.1, 0.2, 0.1, 0.3, 0.1, 0.1),
    ]
    for one, other in pairwise(bars):
        assert share(one, "x") + share(one, "width") == pytest.approx(share(other, "x"), abs=1e-4)
    high = float(drawn.attrib["height"])
    for one in drawn.iter():
        for name in ("x", "x1", "x2"):
            if one.get(name, "").endswith("%"):
                assert 0 <= share(one, name) <= 1
        if one.tag == "text":
            assert 0 <= float(one.attrib["y"]) <= high


def test_it_says_in_words_what_it_shows() -> None:
    drawn = picture(job_timeline(RETRIED, NOW), "job-timeline")
    assert words(drawn) == (
        "timeline of the job: ready 20 s, running 30 s, scheduled 50 s; 2 events"
    )
    second = list(with_class(drawn, "span"))[1]
    assert words(second) == "run 1 on w1: 10 s from 2026-11-16 11:58:30 UTC, retried"
    mark = next(with_class(drawn, "timeline-mark"))
    assert words(mark) == "2026-11-16 11:58:40 UTC retried: boom"


def test_a_gap_of_days_is_cut_and_says_so() -> None:
    record = job(
        DisplayState.SUCCEEDED,
        created=at(-3 * DAY_S),
        due=at(-30),
        started=at(-30),
        finished=at(-10),
    )
    drawn = picture(job_timeline(record, NOW), "job-timeline")
    waited, ran = with_class(drawn, "span")
    assert share(waited, "width") == pytest.approx(0.12)
    assert share(ran, "width") == pytest.approx(0.88)
    assert "2 d 23 h, not to scale" in [one.text for one in drawn.iter("text")]
    assert "1 long stretches are not to scale" in words(drawn)


def test_a_short_wait_is_never_cut() -> None:
    record = job(DisplayState.SUCCEEDED, started=at(-1), finished=NOW)
    assert not list(with_class(picture(job_timeline(record, NOW), "job-timeline"), "cut-gap"))


def test_only_the_future_is_after_now() -> None:
    drawn = picture(job_timeline(job(DisplayState.SCHEDULED, due=at(100)), NOW), "job-timeline")
    [now] = with_class(drawn, "now")
    assert share(now, "x1") == pytest.approx(0.5)
    ended = picture(job_timeline(RETRIED, NOW), "job-timeline")
    assert not list(with_class(ended, "now"))


def test_marks_that_would_touch_are_one() -> None:
    lines = tuple(line(-50 + n / 100, "retried") for n in range(40))
    drawn = picture(job_timeline(job(DisplayState.READY, lines=lines), NOW), "job-timeline")
    [mark] = with_class(drawn, "timeline-mark")
    assert [one.text for one in mark.iter("text")] == ["40"]


def test_a_job_of_this_very_moment_has_no_picture() -> None:
    assert job_timeline(job(DisplayState.READY, created=NOW, due=NOW), NOW) == ""


def test_text_is_escaped() -> None:
    record = job(
        DisplayState.RUNNING,
        started=at(-5),
        worker=NASTY,
        lines=(line(-50, NASTY, NASTY),),
    )
    markup = job_timeline(record, NOW)
    assert "<script" not in markup
    picture(markup, "job-timeline")


# ---------------------------------------------------------------- the scale

MOMENTS = st.lists(st.integers(0, 10 * DAY_S), min_size=2, max_size=12, unique=True).map(sorted)


@given(MOMENTS, st.data())
def test_a_scale_keeps_the_order_of_times(moments: list[int], data: st.DataObject) -> None:
    times = [at(seconds) for seconds in moments]
    quiet = [pair for pair in pairwise(times) if data.draw(st.booleans())]
    scale = BrokenScale(times[0], times[-1], quiet)
    places = [scale.at(time) for time in times]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == pytest.approx(1)
    assert scale.at(times[0] - timedelta(days=1)) == 0
    assert scale.at(times[-1] + timedelta(days=1)) == 1
