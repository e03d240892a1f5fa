"""What happens to repeats that are due, were missed, or are over, on every store."""

import asyncio
import logging
from typing import Any

import pytest

from mita import All, Cron, Every
from mita.client.repeat_spec import repeat_record
from mita.engine.scheduler import fire_due, firing_of
from mita.events import Counters, Signal
from mita.events.batches import batches_of
from mita.model.event import JobEvent, Kind
from mita.model.job import State
from mita.model.outcome import Settlement, Verdict
from mita.model.repeat import Firing, Repeat, RepeatState
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Moment
from mita.rules.display import as_datetime
from mita.testing.contract.clocks import Ticker
from mita.testing.contract.given import claim_one
from tests.rules.test_cron import utc

from .given import KEY, Scene

POLICIES: list[Any] = ["skip", "once", All(5), All(100)]
# a repeat of every hour has missed 24 windows by then, and its 25th is half an hour late
OUTAGE = DAY + 30 * MINUTE


async def after_an_outage(scene: Scene, **choices: Any) -> tuple[Moment, Repeat]:
    """Fire once, a day later. Returns the first window and the repeat."""
    first = await scene.store.now() - OUTAGE
    await scene.stands(Every(3600), first, **choices)
    assert await scene.fire() == 1
    return first, await scene.repeat()


async def test_fires_keep_their_interval_when_the_scheduler_is_late(
    scene: Scene, clock: Ticker
) -> None:
    """I7"""
    first = await scene.store.now()
    await scene.stands(Every(1), first)
    for late in (0, 300, 700, 10):
        await clock.tick(late)
        await scene.fire()
        await clock.tick(SECOND - late)
    fired = await scene.fired()
    assert fired
    assert all((time - first) % SECOND == 0 for time in fired)
    assert not clock.fake or fired == [first + n * SECOND for n in range(4)], (
        "on a real clock a test may miss one"
    )


@pytest.mark.parametrize("missed", POLICIES)
async def test_a_fire_that_is_due_exactly_now_is_not_a_missed_one(
    scene: Scene, missed: Any
) -> None:
    now = await scene.store.now()
    await scene.stands(Every(60), now, missed=missed)
    assert await scene.fire() == 1
    assert await scene.fired() == [now]
    assert (await scene.repeat()).cursor == now + MINUTE


async def test_skip_drops_the_missed_windows_of_a_day_but_not_a_late_one(
    scene: Scene,
) -> None:
    first, repeat = await after_an_outage(scene, missed="skip")
    assert await scene.fired() == [first + 24 * HOUR]
    assert (repeat.cursor, repeat.count, repeat.last) == (first + 25 * HOUR, 1, first + 24 * HOUR)


async def test_once_makes_one_job_for_a_day_dated_at_the_first_window(scene: Scene) -> None:
    first, repeat = await after_an_outage(scene, missed="once")
    assert await scene.fired() == [first]
    assert (repeat.cursor, repeat.count, repeat.last) == (first + 25 * HOUR, 1, first)


async def test_all_creates_a_job_for_every_missed_window_of_a_day(scene: Scene) -> None:
    first, repeat = await after_an_outage(scene, missed=All(100))
    assert await scene.fired() == [first + n * HOUR for n in range(25)]
    assert (repeat.cursor, repeat.count, repeat.last) == (first + 25 * HOUR, 25, first + 24 * HOUR)


async def test_all_stops_at_its_limit_and_continues_after_now(scene: Scene) -> None:
    first, repeat = await after_an_outage(scene, missed=All(5))
    assert await scene.fired() == [first + n * HOUR for n in range(5)]
    assert (repeat.cursor, repeat.count) == (first + 25 * HOUR, 5)


