"""What the file's own thread promises: syncs where something was promised, and an end to
waiting."""

import sys
from pathlib import Path

import pytest

from mita.errors import StoreError
from mita.stores.sqlite import SqliteStore
from mita.stores.sqlite.context import SqliteContext, VerbCall
from mita.stores.sqlite.thread import connection_thread
from mita.stores.sqlite.thread.file_lock import FileLock
from mita.testing.contract.given import LONG, QUEUE, claims, jobs, put, settled, succeed


async def how_durable(store: SqliteStore) -> int:
    """What SQLite says of the write that comes now: 2 waits for the disk, 1 does not."""
    return await store.writer.call(_synchronous, durable=False)


def _synchronous(context: SqliteContext) -> int:
    level: int = context.connection.execute("pragma synchronous").fetchone()[0]
    return level


async def test_what_was_acknowledged_waits_for_the_disk_and_a_claim_does_not(
    tmp_path: Path,
) -> None:
    """I1"""
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open()
    seen = list[str]()
    write = store.writer._write

    def watched(calls: list[VerbCall]) -> None:
        write(calls)
        seen.append("sync" if store.writer._durable else "-")

    store.writer._write = watched  # type: ignore[method-assign]
    await store.enqueue(jobs(2))
    first, second = await claims(store, 2)
    assert await store.extend([first], LONG)
    await settled(store, succeed(first))
    await store.settle_and_claim([succeed(second)], [QUEUE], 1, LONG, "w")
    await store.settle_and_claim([], [QUEUE], 1, LONG, "w")
    assert seen == ["sync", "-", "-", "sync", "sync", "-"]
    await store.close()


async def test_the_disk_is_waited_for_again_after_a_claim(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open()
    await put(store)
    await claims(store, 1)
    assert await how_durable(store) == 1
    assert await store.writer.call(_synchronous) == 2
    await store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there SQLite's own lock is used")
async def test_a_process_that_stops_with_the_lock_is_named_and_calls_that_gave_up_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_thread, "LOCK_TIMEOUT_S", 0.2)
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open()
    stranger = FileLock(Path(f"{path}-lock"))  # as another process would open it
    stranger.acquire()
    with pytest.raises(StoreError, match="another process has kept the lock") as caught:
        await store.enqueue(jobs(1))
    assert caught.value.transient
    assert f"{path}-lock" in str(caught.value)
    stranger.release()
    stranger.close()
    kept = await put(store)
    assert [claim.id for claim in await claims(store, 9)] == [kept]
    await store.close()
