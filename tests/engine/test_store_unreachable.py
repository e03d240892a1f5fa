"""A store that is unreachable for a while, and one that stays unreachable."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from mita import Mita, StoreError
from mita.engine import backoff
from mita.ports.store import Store
from tests.waiting import until

from .conftest import working


async def test_a_worker_waits_for_a_locked_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mita.stores.sqlite.connection.BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "jobs.db"
    app = Mita(f"sqlite:///{path}")
    started, ended = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> str:
        started.set()
        await ended.wait()
        return "settled in the end"

    async with working(app, lease=30, poll=0.05):
        handle = await work.enqueue()
        await asyncio.wait_for(started.wait(), 10)
        stranger = sqlite3.connect(path, isolation_level=None)
        stranger.execute("begin exclusive")
        ended.set()
        with pytest.raises(StoreError) as caught:
            await work.enqueue()
        assert caught.value.transient
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        stranger.execute("rollback")
        stranger.close()
        assert await handle.result(timeout=20) == "settled in the end"
    await app.close()


async def test_a_deleted_file_accepts_no_more_jobs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    app = Mita(f"sqlite:///{path}")

    @app.task
    async def work() -> None: ...

    await work.enqueue()
    path.unlink()
    with pytest.raises(StoreError, match="deleted or replaced"):
        await work.enqueue()
    await app.close()


async def test_a_worker_starts_as_soon_as_its_store_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Mita(f"sqlite:///{tmp_path / 'jobs.db'}")

    @app.task
    async def work() -> str:
        return "done"

    handle = await work.enqueue()
    tries = 0
    real = app._pool.new

    async def refuse_twice(silence: float) -> object:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise StoreError("not yet", transient=True)
        return await real(silence)

    monkeypatch.setattr(app._pool, "new", refuse_twice)

    async def succeeded() -> bool:
        record = await app.get(handle.id)
        return record is not None and record.state == "succeeded"

    async with working(app):
        await until(succeeded)
    assert tries >= 3
    await app.close()


async def test_a_worker_waits_for_a_store_that_fails_right_after_it_was_opened(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def work() -> str:
        return "done"

    kind = type(await app._store())
    handle, real, tries = await work.enqueue(), kind.now, 0

    async def refuse_twice(self: Store) -> int:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise StoreError("gone again", transient=True)
        return await real(self)

    monkeypatch.setattr(kind, "now", refuse_twice)
    async with working(app):
        assert await handle.result(timeout=20) == "done"
    assert tries >= 3


async def test_a_worker_that_waits_for_its_store_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if its next attempt is far away."""
    monkeypatch.setattr(backoff, "FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr(backoff, "LONGEST_PAUSE_S", 3600.0)
    stopping, tried = asyncio.Event(), asyncio.Event()

    async def away() -> Store:
        tried.set()
        raise StoreError("away", transient=True)

    reaching = asyncio.create_task(backoff.reach(away, stopping))
    await tried.wait()
    stopping.set()
    async with asyncio.timeout(20):
        assert await reaching is None
