"""A lab on every store: the same jobs, the same clock, and nothing is left behind."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import nats
import psycopg
import pytest

from mita import Every, Job, Mita, Reschedule, Retry, StoreError, UsageError
from mita.testing import lab
from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers

from .stores import URLS

START = datetime(2031, 5, 1, tzinfo=UTC)
MOVABLE = [name for name in URLS if name != "nats"]


class Shop:
    """An app whose tasks note when they ran."""

    def __init__(self) -> None:
        self.app = Mita("sqlite:///never-opened.db")
        self.ran: list[tuple[str, float]] = []
        app = self.app

        @app.task(retry=Retry(max_retries=3, base=10))
        async def send(job: Job, to: str) -> str:
            self.ran.append((to, 0.0))
            if to == "nobody" and job.attempt < 3:
                raise ConnectionError("no such host")
            return f"to {to}"

        @app.task
        def follow(to: str, more: int) -> None:
            self.ran.append((to, float(more)))
            if more:
                follow.enqueue_sync(to, more - 1)

        @app.task(resource="{key}")
        async def one_at_a_time(job: Job, key: str) -> int:
            if job.reschedules < 2:
                raise Reschedule(after=30)
            return job.reschedules

        self.send, self.follow, self.one_at_a_time = send, follow, one_at_a_time


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.app.close_sync()


@pytest.mark.parametrize("store", MOVABLE)
async def test_the_clock_of_every_store_is_moved(shop: Shop, store: str, tmp_path: Path) -> None:
    async with lab(shop.app, URLS[store](tmp_path), start=START) as it:
        failing = await shop.send.enqueue("nobody")
        later = await shop.send.after(3600).enqueue("Bo")
        moved = await shop.one_at_a_time.enqueue("a")
        await shop.app.repeat("hourly", shop.follow.call("tick", 0), Every(3600))
        assert await it.drain(raises=False) == 2
        assert await it.advance(3599, raises=False) == 4
        assert (await failing.result(), await moved.result()) == ("to nobody", 2)
        assert await it.advance(1) == 2
        assert await later.result() == "to Bo"
        record = await failing.get()
        assert record is not None
        assert (record.attempts, (record.due - START).total_seconds()) == (2, 30.0)
        assert (it.now - START).total_seconds() == 3600
        it.assert_enqueued(shop.send, "Bo", after=3600, state="succeeded", count=1)
        it.assert_enqueued(shop.follow, to="tick", at=datetime(2031, 5, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("store", URLS)
async def test_drain_runs_what_jobs_enqueue(shop: Shop, store: str, tmp_path: Path) -> None:
    async with lab(shop.app, URLS[store](tmp_path)) as it:
        await shop.follow.enqueue("Ada", 3)
        await shop.send.after(60).enqueue("Bo")
        assert await it.drain() == 4
        assert await it.drain() == 0
        it.assert_enqueued(shop.follow, count=4)
        assert [job.state for job in it.enqueued(shop.send)] == ["scheduled"]
    assert shop.ran == [("Ada", 3), ("Ada", 2), ("Ada", 1), ("Ada", 0)]


@pytest.mark.parametrize("store", URLS)
def test_sync_tests_run_on_every_store(shop: Shop, store: str, tmp_path: Path) -> None:
    with lab(shop.app, URLS[store](tmp_path)) as it:
        shop.follow.enqueue_sync("Ada", 2)
        assert it.drain_sync() == 3
        handle = shop.send.enqueue_sync("Bo")
        assert it.drain_sync() == 1
        assert handle.result_sync() == "to Bo"
        it.assert_enqueued(shop.follow, "Ada", 1, state="succeeded")


@pytest.mark.parametrize("store", MOVABLE)
def test_a_sync_test_moves_the_clock(shop: Shop, store: str, tmp_path: Path) -> None:
    with lab(shop.app, URLS[store](tmp_path), start=START) as it:
        failing = shop.send.enqueue_sync("nobody")
        assert it.advance_sync(60, raises=False) == 3
        assert failing.result_sync() == "to nobody"
        assert (it.now - START).total_seconds() == 60


async def left_behind(store: str, folder: Path) -> set[str]:
    """The namespaces and files of labs that are in the database."""
    match store:
        case "sqlite":
            return set(os.listdir(folder))  # noqa: PTH208
        case "postgres":
            with psycopg.connect(postgres_servers.server("pg18").url()) as connection:
                rows = connection.execute("select nspname from pg_namespace").fetchall()
                return {name for (name,) in rows if "_lab_" in name}
        case "redis":
            client = redis_servers.shared(redis_servers.bundled()).client()
            with client:
                return {str(key) for key in client.keys("*_lab_*")}
        case _:
            server = await nats.connect(nats_servers.shared().url)
            found = await server.jetstream().streams_info()
            await server.close()
            return {one.config.name or "" for one in found if "_lab_" in str(one.config.name)}


@pytest.mark.parametrize("store", [name for name in URLS if name != "memory"])
async def test_a_lab_leaves_nothing_behind(shop: Shop, store: str, tmp_path: Path) -> None:
    before = await left_behind(store, tmp_path)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with lab(shop.app, URLS[store](tmp_path)) as it:
                assert it.enqueued() == []
                await shop.send.after(60).enqueue("Ada")
                assert await left_behind(store, tmp_path) > before
                raise ZeroDivisionError
    assert await left_behind(store, tmp_path) == before


@pytest.mark.parametrize("store", URLS)
async def test_two_labs_on_one_database_do_not_see_each_other(store: str, tmp_path: Path) -> None:
    """As two test processes of pytest-xdist."""
    one, two = Shop(), Shop()
    url = URLS[store](tmp_path)
    async with lab(one.app, url) as here, lab(two.app, url) as there:
        await one.send.enqueue("Ada")
        await two.send.enqueue("Bo")
        assert await here.drain() == 1
        assert await there.drain() == 1
    assert (one.ran, two.ran) == ([("Ada", 0.0)], [("Bo", 0.0)])


async def test_jobs_of_a_running_application_are_not_touched(shop: Shop, tmp_path: Path) -> None:
    url = URLS["postgres"](tmp_path) + "&namespace=real_shop"
    async with shop.app.using(url):
        real = await shop.send.enqueue("a customer")
        async with lab(shop.app, url) as it:
            assert it.enqueued() == []
            assert await it.drain() == 0
        record = await shop.app.get(real.id)
        assert record is not None
        assert record.state == "ready"
    assert shop.ran == []


async def test_the_clock_of_nats_cannot_be_moved(shop: Shop, tmp_path: Path) -> None:
    url = URLS["nats"](tmp_path)
    async with lab(shop.app, url) as it:
        await shop.send.after(60).enqueue("Ada")
        with pytest.raises(UsageError, match="its own clock, which a test cannot move"):
            await it.advance(60)
        with pytest.raises(UsageError, match="its own clock"):
            it.clock.move(60)
        assert abs((it.now - datetime.now(UTC)).total_seconds()) < 60
    with pytest.raises(UsageError, match="its own clock"):
        lab(shop.app, url, start=START)


def test_a_url_that_no_store_can_use(shop: Shop) -> None:
    with pytest.raises(UsageError, match="unknown scheme 'mysql'"):
        lab(shop.app, "mysql://localhost/shop")


def test_a_server_that_is_not_there_leaves_the_app_as_it_was(shop: Shop) -> None:
    before = shop.app.url
    for _ in range(2):
        with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
            lab(shop.app, "postgresql://127.0.0.1:1/shop").__enter__()
    assert shop.app.url == before
