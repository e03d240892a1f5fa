"""A store that is unreachable for a while: locked by another program, or with its disk full."""

import asyncio
import resource
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.waiting import until

from . import menu
from .checker import Expect
from .harness import SLACK, Asked, Process, Scene

QUICKLY = 0.3  # after this time a locked file is an error
AWAY = 3.0  # several leases


@contextmanager
def locked(scene: Scene) -> Iterator[None]:
    """Another program has locked the file, so that no process can write."""
    stranger = sqlite3.connect(scene.folder / "jobs.db", isolation_level=None, timeout=30)
    stranger.execute("begin exclusive")
    try:
        yield
    finally:
        stranger.execute("rollback")
        stranger.close()


@contextmanager
def disk_full(process: Process, size: int) -> Iterator[None]:
    """Limit the size of files of this process, which looks like a full disk to SQLite."""
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)


def more_than(scene: Scene, many: int) -> bool:
    return len(scene.lines("end")) > many


async def all_is_well_again(scene: Scene, worker: Process) -> None:
    """Check that the same process runs the remaining jobs and new ones."""
    await scene.enqueue(menu.mixed(scene, 20))
    await scene.finished()
    assert worker.code is None, scene.troubles()
    await scene.stop(worker)
    await scene.check()


@pytest.mark.parametrize("busy", [None, QUICKLY], ids=["hangs", "refuses"])
async def test_a_worker_waits_for_a_locked_store_and_continues_by_itself(
    file_scene: Scene, busy: float | None
) -> None:
    """I1 I3 I12 I13; an enqueue meanwhile waits and raises no error."""
    scene = file_scene
    worker = scene.start(busy=busy, worker={"concurrency": 20})
    await scene.enqueue(menu.mixed(scene, 100))
    await until(lambda: len(scene.lines("end")) > 20, "work is under way")
    scene.fault(worker, "away")
    with locked(scene):
        meanwhile = asyncio.create_task(scene.enqueue(menu.mixed(scene, 20)))
        await asyncio.sleep(AWAY)  # the fault itself
    await meanwhile
    await all_is_well_again(scene, worker)


async def test_a_store_that_is_unreachable_for_less_than_the_lease_costs_no_run(
    file_scene: Scene,
) -> None:
    """I4: runs that ended during the outage are settled when the store is back."""
    scene = file_scene
    worker = scene.start(busy=0.05, worker={"concurrency": 20, "lease": 30})
    await scene.enqueue(menu.mixed(scene, 100))
    for _ in range(3):
        await until(partial(more_than, scene, len(scene.lines("end")) + 10), "work is under way")
        with locked(scene):
            await until(lambda: scene.lines("warning"), "it finds the store unreachable")
            await asyncio.sleep(0.5)  # the fault itself
    await all_is_well_again(scene, worker)  # without a fault that would allow a lost run


@pytest.mark.parametrize("busy", [None, QUICKLY], ids=["hangs", "refuses"])
async def test_a_run_whose_lease_cannot_be_extended_is_cancelled(
    file_scene: Scene, busy: float | None
) -> None:
    """I5: by the clock of the worker, while the store is still unreachable; another worker may have
    the job by then."""
    scene = file_scene
    worker = scene.start(busy=busy)
    await scene.enqueue([Asked(scene.works.slow_at_first.call(scene.number(), 60_000), Expect())])
    await until(lambda: scene.lines("start"), "it runs")
    scene.fault(worker, "away")
    with locked(scene):
        gone = time.monotonic()
        [end] = await until(
            lambda: scene.lines("end"), "the run is cancelled", within=scene.lease + SLACK
        )
        assert (end.how, end.mono - gone < scene.lease + SLACK) == ("CancelledError", True)
    await until(lambda: len(scene.lines("start")) == 2, "it runs again")
    await all_is_well_again(scene, worker)


async def test_a_worker_that_starts_while_the_store_is_unreachable_waits_for_it(
    file_scene: Scene,
) -> None:
    """I12"""
    scene = file_scene
    await scene.enqueue(menu.mixed(scene, 20))
    with locked(scene):
        worker = scene.start(busy=QUICKLY)
        await until(
            lambda: scene.lines("warning", who=worker.who), "it finds the store unreachable"
        )
        await asyncio.sleep(1)
        assert worker.code is None, scene.troubles()
    await all_is_well_again(scene, worker)


async def test_a_worker_survives_a_full_disk(file_scene: Scene) -> None:
    """I1 I3 I12 I13 I15"""
    scene = file_scene
    store = await scene.store()
    for _ in range(200):  # a log that is larger than the limit, which is above our own record
        await store.pause(["elsewhere"])
    worker = scene.worker(concurrency=20)
    await scene.enqueue(menu.mixed(scene, 100))
    await until(lambda: len(scene.lines("end")) > 20, "work is under way")
    scene.fault(worker, "away")
    with disk_full(worker, (scene.folder / "jobs.db-wal").stat().st_size):
        await until(lambda: scene.lines("warning", who=worker.who), "it finds the disk full")
        await asyncio.sleep(scene.lease * 1.5)  # the fault itself
    await all_is_well_again(scene, worker)
