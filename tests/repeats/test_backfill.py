"""Jobs for the fire times of a range in the past: on every store."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mita import Cron, Every, UsageError
from mita.client import backfill as backfilling
from mita.model.job import State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import DAY, HOUR, MINUTE, SECOND
from mita.rules.display import as_datetime
from mita.rules.schedule.jobs import fire_id
from mita.testing.contract.given import claim_one, claims
from tests.rules.test_cron import utc

from .given import KEY, Scene

JANUARY: dict[str, Any] = {
    "start": datetime(2020, 1, 1, tzinfo=UTC),
    "end": datetime(2020, 2, 1, tzinfo=UTC),
}
DAYS = [utc(2020, 1, day, 9) for day in range(1, 32)]


async def daily(scene: Scene, **choices: Any) -> None:
    await scene.app.repeat(KEY, scene.digest.call("mon"), Cron("0 9 * * *"), **choices)


async def test_each_fire_time_of_the_range_gets_one_job(scene: Scene) -> None:
    await daily(scene)
    before = await scene.repeat()
    result = await scene.app.repeats.backfill(KEY, **JANUARY)
    assert (result.key, result.enqueued) == (KEY, 31)
    assert result.windows == tuple(map(as_datetime, DAYS))
    jobs = await scene.jobs()
    assert [(job.fire_time, job.id) for job in jobs] == [(day, fire_id(KEY, day)) for day in DAYS]
    assert {(job.task, job.queue, job.repeat) for job in jobs} == {("digest", "mail", KEY)}
    assert len({job.payload for job in jobs}) == 1, "with the arguments of the repeat"
    assert await scene.repeat() == before, "neither its cursor nor its count changes"
    assert len(await claims(scene.store, 50)) == 31, "and they are due"


async def test_a_second_backfill_makes_only_what_is_missing(scene: Scene) -> None:
    await daily(scene)
    half = {**JANUARY, "end": datetime(2020, 1, 16, tzinfo=UTC)}
    assert (await scene.app.repeats.backfill(KEY, **half)).enqueued == 15
    await claims(scene.store, 3)
    assert (await scene.app.repeats.backfill(KEY, **JANUARY)).enqueued == 16
    assert (await scene.app.repeats.backfill(KEY, **JANUARY)).enqueued == 0
    assert await scene.fired() == DAYS


async def test_backfills_at_once_make_each_job_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfilling, "FIRING_JOBS", 4)
    await daily(scene)
    results = await asyncio.gather(*(scene.app.repeats.backfill(KEY, **JANUARY) for _ in range(4)))
    assert sum(result.enqueued for result in results) == 31
    assert await scene.fired() == DAYS


async def test_a_backfill_that_ended_in_the_middle_can_be_run_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    def dies(done: int, total: int) -> None:
        assert total == 31
        if done >= 8:
            raise KilledError

    monkeypatch.setattr(backfilling, "FIRING_JOBS", 4)
    await daily(scene)
    with pytest.raises(KilledError):
        await scene.app.repeats.backfill(KEY, **JANUARY, progress=dies)
    assert await scene.fired() == DAYS[:8], "oldest first"
    seen: list[tuple[int, int]] = []
    again = await scene.app.repeats.backfill(
        KEY, **JANUARY, progress=lambda *told: seen.append(told)
    )
    assert again.enqueued == 23
    assert seen == [(min(n, 31), 31) for n in range(4, 33, 4)]
    assert await scene.fired() == DAYS


async def test_a_fire_and_a_backfill_of_one_time_make_one_job(scene: Scene) -> None:
    """Whichever is first."""
    first = await scene.store.now() - 3 * HOUR - MINUTE
    await scene.stands(Every(3600), first, missed="once")
    assert await scene.fire() == 1
    fired = await scene.fired()
    assert fired == [first]
    start, end = as_datetime(first), as_datetime(first + 3 * HOUR)
    result = await scene.app.repeats.backfill(KEY, start=start, end=end)
    assert (len(result.windows), result.enqueued) == (3, 2)
    await scene.stands(Every(3600), first + 3 * HOUR, "other")
    await scene.app.repeats.backfill("other", start=end, end=end + timedelta(seconds=1))
    assert len(await scene.jobs("other")) == 1
    assert await scene.fire() == 1
    assert len(await scene.jobs("other")) == 1
    assert (await scene.repeat("other")).count == 1


async def test_a_dry_run_shows_the_fire_times_and_makes_nothing(scene: Scene) -> None:
    await daily(scene)
    result = await scene.app.repeats.backfill(KEY, **JANUARY, dry_run=True)
    assert (result.windows, result.enqueued) == (tuple(map(as_datetime, DAYS)), 0)
    assert await scene.jobs() == []


@pytest.mark.parametrize("state", ["paused", "finished"])
async def test_a_repeat_that_does_not_fire_can_be_backfilled(scene: Scene, state: str) -> None:
    """And its limit does not count them."""
    now = await scene.store.now()
    await scene.stands(Every(3600), now, limit=1)
    if state == "finished":
        await scene.fire()
    else:
        await scene.app.repeats.pause(KEY)
    before = await scene.repeat()
    assert before.state == state
    start = as_datetime(now - 5 * HOUR)
    result = await scene.app.repeats.backfill(KEY, start=start, end=as_datetime(now))
    assert result.enqueued == 5
    assert await scene.repeat() == before


async def test_times_without_a_zone_are_in_that_of_the_repeat(scene: Scene) -> None:
    """Over a change of the clocks: 9 o'clock in Madrid is 8:00 UTC, then 7:00 UTC."""
    line = Cron("0 9 * * *", tz="Europe/Madrid")
    await scene.app.repeat(KEY, scene.digest.call(), line)
    start, end = datetime(2020, 3, 28, 9), datetime(2020, 3, 29, 9)  # noqa: DTZ001
    one = await scene.app.repeats.backfill(KEY, start=start, end=end, dry_run=True)
    assert one.windows == (datetime(2020, 3, 28, 8, tzinfo=UTC),), "its start, and not its end"
    two = await scene.app.repeats.backfill(
        KEY, start=start, end=end + timedelta(seconds=1), dry_run=True
    )
    assert two.windows[1:] == (datetime(2020, 3, 29, 7, tzinfo=UTC),)


