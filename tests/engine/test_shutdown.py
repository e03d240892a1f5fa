"""What becomes of jobs when leases expire and workers stop."""

import asyncio
import threading

import pytest

from mita import Job, Mita, Retry
from mita.engine.lease_keeper import LeaseKeeper
from mita.ports.store import Store

from .conftest import working

QUICK = Retry(max_retries=2, base=0.001, cap=0.002)


async def test_a_stopping_worker_lets_short_jobs_end_and_returns_long_ones(app: Mita) -> None:
    started = asyncio.Semaphore(0)

    @app.task
    async def short() -> str:
        started.release()
        await asyncio.sleep(0.05)
        return "done"

    @app.task
    async def long() -> None:
        started.release()
        await asyncio.sleep(60)

    @app.task
    async def never_started() -> None: ...

    async with working(app, concurrency=2, grace=2) as worker:
        handles = [await short.enqueue(), await long.enqueue()]
        for _ in handles:
            await asyncio.wait_for(started.acquire(), 10)
        waiting = await never_started.enqueue()
        worker.stop()
    records = [await app.get(handle.id) for handle in (*handles, waiting)]
    assert [record.state for record in records if record] == ["succeeded", "ready", "ready"]
    assert [record.interruptions for record in records if record] == [0, 1, 0]
    assert [record.attempts for record in records if record] == [0, 0, 0]


async def test_a_second_stop_ends_the_worker_at_once(app: Mita) -> None:
    started = asyncio.Event()

    @app.task
    async def long() -> None:
        started.set()
        await asyncio.sleep(60)

    async with working(app, grace=20, lease=30) as worker:
        handle = await long.enqueue()
        await asyncio.wait_for(started.wait(), 10)
        worker.stop()
        worker.stop()
    record = await app.get(handle.id)
    assert record is not None
    assert (record.state, record.interruptions) == ("ready", 1)


async def test_expired_leases_are_swept_and_counted_as_crashes(app: Mita) -> None:
    @app.task(retry=QUICK)
    async def work(job: Job) -> int:
        return job.token

    handle = await work.enqueue()
    store = await app.open_store()
    turn = await store.claim(["default"], 1, 50, "a worker that dies")
    assert len(turn.claims) == 1
    async with working(app, lease=1):
        assert await handle.result(timeout=20) > turn.claims[0].token
        record = await app.get(handle.id)
    await store.close()
    assert record is not None
    assert (record.crashes, record.attempts) == (1, 0)


async def test_a_lost_lease_stops_the_run_and_its_verdict_is_refused(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3: as if the heartbeats of the worker did not reach the store."""
    ended: list[str] = []
    runs: list[int] = []

    @app.task(retry=QUICK)
    async def work(job: Job) -> str:
        runs.append(job.token)
        if len(runs) > 1:
            return "the heir's"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("told")
        return "too late"

    async def not_heard(self: LeaseKeeper, store: Store) -> None: ...

    monkeypatch.setattr(LeaseKeeper, "_beat", not_heard)
    async with working(app, lease=1.5):
        handle = await work.enqueue()
        assert await handle.result(timeout=20) == "the heir's"
        record = await app.get(handle.id)
    assert ended == ["told"]
    assert record is not None
    assert (record.crashes, record.attempts) == (1, 0)


async def test_a_worker_whose_lease_keeper_fails_ends_with_the_error(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: otherwise its leases would expire, and its jobs would run twice."""
    ended: list[str] = []
    died = threading.Event()

    @app.task
    async def work() -> None:
        while not died.is_set():  # noqa: ASYNC110 - it dies on another thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        ended.append("work")

    async def broken(self: LeaseKeeper, store: Store) -> None:
        if self._executor.held:
            died.set()
            raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(LeaseKeeper, "_beat", broken)
    await work.enqueue()
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(20):
            await app.worker(lease=1.5, grace=5).run()
    assert ended == ["work"], "running jobs ended within the grace time"
