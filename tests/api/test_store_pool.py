"""One app in many event loops, threads, processes and stores: a store is opened at its first
use, and none stays open."""

import asyncio
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mita import Mita, MitaError, UsageError, store_pool
from mita.settings import AppSettings, StoreURL
from mita.stores import registry

from .conftest import total, working


def ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mita")]


def make(url: str | None = None, **options: Any) -> tuple[Mita, Any]:
    app = Mita(url, **options)

    @app.task
    def double(n: int) -> int:
        return n * 2

    return app, double


def test_making_an_app_opens_nothing(tmp_path: Path) -> None:
    app, double = make(f"sqlite:///{tmp_path}/jobs.db")
    double.call(1)
    assert list(tmp_path.iterdir()) == []
    assert ours() == []
    assert "jobs.db" in repr(app)


def test_the_same_app_works_in_one_loop_after_the_other_and_leaves_no_thread(
    tmp_path: Path,
) -> None:
    app, double = make(f"sqlite:///{tmp_path}/jobs.db")

    async def once() -> int:
        await asyncio.gather(*(double.enqueue(n) for n in range(5)))
        return await total(app)

    assert [asyncio.run(once()) for _ in range(3)] == [5, 10, 15]
    assert ours() == []


def test_a_sync_program_can_use_an_app(url: str) -> None:
    app, double = make(url)
    jobs = [double.enqueue_sync(n) for n in range(3)]
    assert [job.get_sync().arguments for job in jobs] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert "mita-sync" in ours()
    app.close_sync()
    assert ours() == []
    double.enqueue_sync(9)
    app.close_sync()


def test_many_threads_share_one_loop(url: str) -> None:
    app, double = make(url)
    threads = [threading.Thread(target=double.enqueue_sync, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ours().count("mita-sync") == 1
    assert app._run_sync(total(app)) == 20
    app.close_sync()


def test_a_call_that_runs_while_the_app_closes_ends() -> None:
    app, double = make("memory://")
    job = double.enqueue_sync(1)
    ends: list[str] = []

    def wait() -> None:
        try:
            job.result_sync()
        except MitaError as error:
            ends.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.05)
    app.close_sync()
    waiting.join(10)
    assert not waiting.is_alive()
    assert "closed" in ends[0]


def test_a_worker_on_another_thread_finds_earlier_jobs_and_is_woken_for_new_ones(url: str) -> None:
    """Its next poll is an hour later."""
    app, double = make(url)
    worker = app.worker(poll=3600)
    loop = asyncio.new_event_loop()
    before = double.enqueue_sync(1)
    thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run()))
    thread.start()
    assert before.result_sync(timeout=30) == 2
    assert double.enqueue_sync(2).result_sync(timeout=30) == 4
    assert asyncio.run(double.enqueue(3)).result_sync(timeout=30) == 6
    assert double.options(queue="other").enqueue_sync(4).result_sync(timeout=30) == 8
    loop.call_soon_threadsafe(worker.stop)
    thread.join()
    loop.close()
    app.close_sync()


