"""Repeats through the app: create, edit, read, pause, trigger and remove them."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from mita import All, Cron, Every, Job, Mita, UsageError
from mita.model.repeat import Repeat
from mita.rules.schedule import spec
from mita.tasks import Task
from tests.waiting import until

from .conftest import total, working

SOON = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
async def digest(app: Mita) -> Task[Any, Any]:
    @app.task(queue="mail")
    async def digest(job: Job, day: str = "today") -> str:
        return f"{day} {job.fire_time is not None}"

    return digest


async def test_an_interval_is_a_number_of_seconds_or_a_timedelta(
    app: Mita, digest: Task[Any, Any]
) -> None:
    assert Every(timedelta(minutes=5)) == Every(300)
    assert Every(seconds=timedelta(milliseconds=10)).interval == 10
    with pytest.raises(
        UsageError, match=r"Every\('5m'\): give seconds as a number, or a timedelta"
    ):
        Every("5m")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least"):
        Every(timedelta(0))
    stored = await app.repeat("k", digest.call(), Every(timedelta(hours=1)))
    assert stored.pattern == Every(3600)
    daily = await app.repeat("d", digest.call(), Cron("@daily", tz="Europe/Madrid"))
    assert daily.pattern == Cron("@daily", tz="Europe/Madrid")


async def test_a_repeat_is_stored_and_shown(app: Mita, digest: Task[Any, Any]) -> None:
    put = await app.repeat(
        "daily", digest.call("x"), Cron("0 9 * * MON-FRI", tz="Europe/Madrid"), missed="once"
    )
    assert (put.key, put.task, put.queue, put.state, put.count, put.missed) == (
        "daily",
        "digest",
        "mail",
        "active",
        0,
        "once",
    )
    assert put.next is not None
    assert put.next > datetime.now(UTC)
    assert await app.repeats.all() == [put] == await app.repeats()
    assert await app.repeats.get("daily") == put
    assert await app.repeats.get("nightly") is None


async def test_without_a_key_the_same_task_and_pattern_are_one_repeat(
    app: Mita, digest: Task[Any, Any]
) -> None:
    for pattern in (
        Every(60),
        Cron("0 9 * * *"),
        Every(60),
        Cron("0 9 * * *"),
        Cron("0 9 * * *", "Asia/Tokyo"),
    ):
        await app.repeat(None, digest.call(), pattern)
    assert len(await app.repeats.all()) == 3


async def test_an_edit_keeps_the_next_fire_unless_the_times_change(
    app: Mita, digest: Task[Any, Any]
) -> None:
    first = await app.repeat("k", digest.call(), Every(3600))
    await asyncio.sleep(0.01)
    assert (await app.repeat("k", digest.call(), Every(3600))).next == first.next
    edited = await app.repeat("k", digest.call("other"), Every(3600), missed=All(5), limit=7)
    assert (edited.next, edited.limit, edited.missed) == (first.next, 7, "all, at most 5")
    assert (await app.repeat("k", digest.call(), Every(7200))).next != first.next
    moved = await app.repeat("k", digest.call(), Every(7200), start_after=SOON)
    assert moved.next is not None
    assert abs(moved.next - SOON) < timedelta(milliseconds=2)


async def test_preview_shows_the_next_fires(app: Mita, digest: Task[Any, Any]) -> None:
    await app.repeat("k", digest.call(), Every(60), start_after=SOON, limit=3)
    fires = await app.repeats.preview("k", 5)
    assert [later - sooner for sooner, later in pairwise(fires)] == [timedelta(minutes=1)] * 2
    ahead = await app.repeats.preview(Cron("0 9 * * *", tz="UTC"), 3)
    assert [(fire.hour, fire.minute) for fire in ahead] == [(9, 0)] * 3


async def test_trigger_enqueues_a_job_and_does_not_change_the_schedule(
    app: Mita, digest: Task[Any, Any]
) -> None:
    before = await app.repeat("k", digest.call("now"), Every(3600))
    job = await app.repeats.trigger("k")
    again = await app.repeats.trigger("k")
    async with working(app):
        assert await job.result(10) == "now True"
    assert job.id != again.id
    assert await app.repeats.get("k") == before
    record = await job.get()
    assert record is not None
    assert (record.repeat, record.queue) == ("k", "mail")


async def test_an_overlapping_trigger_returns_the_unfinished_job(
    app: Mita, digest: Task[Any, Any]
) -> None:
    await app.repeat("k", digest.call(), Every(3600), overlap="skip")
    first, twin = await app.repeats.trigger("k"), await app.repeats.trigger("k")
    assert (twin.id, twin.created) == (first.id, False)


async def test_a_repeat_can_be_paused_resumed_and_removed(
    app: Mita, digest: Task[Any, Any]
) -> None:
    await app.repeat("k", digest.call(), Every(3600))
    assert await app.repeats.pause("k")
    assert not await app.repeats.pause("k")
    edited = await app.repeat("k", digest.call(), Every(60))
    assert edited.state == "paused"
    assert await app.repeats.resume("k")
    assert await app.repeats.remove("k")
    assert not await app.repeats.remove("k")


async def test_a_worker_fires_a_repeat(app: Mita, digest: Task[Any, Any]) -> None:
    await app.repeat(
        "k",
        digest.call(),
        Every(3600),
        start_after=datetime.now(UTC) + timedelta(seconds=0.1),
        limit=1,
    )

    async def fired() -> bool:
        return len((await app.jobs(repeat="k", state="succeeded")).jobs) == 1

    async with working(app, poll=0.05):
        await until(fired)
    repeat = await app.repeats.get("k")
    assert repeat is not None
    [job] = (await app.jobs(repeat="k")).jobs
    assert job.fire_time == repeat.last
    assert (repeat.state, repeat.count, repeat.next) == ("finished", 1, None)
    again = await app.repeat("k", digest.call(), Every(3600), limit=1, start_after=repeat.last)
    assert (again.state, again.count) == ("finished", 1)
    more = await app.repeat("k", digest.call(), Every(3600), limit=2)
    assert (more.state, more.count) == ("active", 1)


async def test_declared_repeats_are_stored_when_a_worker_starts(url: str) -> None:
    async with Mita(url) as app:

        @app.repeats(Every(3600), key="hourly", missed="once")
        @app.repeats(Cron("0 9 * * *"))
        @app.task
        async def digest(day: str = "today") -> None: ...

        assert await app.repeats.all() == []

        async def put() -> bool:
            return len(await app.repeats.all()) == 2

        async with working(app):
            await until(put)
        before = await app.repeats.all()
        async with working(app):
            await asyncio.sleep(0.05)
        assert await app.repeats.all() == before
        assert await total(app) == 0


def test_a_declared_repeat_needs_a_task_without_required_arguments() -> None:
    app: Any = Mita("memory://")

    async def plain() -> None: ...

    with pytest.raises(UsageError, match=r"above @app\.task"):
        app.repeats(Every(1))(plain)

    async def greet(name: str) -> None: ...

    with pytest.raises(UsageError, match=r"'greet' needs name.*app\.repeat"):
        app.repeats(Every(1))(app.task(greet))


async def test_a_repeat_that_cannot_be_read_is_shown(app: Mita, digest: Task[Any, Any]) -> None:
    store = await app.open_store()
    await store.put_repeat(Repeat(key="broken", spec=b"\xc1", cursor=1))
    await store.close()
    [shown] = await app.repeats.all()
    assert (shown.key, shown.state) == ("broken", "parked")
    assert "cannot be read" in shown.reason
    replaced = await app.repeat("broken", digest.call(), Every(60))
    assert replaced.state == "active"


async def test_a_spec_is_unchanged_after_packing_and_unpacking(digest: Task[Any, Any]) -> None:
    from mita.client.repeat_spec import repeat_spec

    wanted = repeat_spec(
        digest.call("x"), Every(3), {"missed": All(4), "start_after": SOON, "limit": 2}
    )
    assert spec.unpack(spec.pack(wanted)) == wanted
    with pytest.raises(UsageError, match="cannot be read"):
        spec.unpack(msgspec.msgpack.encode({"pattern": 3}))
