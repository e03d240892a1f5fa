"""Workers that are asked to stop, as in every deploy."""

import signal
from functools import partial

import pytest

from mita.model.job import State
from tests.waiting import until

from . import menu
from .checker import Expect
from .harness import NO_LOSS_LEASE_S, Asked, Process, Scene, scaled

LONG = 60_000  # ms: longer than any test


def numbers(scene: Scene) -> list[int]:
    return [acked.n for acked in scene.acked]


async def stopped(scene: Scene, process: Process, times: int = 1) -> None:
    """Send SIGTERM and wait until the process has handled it."""
    process.signal(signal.SIGTERM)
    await until(
        lambda: len(scene.lines("signal", who=process.who)) == times, f"signal {times} is handled"
    )


async def test_jobs_that_end_within_the_grace_time_are_not_run_again(scene: Scene) -> None:
    """I4 I6"""
    await scene.enqueue([menu.nap(scene, 800), menu.thread_nap(scene, 800)])
    worker = scene.worker(grace=20, concurrency=2)
    await scene.started(*numbers(scene), by=worker)
    await scene.stop(worker)
    jobs = [await scene.job(acked.id) for acked in scene.acked]
    assert [job.state for job in jobs] == [State.SUCCEEDED] * 2
    await scene.check()


async def test_jobs_that_a_stopping_worker_has_not_started_are_returned_unchanged(
    scene: Scene,
) -> None:
    """I4 I6"""
    await scene.enqueue([menu.nap(scene, 500) for _ in range(6)])
    worker = scene.worker(grace=20, concurrency=1)
    await until(lambda: len(scene.lines("start")) >= 1, "the first job starts")
    await scene.stop(worker)
    ran = {line.job for line in scene.lines("start")}
    waiting = [job for acked in scene.acked if (job := await scene.job(acked.id)).id not in ran]
    assert waiting
    assert {(job.state, job.interruptions, job.attempts, job.crashes) for job in waiting} == {
        (State.QUEUED, 0, 0, 0)
    }
    other = scene.worker(concurrency=6)
    await scene.finished()
    await scene.stop(other)
    report = await scene.check()
    assert report.figures["runs"] == report.figures["asked"]


@pytest.mark.parametrize(
    "hurry", [False, True], ids=["when the grace is over", "at once after a second signal"]
)
async def test_jobs_that_run_longer_than_the_grace_time_are_interrupted_without_an_attempt(
    scene: Scene, hurry: bool
) -> None:
    """I1 I4 I6"""
    works = scene.works
    await scene.enqueue(
        [
            Asked(works.slow_at_first.call(scene.number(), LONG), Expect()),
            Asked(works.slow_thread_at_first.call(scene.number(), LONG), Expect()),
        ]
    )
    worker = scene.worker(grace=LONG / 1000 if hurry else 0.5, concurrency=2)
    await scene.started(*numbers(scene), by=worker)
    await stopped(scene, worker)
    if hurry:
        await stopped(scene, worker, times=2)
    assert await worker.gone() == 0, scene.troubles()
    jobs = [await scene.job(acked.id) for acked in scene.acked]
    assert {(job.state, job.interruptions, job.attempts, job.crashes) for job in jobs} == {
        (State.QUEUED, 1, 0, 0)
    }
    other = scene.worker()
    await scene.finished()
    await scene.stop(other)
    report = await scene.check()
    assert (
        report.figures["interruptions"],
        report.figures["crashes"],
        report.figures["runs lost"],
    ) == (2, 0, 0)


async def test_a_rolling_restart_of_all_workers_under_load_runs_nothing_twice(scene: Scene) -> None:
    """I1 I2 I4 I5 I6 I8 I13"""
    size, rounds = 4, scaled(4, 120)
    pool = [scene.worker(concurrency=8, grace=20, lease=NO_LOSS_LEASE_S) for _ in range(size)]
    for _ in range(rounds):
        for slot in range(size):
            await scene.enqueue(menu.mixed(scene, 40))
            await scene.ready(pool[slot])
            await until(partial(scene.lines, "start", who=pool[slot].who), "it has something to do")
            replacement = scene.worker(concurrency=8, grace=20, lease=NO_LOSS_LEASE_S)
            await scene.stop(pool[slot])
            pool[slot] = replacement
    await scene.finished()
    await scene.stop(*pool)
    report = await scene.check()
    figures = report.figures
    assert (
        figures["runs lost"],
        figures["crashes"],
        figures["interruptions"],
        figures["effects twice"],
    ) == (0, 0, 0, 0)
