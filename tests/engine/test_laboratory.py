"""The engine on a clock that the test moves: what happens when, to the millisecond."""

from datetime import UTC, datetime, timedelta

import pytest

from mita import Cron, Every, Job, Mita, Reschedule, Retry, Unavailable, UsageError
from mita.testing import lab

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def app() -> Mita:
    return Mita("sqlite:///never-opened.db")


async def test_no_job_runs_before_its_due_time(app: Mita) -> None:
    """I8"""
    ran = []

    @app.task
    async def note(what: str) -> None:
        ran.append((what, (it.now - START).total_seconds()))

    async with lab(app, start=START) as it:
        await note.after(10).enqueue("after ten")
        await note.at(START + timedelta(seconds=5)).enqueue("at five")
        await note.enqueue("now")
        assert await it.drain() == 1
        await it.advance(9.999)
        assert [what for what, _ in ran] == ["now", "at five"]
        await it.advance(0.001)
    assert ran == [("now", 0.0), ("at five", 5.0), ("after ten", 10.0)]


async def test_retries_have_the_delays_of_the_backoff(app: Mita) -> None:
    starts = []

    @app.task(retry=Retry(max_retries=4, base=1, cap=5))
    async def never() -> None:
        starts.append((it.now - START).total_seconds())
        raise RuntimeError("no")

    async with lab(app, start=START, roll=1.0) as it:
        handle = await never.enqueue()
        assert await it.advance(60, raises=False) == 5
        record = await handle.get()
    assert starts == [0, 1, 3, 7, 12]  # 1, 2, 4, and then the cap
    assert record is not None
    assert (record.state, record.attempts) == ("failed", 5)


async def test_the_delays_of_retries_can_be_a_list_or_a_function(app: Mita) -> None:
    starts: dict[str, list[float]] = {"listed": [], "computed": [], "chosen": []}

    def rule(attempt: int, error: BaseException) -> float:
        assert isinstance(error, KeyError)
        return attempt * 10

    @app.task(retry=Retry(max_retries=3, waits=(2, 4)))
    async def listed() -> None:
        starts["listed"].append((it.now - START).total_seconds())
        raise KeyError

    @app.task(retry=Retry(max_retries=2, wait=rule))
    async def computed(name: str) -> None:
        starts[name].append((it.now - START).total_seconds())
        raise KeyError

    async with lab(app, start=START) as it:
        await listed.enqueue()
        await computed.enqueue("computed")
        await computed.options(retry=Retry(max_retries=1, waits=(7,))).enqueue("chosen")
        await it.advance(100, raises=False)
    assert starts == {"listed": [0, 2, 6, 10], "computed": [0, 10, 30], "chosen": [0, 7]}


async def test_reschedules_never_count_as_attempts(app: Mita) -> None:
    """I6"""

    @app.task(retry=Retry(max_retries=0))
    async def wander(job: Job) -> int:
        if job.reschedules < 50:
            raise Reschedule(after=60)
        return job.attempt

    async with lab(app) as it:
        handle = await wander.enqueue()
        assert await it.advance(timedelta(hours=2)) == 51
        record = await handle.get()
    assert record is not None
    assert (record.result, record.attempts, record.reschedules) == (1, 0, 50)


async def test_unavailable_holds_only_the_jobs_of_its_key(app: Mita) -> None:
    starts = []

    @app.task(resource="{partner}")
    async def call(partner: str, n: int) -> None:
        starts.append((partner, n, (it.now - START).total_seconds()))
        if partner == "slow" and len(starts) == 1:
            raise Unavailable(after=30, reason="429")

    async with lab(app, start=START) as it:
        await app.enqueue_many([call.call("slow", 1), call.call("slow", 2), call.call("quick", 3)])
        await it.advance(60)
    assert starts == [("slow", 1, 0), ("quick", 3, 0), ("slow", 1, 30), ("slow", 2, 30)]


async def test_repeats_keep_their_interval(app: Mita) -> None:
    fires = []

    @app.task
    async def tick(job: Job) -> None:
        assert job.fire_time is not None
        fires.append(((job.fire_time - START).total_seconds(), it.now == job.fire_time))

    async with lab(app, start=START) as it:
        await app.repeat("tick", tick.call(), Every(90), limit=3)
        assert await it.advance(3600) == 3
        [repeat] = await app.repeats.all()
    assert fires == [(90, True), (180, True), (270, True)]
    assert (repeat.state, repeat.count) == ("finished", 3)


async def test_declared_repeats_fire_in_their_zone(app: Mita) -> None:
    fires = []

    @app.repeats(Cron("30 2 * * *", tz="America/New_York"))
    @app.task
    async def nightly(job: Job) -> None:
        assert job.fire_time is not None
        fires.append(job.fire_time.astimezone(UTC).isoformat())

    async with lab(app, start=datetime(2026, 3, 7, 12, tzinfo=UTC)) as it:
        await it.advance(timedelta(days=2))
    # 02:30 does not exist on the 8th
    assert fires == ["2026-03-08T07:00:00+00:00", "2026-03-09T06:30:00+00:00"]


async def test_a_job_that_reschedules_itself_for_ever_does_not_hang_the_test(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mita.testing.lab_runs.MOST_RUNS", 100)

    @app.task
    async def spin() -> None:
        await spin.enqueue()

    async with lab(app) as it:
        await spin.enqueue()
        with pytest.raises(UsageError, match="each run lead to another one"):
            await it.drain()


async def test_sync_functions_run_and_the_app_has_its_own_store_again_afterwards(app: Mita) -> None:
    @app.task
    def double(n: int) -> int:
        return n * 2

    before = app.url
    async with lab(app) as it:
        handle = await double.enqueue(21)
        await it.drain()
        assert await handle.result() == 42
        assert app.url.scheme == "memory"
    assert app.url == before