@pytest.mark.parametrize(
    ("start", "end", "remedy"),
    [
        (JANUARY["end"], JANUARY["start"], "not before end"),
        (JANUARY["start"], JANUARY["start"], "not before end"),
        (JANUARY["start"], datetime(2999, 1, 1, tzinfo=UTC), "in the future"),
        (datetime(1969, 1, 1, tzinfo=UTC), JANUARY["start"], "before 1970"),
        ("2020-01-01", JANUARY["start"], "not a datetime"),
        (datetime(1990, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC), "split the range"),
    ],
)
async def test_a_range_that_cannot_be_is_refused_and_nothing_is_stored(
    scene: Scene, start: Any, end: Any, remedy: str
) -> None:
    await daily(scene)
    for dry_run in (True, False):
        with pytest.raises(UsageError, match=remedy):
            await scene.app.repeats.backfill(KEY, start=start, end=end, dry_run=dry_run)
    assert await scene.jobs() == []


async def test_the_parts_that_the_error_names_fit(scene: Scene) -> None:
    """More than 10,000 fire times: the error says until when the first part goes."""
    await daily(scene)
    whole: dict[str, Any] = {"start": datetime(1990, 1, 1, tzinfo=UTC), "end": JANUARY["end"]}
    with pytest.raises(UsageError, match="10,000") as refused:
        await scene.app.repeats.backfill(KEY, **whole)
    middle = datetime.fromisoformat(str(refused.value).rsplit(" ", 1)[1])
    first = await scene.app.repeats.backfill(KEY, start=whole["start"], end=middle, dry_run=True)
    assert len(first.windows) == backfilling.BACKFILL_JOBS
    rest = await scene.app.repeats.backfill(KEY, start=middle, end=whole["end"], dry_run=True)
    assert rest.windows[0] == middle


async def test_an_end_that_is_now_on_a_clock_a_little_ahead_is_now(scene: Scene) -> None:
    """`datetime.now(UTC)` must do, and no fire time of the future may slip in."""
    now = await scene.store.now()
    await scene.stands(Every(1), now + HOUR)
    end = as_datetime(now + 30 * SECOND)
    start = as_datetime(now - 10 * SECOND)
    result = await scene.app.repeats.backfill(KEY, start=start, end=end, dry_run=True)
    assert result.windows
    assert max(result.windows) <= as_datetime(await scene.store.now())
    for late in (61, 3600):
        with pytest.raises(UsageError, match="in the future"):
            await scene.app.repeats.backfill(
                KEY, start=start, end=as_datetime(await scene.store.now() + late * SECOND + 10)
            )


async def test_an_unknown_repeat_cannot_be_backfilled(scene: Scene) -> None:
    with pytest.raises(UsageError, match="no repeat 'nobody'"):
        await scene.app.repeats.backfill("nobody", **JANUARY)


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel"])
async def test_backfilled_jobs_run_one_at_a_time_unless_overlap_is_allowed(
    scene: Scene, overlap: Any
) -> None:
    await daily(scene, overlap=overlap)
    result = await scene.app.repeats.backfill(
        KEY, start=JANUARY["start"], end=datetime(2020, 1, 4, tzinfo=UTC)
    )
    assert result.enqueued == 3, "none of them is skipped"
    for day in DAYS[:3]:
        [running] = await claims(scene.store)
        assert running.fire_time == day, "oldest first"
        verdict = Verdict(state=State.SUCCEEDED, result=b"\xc0", keep=DAY)
        assert await scene.store.settle([Settlement(running, verdict)]) == [True]


async def test_the_schedule_does_not_cancel_a_backfill(scene: Scene) -> None:
    now = await scene.store.now()
    await scene.stands(Every(3600), now - MINUTE, overlap="cancel")
    start, end = as_datetime(now - 3 * HOUR), as_datetime(now - HOUR)
    assert (await scene.app.repeats.backfill(KEY, start=start, end=end)).enqueued == 2
    running = await claim_one(scene.store)
    assert await scene.fire() == 1
    states = {job.fire_time: (job.state, job.asked) for job in await scene.jobs()}
    assert states[running.fire_time] == (State.RUNNING, None)
    assert [state for state, _ in states.values()].count(State.CANCELLED) == 0
    assert (await claim_one(scene.store)).fire_time == now - MINUTE, "and does not wait for it"


async def test_a_backfill_from_sync_code(scene: Scene) -> None:
    await daily(scene)
    result = await asyncio.to_thread(scene.app.repeats.backfill_sync, KEY, **JANUARY, dry_run=True)
    assert len(result.windows) == 31
