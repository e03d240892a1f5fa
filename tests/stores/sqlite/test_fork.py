"""A fork that cannot wait for SQLite: the child says so, and waits for nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from mita import forks
from mita.errors import StoreError
from mita.model.job import NewJob
from mita.stores.sqlite import SqliteStore
from mita.stores.sqlite.thread.file_lock import FileLock

forks.FORK_LOCK_TIMEOUT_S = 0.2
path = Path(sys.argv[1])
job = NewJob(id="1" * 32, task="t", queue="q", payload=b"x")

def in_child(store):
    for use in (store.enqueue([job]), SqliteStore(path).open()):
        try:
            asyncio.run(use)
        except StoreError as error:
            print(error, flush=True)
    os._exit(0)

async def main():
    store = SqliteStore(path)
    await store.open()
    lock = FileLock(Path(f"{path}-lock"))
    lock.acquire()  # as a process that was stopped inside a transaction
    waiting = asyncio.create_task(store.enqueue([job]))
    while not store.writer._waits_for_lock:
        await asyncio.sleep(0.01)
    child = os.fork() or in_child(store)
    os.waitpid(child, 0)
    lock.release()
    await waiting
    print(len(await store.queues()), "queue")
    await store.close()

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_of_a_process_that_was_stuck_is_told_what_to_do(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "jobs.db")],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "opened before this process was forked" in ran.stdout
    assert "forked while its parent waited" in ran.stdout
    assert "'spawn'" in ran.stdout
    assert "1 queue" in ran.stdout
