"""What one turn of a repeat makes."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.pattern import CATCH_UP_JOBS, All, Cron, Every, JobTemplate, RepeatSpec
from mita.model.repeat import FIRING_JOBS, Firing, Repeat, RepeatState
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Moment, When
from mita.rules.schedule import cron, jobs
from mita.rules.schedule import times as fire_times
from mita.rules.schedule.dropped import dropped
from mita.rules.schedule.fire import half, plan
from mita.rules.schedule.jobs import fire_id
from mita.rules.schedule.times import fires, first, preview
from tests.counting import calls_counted

from .given import NOON
from .test_cron import utc

TEMPLATE = JobTemplate(
    task="digest", queue="mail", payload=b"p", options=b"o", priority=7, resource="r", limit=2
)
MINUTELY = Every(60)
POLICIES: list[Any] = ["skip", "once", All(3), All()]


def spec(pattern: Every | Cron = MINUTELY, **more: Any) -> RepeatSpec:
    return RepeatSpec(pattern=pattern, job=TEMPLATE, **more)


def turn(wanted: RepeatSpec, now: Moment, cursor: Moment = NOON, count: int = 0) -> Firing:
    return plan(Repeat(key="digest", spec=b"", cursor=cursor, revision=4, count=count), wanted, now)


def times(firing: Firing) -> list[Moment]:
    return [job.fire_time for job in firing.jobs if job.fire_time is not None]


# ---------------------------------------------------------------- on time


@pytest.mark.parametrize("missed", POLICIES)
@pytest.mark.parametrize("late", [0, 1, 30 * SECOND, MINUTE - 1])
def test_a_fire_that_is_merely_late_is_on_time_under_every_policy(missed: Any, late: int) -> None:
    firing = turn(spec(missed=missed), NOON + late)
    assert times(firing) == [NOON]
    assert (firing.next, firing.fired, firing.last) == (NOON + MINUTE, 1, NOON)


@given(
    late=st.integers(0, 10 * DAY),
    missed=st.sampled_from(POLICIES),
    seconds=st.sampled_from([0.01, 0.7, 1, 60, 3600]),
)
def test_cadence_holds_whoever_is_late(late: int, missed: Any, seconds: float) -> None:
    """I7: fires are counted from fire to fire, so the grid never shifts; and the next one is
    ahead."""
    pattern = Every(seconds)
    firing = turn(spec(pattern, missed=missed), NOON + late)
    assert firing.next is not None
    assert NOON + late <= firing.next <= NOON + late + pattern.interval
    assert firing.next > NOON
    assert all((at - NOON) % pattern.interval == 0 for at in [*times(firing), firing.next])
    assert all(NOON <= at <= NOON + late for at in times(firing))


@pytest.mark.parametrize("missed", POLICIES)
@pytest.mark.parametrize("windows", [1, 2, 10])
@pytest.mark.parametrize("pattern", [MINUTELY, Cron("* * * * *")])
def test_a_window_that_begins_this_moment_is_never_missed(
    pattern: Every | Cron, windows: int, missed: Any
) -> None:
    """I7: whatever came before it, it is the next one; and it is fired in the next look, which
    comes at once."""
    now = NOON + windows * MINUTE
    firing = turn(spec(pattern, missed=missed), now)
    assert firing.next == now
    assert now not in times(firing)
    assert times(turn(spec(pattern, missed=missed), now, cursor=now)) == [now]
    if windows == 1:
        assert times(firing) == [NOON], "late by one window, and its next one is not over"


def test_a_firing_names_what_it_compares() -> None:
    firing = turn(spec(), NOON)
    assert (firing.key, firing.cursor, firing.revision) == ("digest", NOON, 4)
    assert (firing.state, firing.reason) == (RepeatState.ACTIVE, "")


# ---------------------------------------------------------------- missed windows


@pytest.mark.parametrize("late", [1, 5, MINUTE - 1])
@pytest.mark.parametrize("pattern", [MINUTELY, Cron("* * * * *")])
def test_skip_drops_what_is_over_and_makes_the_one_that_is_merely_late(
    pattern: Every | Cron, late: int
) -> None:
    firing = turn(spec(pattern, missed="skip"), NOON + 10 * MINUTE + late)
    assert times(firing) == [NOON + 10 * MINUTE]
    assert (firing.next, firing.fired, firing.last) == (NOON + 11 * MINUTE, 1, NOON + 10 * MINUTE)


@pytest.mark.parametrize(
    "line", ["* * * * *", "0 9 1 1 *", "*/7 2,14 * * MON", "0 0 29 2 *", "* * * * * *"]
)
def test_the_one_that_is_merely_late_is_found_after_years(line: str) -> None:
    """I14: from near its end, however many windows were missed."""
    now = NOON + 6 * 366 * DAY + 12_345
    firing = turn(spec(Cron(line), missed="skip"), now)
    [latest] = times(firing)
    assert latest <= now
    assert next(cron.after(Cron(line), latest)) == firing.next
    assert firing.next is not None
    assert now < firing.next


def test_skip_makes_the_last_window_before_its_end() -> None:
    firing = turn(spec(missed="skip", end_before=NOON + 3 * MINUTE), NOON + HOUR)
    assert (times(firing), firing.state) == ([NOON + 2 * MINUTE], RepeatState.FINISHED)


def test_once_makes_one_job_dated_at_the_first_missed_fire() -> None:
    firing = turn(spec(missed="once"), NOON + 10 * MINUTE + 5)
    assert times(firing) == [NOON]
    assert (firing.next, firing.fired, firing.last) == (NOON + 11 * MINUTE, 1, NOON)


def test_all_makes_one_job_for_each_missed_window_oldest_first() -> None:
    firing = turn(spec(missed=All(100)), NOON + 5 * MINUTE + 5)
    assert times(firing) == [NOON + n * MINUTE for n in range(6)]
    assert (firing.next, firing.fired, firing.last) == (NOON + 6 * MINUTE, 6, NOON + 5 * MINUTE)


def test_all_stops_at_its_cap_and_moves_past_now() -> None:
    firing = turn(spec(missed=All(3)), NOON + 10 * MINUTE + 5)
    assert times(firing) == [NOON, NOON + MINUTE, NOON + 2 * MINUTE]
    assert (firing.next, firing.fired) == (NOON + 11 * MINUTE, 3)
    assert times(turn(spec(missed=All(1)), NOON + 10 * MINUTE)) == [NOON]


@pytest.mark.parametrize("pattern", [MINUTELY, Cron("* * * * *")])
@pytest.mark.parametrize(
    ("missed", "windows"), [("skip", 10), ("once", 10), (All(3), 8), (All(11), 0), (All(), 0)]
)
def test_windows_that_make_no_job_are_counted(
    pattern: Every | Cron, missed: Any, windows: int
) -> None:
    """Eleven have come since noon, that of noon included."""
    firing = turn(spec(pattern, missed=missed), NOON + 10 * MINUTE + 5)
    assert firing.dropped == windows
    assert len(firing.jobs) + firing.dropped == 11
    assert dropped(firing.reason) == windows
    assert turn(spec(pattern, missed=missed), NOON).dropped == 0


def test_what_was_dropped_is_added_up_from_turn_to_turn() -> None:
    reason = ""
    for n, late in enumerate([10 * MINUTE, 0, 5 * MINUTE]):
        repeat = Repeat(key="digest", spec=b"", cursor=NOON + n * HOUR, reason=reason)
        reason = plan(repeat, spec(), NOON + n * HOUR + late + 5).reason
    assert reason == "15 windows dropped so far, most recently at 2030-01-01 14:05:00 UTC"
    ended = plan(
        Repeat(key="digest", spec=b"", cursor=NOON, reason=reason), spec(limit=1), NOON + MINUTE + 5
    ).reason
    assert ended.startswith("it has fired 1 times, its limit; 16 windows dropped so far")


def test_all_just_under_its_cap_is_whole() -> None:
    firing = turn(spec(missed=All(11)), NOON + 10 * MINUTE + 1)
    assert times(firing) == [NOON + n * MINUTE for n in range(11)]


def turns(
    wanted: RepeatSpec, now: Moment, split: Callable[[Firing], Firing] = lambda firing: firing
) -> list[Firing]:
    """All turns of a repeat until its next window is ahead, each planned from what the one before
    left in the store."""
    repeat = Repeat(key="digest", spec=b"", cursor=NOON)
    made = []
    while repeat.cursor is not None and repeat.cursor <= now:
        firing = split(plan(repeat, wanted, now))
        made.append(firing)
        repeat = replace(
            repeat,
            cursor=firing.next,
            count=repeat.count + firing.fired,
            state=firing.state,
            reason=firing.reason,
        )
    return made


def test_no_catch_up_makes_more_than_ten_thousand() -> None:
    """I7 I14: in turns that every store can write in one act."""
    made = turns(spec(Every(1), missed=All(10**6)), NOON + 30_000 * SECOND + 1)
    assert {len(firing.jobs) for firing in made} == {FIRING_JOBS}
    assert [time for firing in made for time in times(firing)] == [
        NOON + n * SECOND for n in range(CATCH_UP_JOBS)
    ]
    assert made[-1].next == NOON + 30_001 * SECOND
    assert "9750 missed windows to go" in made[0].reason
    assert made[-1].reason.startswith(
        "20001 windows dropped so far, most recently at 2030-01-01 20:20:00 UTC"
    )
    assert [firing.dropped for firing in made] == [0] * 39 + [20_001]


@given(late=st.integers(0, 2000), most=st.integers(1, 1500), limit=st.none() | st.integers(1, 1500))
def test_a_catch_up_in_several_turns_makes_what_one_turn_would(
    late: int, most: int, limit: int | None
) -> None:
    """I7"""
    made = turns(spec(missed=All(most), limit=limit), NOON + late * MINUTE + 1)
    expected = min(late + 1, most, limit or most)
    assert [time for firing in made for time in times(firing)] == [
        NOON + n * MINUTE for n in range(expected)
    ]
    assert (made[-1].state is RepeatState.FINISHED) == (limit is not None and expected == limit)


@given(late=st.integers(0, 600), most=st.integers(1, 600))
def test_a_turn_may_be_halved(late: int, most: int) -> None:
    """I7: the store did not take so much at once."""
    made = turns(
        spec(missed=All(most)),
        NOON + late * MINUTE + 1,
        lambda firing: half(firing) if len(firing.jobs) > 90 else firing,
    )
    expected = [NOON + n * MINUTE for n in range(min(late + 1, most))]
    assert [time for firing in made for time in times(firing)] == expected


def test_jobs_with_large_arguments_are_made_a_few_at_a_time() -> None:
    heavy = spec(missed=All(1000))
    heavy = replace(heavy, job=replace(heavy.job, payload=b"x" * 1_000_000))
    firing = turn(heavy, NOON + HOUR)
    assert len(firing.jobs) == 7
    assert firing.next == NOON + 7 * MINUTE


def test_windows_that_come_during_a_catch_up_are_not_lost() -> None:
    """I7: the cap counts what is made, not what was missed when it began."""
    first = turn(spec(missed=All(1000)), NOON + 300 * MINUTE + 1)
    later = Repeat(
        key="digest", spec=b"", cursor=first.next, count=first.fired, reason=first.reason
    )
    second = plan(later, spec(missed=All(1000)), NOON + 400 * MINUTE + 1)
    assert times(second) == [NOON + n * MINUTE for n in range(250, 401)]


@given(late=st.integers(0, 40 * MINUTE), most=st.integers(1, 50))
def test_all_makes_each_window_once(late: int, most: int) -> None:
    """I7"""
    made = times(turn(spec(missed=All(most)), NOON + late))
    windows = [NOON + n * MINUTE for n in range(max(1, -(-late // MINUTE)))]
    assert made == windows[:most]


@given(stops=st.lists(st.integers(0, 7 * MINUTE), min_size=1, max_size=12))
def test_turn_after_turn_no_window_is_made_twice_or_forgotten(stops: list[int]) -> None:
    """I7: a scheduler that wakes up at odd times, and catches up each time."""
    wanted, repeat, now = spec(missed=All(100)), Repeat(key="k", spec=b"", cursor=NOON), NOON
    made: list[Moment] = []
    for stop in stops:
        now += stop
        while repeat.cursor is not None and repeat.cursor <= now:
            firing = plan(repeat, wanted, now)
            made += times(firing)
            repeat = Repeat(
                key="k", spec=b"", cursor=firing.next, count=repeat.count + firing.fired
            )
    assert made == [NOON + n * MINUTE for n in range((now - NOON) // MINUTE + 1)]
    assert repeat.count == len(made)


def test_an_outage_across_a_change_of_clocks_is_caught_up_to_the_hour() -> None:
    """Down from Friday to Tuesday over the night in which 02:30 does not exist in New York."""
    daily = Cron("30 2 * * *", tz="America/New_York")
    windows = [
        utc(2030, 3, 9, 7, 30),
        utc(2030, 3, 10, 7),
        utc(2030, 3, 11, 6, 30),
        utc(2030, 3, 12, 6, 30),
    ]
    now, after = utc(2030, 3, 12, 12), utc(2030, 3, 13, 6, 30)
    assert times(turn(spec(daily, missed=All()), now, cursor=windows[0])) == windows
    assert times(turn(spec(daily, missed="once"), now, cursor=windows[0])) == windows[:1]
    for missed in POLICIES:
        assert turn(spec(daily, missed=missed), now, cursor=windows[0]).next == after


def test_an_outage_across_the_hour_that_comes_twice_makes_it_once() -> None:
    daily = Cron("30 1 * * *", tz="America/New_York")
    windows = [utc(2030, 11, 2, 5, 30), utc(2030, 11, 3, 5, 30), utc(2030, 11, 4, 6, 30)]
    assert (
        times(turn(spec(daily, missed=All()), utc(2030, 11, 4, 12), cursor=windows[0])) == windows
    )


@pytest.mark.parametrize("missed", POLICIES)
def test_years_of_outage_cost_no_time(missed: Any) -> None:
    """I14: the next fire of an interval is computed, not walked."""
    with calls_counted() as calls:
        firing = turn(spec(Every(0.01), missed=missed), NOON + 20 * 365 * DAY + 1)
    assert calls[0] < 5_000
    assert firing.next == NOON + 20 * 365 * DAY + 10
    assert len(firing.jobs) <= 100


# ---------------------------------------------------------------- limits and edges


def test_the_last_fire_of_a_limit_ends_the_repeat() -> None:
    firing = turn(spec(limit=3), NOON, count=2)
    assert times(firing) == [NOON]
    assert (firing.next, firing.state) == (None, RepeatState.FINISHED)
    assert firing.reason == "it has fired 3 times, its limit"
    assert turn(spec(limit=3), NOON, count=1).state is RepeatState.ACTIVE


def test_a_limit_in_the_middle_of_a_catch_up_cuts_it_short() -> None:
    firing = turn(spec(limit=5, missed=All(100)), NOON + HOUR, count=3)
    assert times(firing) == [NOON, NOON + MINUTE]
    assert (firing.fired, firing.next, firing.state) == (2, None, RepeatState.FINISHED)


def test_a_limit_that_is_already_reached_makes_nothing() -> None:
    firing = turn(spec(limit=3, missed=All(100)), NOON + HOUR, count=3)
    assert (firing.jobs, firing.fired, firing.last) == ((), 0, None)
    assert (firing.next, firing.state) == (None, RepeatState.FINISHED)


def test_windows_that_were_passed_over_do_not_use_up_the_limit() -> None:
    firing = turn(spec(limit=2, missed="skip"), NOON + HOUR - 1)
    assert (firing.state, firing.fired) == (RepeatState.ACTIVE, 1)


def test_nothing_fires_at_or_after_the_end() -> None:
    ends = spec(end_before=NOON + 2 * MINUTE, missed=All(100))
    assert turn(ends, NOON).next == NOON + MINUTE
    last = turn(ends, NOON + MINUTE, cursor=NOON + MINUTE)
    assert times(last) == [NOON + MINUTE]
    assert (last.next, last.state, last.reason) == (
        None,
        RepeatState.FINISHED,
        "no fire is left before its end",
    )
    assert times(turn(ends, NOON + HOUR)) == [NOON, NOON + MINUTE]


def test_the_first_fire_of_an_interval_is_one_interval_from_now() -> None:
    assert first(spec(), NOON) == NOON + MINUTE


def test_an_interval_begins_at_its_start() -> None:
    assert first(spec(start_after=NOON + 5), NOON) == NOON + 5
    assert first(spec(start_after=NOON), NOON) == NOON, "a start that is now is the first fire"
    assert first(spec(start_after=NOON - 90 * SECOND), NOON) == NOON + 30 * SECOND, (
        "on the grid of a start that has passed"
    )


def test_a_line_begins_with_its_first_match_after_the_start() -> None:
    daily = Cron("0 9 * * *")
    assert first(spec(daily), utc(2030, 1, 1, 9)) == utc(2030, 1, 2, 9)
    assert first(spec(daily, start_after=utc(2030, 5, 1, 9)), utc(2030, 1, 1)) == utc(2030, 5, 1, 9)
    assert first(spec(daily, start_after=utc(2030, 5, 1, 9) + 1), utc(2030, 1, 1)) == utc(
        2030, 5, 2, 9
    )


def test_what_would_never_fire_has_no_first_fire() -> None:
    assert first(spec(end_before=NOON + MINUTE), NOON) is None
    assert first(spec(end_before=NOON + MINUTE + 1), NOON) == NOON + MINUTE
    assert first(spec(Cron("0 9 * * *"), end_before=utc(2030, 1, 1, 9)), utc(2030, 1, 1)) is None


@given(
    seconds=st.floats(0.01, 10_000),
    origin=st.integers(0, 10**13),
    ahead=st.integers(-(10**12), 10**12),
)
def test_the_fires_of_an_interval_are_a_grid_from_its_origin(
    seconds: float, origin: int, ahead: int
) -> None:
    pattern, after = Every(seconds), origin + ahead
    coming = fires(spec(pattern), after, origin)
    one, two = next(coming), next(coming)
    assert one > after
    assert one >= origin
    assert one == origin or one - pattern.interval <= after, "and it is the first one"
    assert (one - origin) % pattern.interval == 0
    assert two - one == pattern.interval


# ---------------------------------------------------------------- looking ahead


def test_a_preview_begins_with_the_cursor() -> None:
    assert preview(spec(), NOON, 3) == [NOON, NOON + MINUTE, NOON + 2 * MINUTE]
    assert preview(spec(end_before=NOON + 90 * SECOND), NOON, 5) == [NOON, NOON + MINUTE]
    assert preview(spec(), NOON, 1) == [NOON]
    assert preview(spec(), None, 3) == []


@given(n=st.integers(1, 20), line=st.sampled_from(["*/5 * * * *", "30 2 * * *", "0 0 1 * *"]))
def test_a_preview_is_what_will_be(n: int, line: str) -> None:
    wanted = spec(Cron(line, tz="America/New_York"))
    cursor = first(wanted, utc(2030, 3, 8))
    seen = preview(wanted, cursor, n)
    for expected in seen:
        assert cursor == expected
        cursor = turn(wanted, expected, cursor=expected).next


# ---------------------------------------------------------------- the jobs


def test_a_fired_job_knows_its_repeat_and_its_nominal_time() -> None:
    [job] = turn(spec(), NOON + 7).jobs
    assert (job.repeat, job.fire_time, job.when) == ("digest", NOON, When(at=NOON))
    assert (job.task, job.queue, job.payload, job.options) == ("digest", "mail", b"p", b"o")
    assert (job.priority, job.resource, job.limit, job.unique) == (7, "r", 2, None)


def test_without_overlap_the_fires_of_one_repeat_share_a_unique_key() -> None:
    one, two = turn(spec(overlap="skip", missed=All()), NOON + MINUTE + 1).jobs
    assert one.unique == two.unique == "repeat:digest"


def test_a_job_that_is_triggered_by_hand_can_have_an_id_of_its_own() -> None:
    assert jobs.job("digest", spec(), NOON, id="f" * 32).id == "f" * 32


KEYS = st.text("abc:.-_0", min_size=1, max_size=4)
TIMES = st.integers(0, 2**47)


@given(left=st.tuples(KEYS, TIMES), right=st.tuples(KEYS, TIMES))
def test_an_id_belongs_to_one_fire_of_one_repeat(
    left: tuple[str, int], right: tuple[str, int]
) -> None:
    """I7: whoever makes the job of a fire a second time makes the same one."""
    assert (fire_id(*left) == fire_id(*right)) == (left == right)


@given(key=KEYS, time=TIMES, later=st.integers(1, 10**9))
def test_ids_look_like_all_ids_and_sort_by_their_time(key: str, time: int, later: int) -> None:
    id = fire_id(key, time)
    assert len(id) == 32
    assert int(id, 16) >= 0
    assert id[12] == "7"
    assert id < fire_id("another", time + later)


def test_a_pattern_is_told_in_words() -> None:
    for seconds, words in {
        0.25: "0.25 s",
        90: "90 s",
        120: "2 m",
        7000: "1 h 56 m 40 s",
        86_400.5: "1 d 0.5 s",
    }.items():
        assert fire_times.in_words(spec(Every(seconds))) == f"every {words}"
    assert "Europe/Madrid" in fire_times.in_words(spec(Cron("0 9 * * *", tz="Europe/Madrid")))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("seconds", [0, -1, 0.009, float("nan"), float("inf"), 1e300])
def test_an_interval_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="interval must be at least"):
        Every(seconds)


@pytest.mark.parametrize(
    "wish",
    [
        {"limit": 0},
        {"start_after": NOON, "end_before": NOON},
        {"missed": "never"},
        {"overlap": "maybe"},
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        spec(**wish)


def test_two_unique_keys_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        RepeatSpec(
            pattern=MINUTELY,
            job=JobTemplate(task="t", queue="q", payload=b"", unique="u"),
            overlap="skip",
        )
    with pytest.raises(UsageError, match="at least 1"):
        All(0)


def test_a_pattern_that_cannot_be_computed_is_refused() -> None:
    fire_times.check(spec())
    for broken in (Cron("61 * * * *"), Cron("* * * * *", tz="Mars/Base")):
        with pytest.raises(UsageError):
            fire_times.check(spec(broken))
