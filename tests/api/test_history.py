"""`app.history`: what it takes and what it returns."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mita import HistoryPoint, Mita, UsageError
from mita.model.history import RunCounts
from mita.testing.clock import FakeClock

NUMBERS = {"succeeded": 1, "failed": 2, "retried": 3, "rescheduled": 4, "cancelled": 5}


async def test_a_point_has_every_number_and_its_time_in_utc() -> None:
    clock = FakeClock()
    async with Mita("memory://").using("memory://", clock=clock) as app:
        store = await app._store()
        await store.count_runs(
            [RunCounts(queue="q", task="t", **NUMBERS, run_ms=1500, wait_ms=250)]
        )
        [minute], [hour] = await app.history(), await app.history(by="hour")
        now = datetime.fromtimestamp(clock.now() / 1000, UTC)
        at = now.replace(second=0, microsecond=0)
        assert minute == HistoryPoint(
            at=at, queue="q", task="t", **NUMBERS, run_seconds=1.5, wait_seconds=0.25
        )
        assert hour.at == at.replace(minute=0)
        assert (minute.runs, hour.runs) == (15, 15)


async def test_since_is_a_time_or_how_long_ago_on_the_clock_of_the_store() -> None:
    clock = FakeClock()
    async with Mita("memory://").using("memory://", clock=clock) as app:
        store = await app._store()
        for _ in range(3):
            await store.count_runs([RunCounts(queue="q", task="t", succeeded=1)])
            clock.move_ms(10 * 60_000)
        now = datetime.fromtimestamp(clock.now() / 1000, UTC)

        async def total(since: Any) -> int:
            return sum(point.succeeded for point in await app.history(since=since))

        assert await total(timedelta(minutes=20)) == await total(now - timedelta(minutes=20)) == 2
        assert await total(timedelta.max) == await total(datetime(1900, 1, 1, tzinfo=UTC)) == 3
        assert await total(timedelta(0)) == await total(now + timedelta(days=1)) == 0


def test_the_twin_for_sync_code_returns_the_same() -> None:
    app = Mita("memory://")

    @app.task(queue="mail")
    def send() -> None: ...

    send.enqueue_sync()
    app.worker(until_empty=True).run_sync()
    [point] = app.history_sync(queue="mail", task=send.name)
    assert point.succeeded == 1
    assert app.history_sync(queue="other") == ()
    app.close_sync()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": "day"}, 'by=\'day\': give "minute" or "hour"'),
        ({"since": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        ({"since": timedelta(hours=-1)}, "is negative: say how long ago"),
        ({"since": 3600}, "give a datetime with a time zone, or how long ago"),
        ({"since": None}, "give a datetime with a time zone, or how long ago"),
    ],
)
async def test_a_wrong_input_is_explained(given: dict[str, Any], said: str) -> None:
    async with Mita("memory://") as app:
        with pytest.raises(UsageError, match=said):
            await app.history(**given)