@pytest.mark.parametrize(
    ("missed", "dropped"), [("skip", 24), ("once", 24), (All(5), 20), (All(100), 0)]
)
async def test_dropped_windows_are_logged_counted_and_shown(
    scene: Scene, missed: Any, dropped: int, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, as an event and a metric, and in the record of the repeat."""
    caplog.set_level(logging.INFO, "mita.scheduler")
    tally, told = Counters(), list[JobEvent]()

    def tell(note: Signal) -> None:
        tally(note)
        told.extend(
            event
            for bunch in batches_of(note)
            for event in bunch.events()
            if event.kind is Kind.DROPPED
        )

    await scene.stands(Every(3600), await scene.store.now() - OUTAGE, missed=missed)
    while (await fire_due(scene.store, tell))[1] == 0:
        pass
    record = repeat_record(await scene.repeat())
    assert (record.state, record.dropped) == (RepeatState.ACTIVE, dropped)
    assert sum(tally.dropped.values()) == dropped
    assert [(event.id, event.count, event.queue) for event in told] == [
        (KEY, dropped, "mail")
    ] * bool(dropped)
    lines = [
        (line.levelname, line.getMessage())
        for line in caplog.records
        if "drops" in line.getMessage()
    ]
    level = "WARNING" if isinstance(missed, All) else "INFO"
    assert [
        (name, f"repeat {KEY} drops {dropped} missed windows" in text) for name, text in lines
    ] == ([(level, True)] if dropped else [])
    assert (f"{dropped} windows dropped so far" in record.reason) == bool(dropped)


async def test_a_limit_ends_a_repeat_in_the_middle_of_a_catch_up(scene: Scene) -> None:
    first, repeat = await after_an_outage(scene, missed=All(100), limit=7)
    assert await scene.fired() == [first + n * HOUR for n in range(7)]
    assert (repeat.state, repeat.count, repeat.cursor) == (RepeatState.FINISHED, 7, None)
    assert "limit" in repeat.reason
    assert await scene.fire() == 0


async def test_a_catch_up_of_thousands_is_complete(scene: Scene) -> None:
    """I7 I14: more jobs than any store takes in one call, by two schedulers at once."""
    first = await scene.store.now() - 3_000_000 * SECOND - 500
    await scene.stands(Every(1000), first, missed=All(2500))
    other = await scene.another()
    while (await scene.repeat()).count < 2500:
        await asyncio.gather(scene.fire(), fire_due(other))
    assert await scene.fired() == [first + n * 1000 * SECOND for n in range(2500)]
    assert (await scene.repeat()).count == 2500


async def test_a_catch_up_that_was_interrupted_is_continued(scene: Scene) -> None:
    """I7: the next scheduler creates the other jobs, and no more than the limit."""
    first = await scene.store.now() - 3_000_000 * SECOND - 500
    await scene.stands(Every(1000), first, missed=All(600))
    assert await fire_due(scene.store) == (1, 0)
    begun = await scene.repeat()
    assert (begun.count, begun.cursor) == (250, first + 250_000 * SECOND)
    assert "350 missed windows to go" in begun.reason
    other = await scene.another()
    while (await scene.repeat()).count < 600:
        await fire_due(other)
    assert await scene.fired() == [first + n * 1000 * SECOND for n in range(600)]
    ended = await scene.repeat()
    assert (ended.count, ended.reason.split(",")[0]) == (600, "2401 windows dropped so far")


async def test_a_catch_up_in_new_york_is_right_through_a_clock_change(scene: Scene) -> None:
    """The outage covers the night of 8 March 2026, in which 02:30 does not exist there."""
    windows = [
        utc(2026, 3, 7, 7, 30),
        utc(2026, 3, 8, 7),
        utc(2026, 3, 9, 6, 30),
        utc(2026, 3, 10, 6, 30),
    ]
    await scene.stands(Cron("30 2 * * *", tz="America/New_York"), windows[0], missed=All(4))
    await scene.fire()
    assert await scene.fired() == windows
    now, following = await scene.store.now(), (await scene.repeat()).cursor
    assert following is not None
    assert now < following <= now + 25 * HOUR


async def test_an_hour_that_comes_twice_in_new_york_fires_once(scene: Scene) -> None:
    windows = [utc(2025, 11, 1, 5, 30), utc(2025, 11, 2, 5, 30), utc(2025, 11, 3, 6, 30)]
    await scene.stands(Cron("30 1 * * *", tz="America/New_York"), windows[0], missed=All(3))
    await scene.fire()
    assert await scene.fired() == windows


async def test_an_overlapping_fire_makes_no_second_job(scene: Scene, clock: Ticker) -> None:
    """The job takes longer than the interval. On a real clock a test may miss windows, for which
    no job is created either."""
    first = await scene.store.now()
    await scene.stands(Every(1), first, overlap="skip")
    await scene.fire()
    claim = await claim_one(scene.store, queue="mail")
    for _ in range(2):
        await clock.tick(SECOND)
        await scene.fire()
    assert await scene.fired() == [claim.fire_time]
    assert await scene.store.settle(
        [Settlement(claim, Verdict(state=State.SUCCEEDED, keep=HOUR))]
    ) == [True]
    await clock.tick(SECOND)
    await scene.fire()
    assert len(await scene.fired()) == 2
    if clock.fake:
        assert await scene.fired() == [first, first + 3 * SECOND]
        assert (await scene.repeat()).count == 4


async def test_a_repeat_does_not_fire_at_its_end(scene: Scene) -> None:
    now = await scene.store.now()
    end = as_datetime(now + 2 * SECOND)
    await scene.stands(Every(1), now - 10 * SECOND, end_before=end, missed=All(100))
    await scene.fire()
    assert (await scene.repeat()).cursor == now + SECOND
    last = await scene.stands(Every(1), now, "last", end_before=as_datetime(now + SECOND))
    [turn] = [firing_of(last, now)]
    assert await scene.store.fire([turn]) == [True]
    ended = await scene.repeat("last")
    assert (ended.state, ended.cursor, ended.reason) == (
        RepeatState.FINISHED,
        None,
        "no fire is left before its end",
    )
    assert await scene.fired("last") == [now]


async def test_a_start_is_the_first_fire_of_an_interval(scene: Scene) -> None:
    start = as_datetime(await scene.store.now() + HOUR)
    put = await scene.app.repeat(KEY, scene.digest.call(), Every(60), start_after=start)
    assert put.next == start
    nine = await scene.app.repeat("nine", scene.digest.call(), Cron("0 9 * * *"), start_after=start)
    assert nine.next is not None
    assert nine.next >= start
    assert await scene.fire() == 0


async def old_and_new(scene: Scene) -> tuple[Firing, Moment]:
    """A repeat that is due, and the firing that a scheduler has already planned for it."""
    now = await scene.store.now()
    await scene.stands(Every(60), now)
    [due] = (await scene.store.due_repeats(10)).repeats
    return firing_of(due, now), now


async def test_a_repeat_that_is_removed_while_due_does_not_fire(scene: Scene) -> None:
    """I7"""
    planned, _ = await old_and_new(scene)
    assert await scene.app.repeats.remove(KEY)
    assert await scene.store.fire([planned]) == [False]
    assert await scene.jobs() == []


async def test_a_planned_firing_does_not_apply_to_a_replaced_repeat(scene: Scene) -> None:
    """I7"""
    planned, now = await old_and_new(scene)
    assert await scene.app.repeats.remove(KEY)
    put = await scene.app.repeat(
        KEY, scene.digest.call("tomorrow"), Every(60), start_after=as_datetime(now)
    )
    assert put.count == 0
    assert await scene.store.fire([planned]) == [False]
    assert await scene.jobs() == []


async def test_a_repeat_that_is_paused_while_due_does_not_fire(scene: Scene) -> None:
    """I7"""
    planned, now = await old_and_new(scene)
    assert await scene.app.repeats.pause(KEY)
    assert await scene.store.fire([planned]) == [False]
    assert await scene.fire() == 0
    assert await scene.app.repeats.resume(KEY)
    assert await scene.fire() == 1
    assert await scene.fired() == [now]


async def test_a_repeat_that_is_edited_while_due_fires_with_its_new_spec(scene: Scene) -> None:
    """I7"""
    planned, now = await old_and_new(scene)
    await scene.app.repeat(KEY, scene.digest.call("tomorrow"), Every(60))
    assert await scene.store.fire([planned]) == [False]
    assert await scene.fire() == 1
    [job] = await scene.jobs()
    assert (job.fire_time, job.payload) == (now, scene.digest.call("tomorrow").payload)


async def test_an_upsert_changes_pattern_and_payload_and_keeps_the_count(scene: Scene) -> None:
    now = await scene.store.now()
    await scene.stands(Every(60), now)
    await scene.fire()
    edited = await scene.app.repeat(
        KEY, scene.digest.call("tomorrow"), Cron("0 9 * * *"), missed="once"
    )
    assert (edited.count, edited.last, edited.missed) == (1, as_datetime(now), "once")
    assert edited.next is not None
    assert (edited.next.hour, edited.next.minute) == (9, 0)
    assert (await scene.repeat()).count == 1


async def test_a_repeat_that_cannot_be_read_is_parked_and_others_fire(scene: Scene) -> None:
    """I15"""
    now = await scene.store.now()
    healthy = await scene.stands(Every(60), now - 5, "healthy")
    await scene.store.put_repeat(Repeat(key="broken", spec=b"\xc1", cursor=now - 10))
    await scene.store.put_repeat(Repeat(key="strange", spec=healthy.spec[:-1], cursor=now - 10))
    assert await scene.fire() == 3
    assert await scene.fired("healthy") == [now - 5]
    for key in ("broken", "strange"):
        parked = await scene.repeat(key)
        assert (parked.state, parked.cursor) == (RepeatState.PARKED, None)
        assert "cannot be read" in parked.reason
    assert {(shown.key, shown.state) for shown in await scene.app.repeats.all()} == {
        ("broken", "parked"),
        ("healthy", "active"),
        ("strange", "parked"),
    }
    assert await scene.fire() == 0
    replaced = await scene.app.repeat("broken", scene.digest.call(), Every(60))
    assert (replaced.state, replaced.reason) == ("active", "")
