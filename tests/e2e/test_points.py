"""Processes that die at a named point between two of their steps."""

import signal

import pytest

from mita import All, Every
from mita.model.job import State
from tests.waiting import until

from . import menu
from .checker import Expect
from .harness import Asked, Scene, scaled
from .program import open_gate

ANYWHERE = (
    "claim.before",
    "claim.after",
    "run.start",
    "run.effect",
    "settle.before",
    "settle.after",
    "extend.before",
    "extend.after",
    "reap.before",
    "reap.after",
    "sweep.after",
    "fire.before",
    "fire.after",
)
IN_SQLITE = (
    "sql.claim_take",
    "sql.settle_succeed",
    "sql.settle_many",
    "sql.reap_take",
    "sql.fire",
    "commit.before",
    "commit.after",
)
FIRES = 20


async def one_death(scene: Scene, point: str) -> None:
    """Some jobs of every kind, some of them lost by a killed worker, and a worker that dies at
    its point. The jobs run longer than the time between two heartbeats, so that at least one
    heartbeat has leases to extend."""
    await scene.enqueue(menu.mixed(scene, 30, longest=100))
    orphans = [menu.nap(scene, 500) for _ in range(4)]
    await scene.enqueue(orphans)
    dead = scene.worker(concurrency=50)
    await until(lambda: len(scene.lines("start", who=dead.who)) > 10, "it has taken some of them")
    await scene.kill(dead)
    await scene.died(scene.worker(point=point))


async def repeats_that_must_all_fire(scene: Scene) -> None:
    """Enough repeats to be due while processes die. None may be left out."""
    await scene.app.repeat(
        "tick", scene.works.tick.call(), Every(0.1), limit=FIRES, missed=All(1000)
    )


async def recovered(scene: Scene) -> None:
    successor = scene.worker(concurrency=50)
    await scene.finished(repeats=True)
    await scene.stop(successor)
    await scene.check()


async def each_fire_has_its_job(scene: Scene) -> None:
    """I7"""
    times = [job.fire_time for job in (await scene.history()).jobs.values() if job.repeat]
    assert len(times) == len(set(times)) == FIRES


@pytest.mark.parametrize("point", ANYWHERE)
async def test_a_worker_that_dies_at_any_call_of_the_store_loses_nothing(
    scene: Scene, point: str
) -> None:
    """I1 I2 I3 I4 I5 I6 I7 I8 I12 I13"""
    await repeats_that_must_all_fire(scene)
    for _ in range(scaled(1, 20)):
        await one_death(scene, point)
    await recovered(scene)
    await each_fire_has_its_job(scene)


@pytest.mark.parametrize("point", IN_SQLITE)
async def test_a_worker_that_dies_inside_a_transaction_loses_nothing(
    file_scene: Scene, point: str
) -> None:
    """I1 I2 I3 I4 I5 I6 I7 I8 I12 I13"""
    await repeats_that_must_all_fire(file_scene)
    for _ in range(scaled(1, 20)):
        await one_death(file_scene, point)
    await recovered(file_scene)
    await each_fire_has_its_job(file_scene)


@pytest.mark.parametrize("point", ["nats.acknowledge", "nats.ticket", "nats.key", "nats.free"])
async def test_a_worker_that_dies_between_two_steps_of_a_method_loses_nothing(
    nats_scene: Scene, point: str
) -> None:
    """I1 I2 I3 I4 I5 I6 I7 I8 I12 I13: `stores/nats` describes each point beside its method.
    Each death is repaired before the next one. Otherwise a worker could die before it settles
    the jobs that it took over, and the next one as well, for as long as there are deaths."""
    await repeats_that_must_all_fire(nats_scene)
    for _ in range(scaled(1, 10)):
        await one_death(nats_scene, point)
        await recovered(nats_scene)
    await each_fire_has_its_job(nats_scene)


async def test_a_producer_that_dies_before_its_queue_is_listed_loses_nothing(
    nats_scene: Scene,
) -> None:
    """I1 I2 I13: the consumer exists and the queue is not listed; the next enqueue lists it."""
    await died_producing(nats_scene, "nats.line")
    await nats_scene.enqueue([menu.nap(nats_scene)])
    await recovered(nats_scene)
    assert len((await nats_scene.history()).jobs) == 1


@pytest.mark.parametrize("point", ["release.before", "release.after"])
async def test_a_worker_that_dies_while_it_returns_its_jobs_loses_nothing(
    scene: Scene, point: str
) -> None:
    """I1 I4 I6: a job that was returned to the queue counts an interruption, any other a crash;
    none counts an attempt."""
    n = scene.number()
    [id] = await scene.enqueue([Asked(scene.works.slow_at_first.call(n, 60_000), Expect())])
    worker = scene.worker(point=point, grace=0.2)
    await scene.started(n)
    worker.signal(signal.SIGTERM)
    await scene.died(worker)
    await recovered(scene)
    job = await scene.job(id)
    assert (job.interruptions, job.crashes) == ((0, 1) if point == "release.before" else (1, 0))


@pytest.mark.parametrize("point", ["enqueue.before", "enqueue.after"])
async def test_a_producer_that_dies_around_its_enqueue_loses_nothing(
    scene: Scene, point: str
) -> None:
    """I1 I2 I13: a batch without an answer is stored completely or not at all, and runs once if
    it is stored."""
    await died_producing(scene, point)
    await recovered(scene)
    assert len((await scene.history()).jobs) == (0 if point == "enqueue.before" else BATCH)


@pytest.mark.parametrize("point", ["sql.enqueue_insert_alike"])
async def test_a_producer_that_dies_inside_its_transaction_loses_nothing(
    file_scene: Scene, point: str
) -> None:
    """I1 I2 I13"""
    await died_producing(file_scene, point)
    await recovered(file_scene)
    assert not (await file_scene.history()).jobs


BATCH = 40


async def died_producing(scene: Scene, point: str) -> None:
    numbers = (39, 39 + BATCH)  # a producer's batch that begins with 39 has 40 jobs
    producer = scene.start("producer", gate="all", numbers=numbers, point=point)
    scene.unsure |= set(range(*numbers))
    open_gate(scene.gate("all"))
    await scene.died(producer)


async def test_a_point_that_is_not_reached_is_noticed(scene: Scene) -> None:
    """So these tests cannot pass without a death."""
    worker = scene.worker(point="fire.after")
    [id] = await scene.enqueue([menu.nap(scene)])
    await scene.finished()
    assert (await scene.job(id)).state is State.SUCCEEDED
    with pytest.raises(AssertionError, match="not within"):
        await scene.died(worker, within=0.3)
    await scene.stop(worker)