def test_event_loops_that_start_at_once_on_many_threads_share_one_memory_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, double = make("memory://")
    slow = registry.store_factory

    def maker(*given: Any) -> Any:
        time.sleep(0.05)
        return slow(*given)

    monkeypatch.setattr(store_pool, "store_factory", maker)
    threads = [threading.Thread(target=lambda: asyncio.run(double.enqueue(1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asyncio.run(total(app)) == 8


def _in_a_child(app: Mita, double: Any) -> None:
    assert double.enqueue_sync(2).get_sync().arguments == {"n": 2}
    asyncio.run(double.enqueue(3))
    app.close_sync()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_opens_its_own_store(tmp_path: Path) -> None:
    app, double = make(f"sqlite:///{tmp_path}/jobs.db")
    double.enqueue_sync(1)

    async def fork_inside_a_loop() -> int:
        await double.enqueue(1)
        child = multiprocessing.get_context("fork").Process(target=_in_a_child, args=(app, double))
        child.start()
        await asyncio.to_thread(child.join, 30)
        assert child.exitcode == 0
        return await total(app)

    assert asyncio.run(fork_inside_a_loop()) == 4
    app.close_sync()


def _alone_in_a_child(app: Mita, double: Any) -> None:
    assert asyncio.run(total(app)) == 0
    double.enqueue_sync(2)
    assert app._run_sync(total(app)) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_an_empty_memory_store_of_its_own() -> None:
    app, double = make("memory://")
    double.enqueue_sync(1)
    child = multiprocessing.get_context("fork").Process(
        target=_alone_in_a_child, args=(app, double)
    )
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert app._run_sync(total(app)) == 1
    app.close_sync()


async def test_a_closed_app_opens_its_store_again_at_the_next_use(tmp_path: Path) -> None:
    app, double = make(f"sqlite:///{tmp_path}/jobs.db")
    async with app:
        await double.enqueue(1)
        await asyncio.to_thread(double.enqueue_sync, 2)
    assert ours() == []
    await app.close()
    assert await total(app) == 2
    await app.close()


async def test_using_runs_the_same_tasks_on_another_store(tmp_path: Path) -> None:
    app, double = make(f"sqlite:///{tmp_path}/jobs.db")
    async with app.using("memory://"):
        job = await double.enqueue(4)
        other = await asyncio.to_thread(double.enqueue_sync, 5)
        async with working(app):
            assert [await job.result(10), await other.result(10)] == [8, 10]
        async with app.using("memory://"):
            assert await total(app) == 0
        assert await total(app) == 2
    assert not (tmp_path / "jobs.db").exists()
    assert await total(app) == 0
    await app.close()


async def test_a_store_that_failed_to_open_is_opened_at_the_next_use(tmp_path: Path) -> None:
    app, double = make(f"sqlite:///{tmp_path}/missing/jobs.db")
    for _ in range(2):
        with pytest.raises(UsageError, match="missing"):
            await asyncio.gather(double.enqueue(1), double.enqueue(2))
    (tmp_path / "missing").mkdir()
    await double.enqueue(1)
    assert await total(app) == 1
    await app.close()


async def test_a_cancelled_caller_does_not_cancel_the_opening_for_others(url: str) -> None:
    app, double = make(url)
    hasty = asyncio.create_task(double.enqueue(1))
    patient = asyncio.create_task(double.enqueue(2))
    await asyncio.sleep(0)
    hasty.cancel()
    await patient
    assert await total(app) >= 1
    await app.close()


async def test_two_namespaces_do_not_share_jobs(tmp_path: Path) -> None:
    one, double = make(f"sqlite:///{tmp_path}/jobs.db?namespace=one")
    two, _ = make(f"sqlite:///{tmp_path}/jobs.db", namespace="two")
    await double.enqueue(1)
    assert (await total(one), await total(two)) == (1, 0)
    await one.close()
    await two.close()


def test_the_url_is_that_of_the_app_or_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MITA_URL", raising=False)
    assert Mita().url == StoreURL("sqlite", "sqlite:///mita.db", "mita")
    monkeypatch.setenv("MITA_URL", "memory://?namespace=shop")
    assert Mita().url == StoreURL("memory", "memory://", "shop")
    assert StoreURL.parse("sqlite:///a%20b/jobs.db").path == Path("a b/jobs.db")
    assert StoreURL.parse("sqlite:////var/jobs.db").path == Path("/var/jobs.db")
    assert (
        StoreURL.parse("postgresql://h/d?namespace=a&sslmode=require").text
        == "postgresql://h/d?sslmode=require"
    )
    assert "pw" not in repr(StoreURL.parse("redis://me:pw@h"))
    for driver in ("psycopg", "psycopg2", "psycopg_async", "asyncpg"):
        assert StoreURL.parse(f"postgresql+{driver}://me:pw@h/d") == StoreURL.parse(
            "postgresql://me:pw@h/d"
        )
    assert StoreURL.parse("sqlite+aiosqlite:///jobs.db") == StoreURL.parse("sqlite:///jobs.db")


def test_delays_are_seconds_or_timedeltas() -> None:
    from datetime import timedelta

    assert AppSettings.of(keep=2, keep_failed=timedelta(minutes=1)) == AppSettings(
        keep=2000, keep_failed=60_000
    )


def test_the_error_of_a_wrong_url_names_the_environment_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MITA_URL", "mysql://me:secret@host/jobs")
    with pytest.raises(
        UsageError, match=r"^\$MITA_URL: store URL 'mysql://me:\*\*\*@host/jobs'"
    ) as caught:
        Mita()
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("MITA_URL", " memory://\n")  # as it is read from a file
    assert Mita().url.text == "memory://"
