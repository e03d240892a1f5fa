"""Workers that are stopped for longer than their lease, and then continue as if they still had
their jobs."""

import asyncio
from functools import partial
from typing import Any

import pytest

from mita.model.job import State
from mita.rules.states import TERMINAL
from tests.waiting import until

from . import menu
from .checker import Expect
from .harness import SLACK, Asked, Process, Scene, scaled
from .program import open_gate

SORTS = ("gated", "gated_thread", "gated_writer")


def gated(scene: Scene, sort: str, *more: Any) -> tuple[int, Asked]:
    n = scene.number()
    return n, Asked(getattr(scene.works, sort).call(n, *more), Expect())


@pytest.mark.parametrize("deaf", [False, True], ids=["informed", "deaf"])
async def test_a_worker_that_continues_after_its_lease_changes_nothing(
    scene: Scene, deaf: bool
) -> None:
    """I3 I4 I12: its commit, heartbeat, progress and once value are refused, and the job ends as
    the worker decides that took it over. A deaf worker never learns that it lost the lease, so
    only the token in the store can stop it."""
    numbers, asked = zip(
        *[gated(scene, sort) for sort in SORTS for _ in range(scaled(2, 20))], strict=True
    )
    zombie = scene.worker(gate="zombie", concurrency=100, threads=50, deaf=deaf)
    ids = await scene.enqueue(asked)
    await scene.started(*numbers, by=zombie)
    successor = scene.worker(gate="successor", concurrency=100, threads=50)
    await scene.ready(successor)
    await scene.freeze(zombie)
    await scene.started(*numbers, by=successor)
    held = [await scene.job(id) for id in ids]

    scene.thaw(zombie)
    open_gate(scene.gate("zombie"))
    await until(
        lambda: len(scene.lines("end", who=zombie.who)) == len(ids), "the zombie's runs end"
    )
    if deaf:  # each verdict reached the store and was refused
        await until(lambda: len(too_late(scene)) >= len(ids), "the zombie's verdicts are refused")
        writers = [line.how for line in scene.lines("refused", who=zombie.who)]
        assert sorted(writers) == ["memo"] * scaled(2, 20) + ["progress"] * scaled(2, 20)
    else:
        await until(
            lambda: scene.lines("warning", who=zombie.who),
            "the late worker learns that it lost the lease",
        )
    await scene.stop(zombie)  # with everything that it tried to write
    for before in held:
        now = await scene.job(before.id)
        assert (now.state, now.token, now.worker) == (
            State.RUNNING,
            before.token,
            scene.worker_id(successor),
        )
        assert now.progress in (None, before.progress)

    open_gate(scene.gate("successor"))
    await scene.finished()
    await scene.stop(successor)
    report = await scene.check()
    assert report.figures["crashes"] == report.figures["runs lost"] == len(ids)


def too_late(scene: Scene) -> list[str]:
    return [line.text for line in scene.lines("warning") if "settled too late" in line.text]


async def test_a_late_holder_of_a_key_can_neither_settle_nor_free_the_key(scene: Scene) -> None:
    """I3 I5"""
    first, one = gated(scene, "gated_key", "account")
    _, other = gated(scene, "gated_key", "account")
    zombie = scene.worker(gate="zombie", deaf=True)
    [late] = await scene.enqueue([one])
    await scene.started(first, by=zombie)
    ids = [late, *await scene.enqueue([other])]
    successor = scene.worker(gate="successor")
    await scene.ready(successor)
    await scene.freeze(zombie)
    await until(lambda: scene.lines("start", who=successor.who), "the successor has the key")

    scene.thaw(zombie)
    open_gate(scene.gate("zombie"))
    await until(lambda: too_late(scene), "the zombie's verdict is refused")
    [key] = await (await scene.store()).resources(key="key:account")
    assert [holder.worker for holder in key.holders] == [scene.worker_id(successor)]
    jobs = [await scene.job(id) for id in ids]
    assert not [job for job in jobs if job.state in TERMINAL]
    assert len(scene.lines("start", who=successor.who)) == 1, "the second job waits for the key"

    open_gate(scene.gate("successor"))
    await scene.finished()
    await scene.stop(zombie, successor)
    await scene.check()


async def test_a_late_worker_cannot_settle_even_while_no_other_runs_the_job(
    scene: Scene,
) -> None:
    """I3 I4: the worker that took the job over died before it settled the job."""
    n, one = gated(scene, "gated")
    zombie = scene.worker(gate="zombie", deaf=True)
    [id] = await scene.enqueue([one])
    await scene.started(n, by=zombie)
    await scene.freeze(zombie)
    await scene.died(scene.worker(point="reap.after", lease=3))
    scene.thaw(zombie)
    open_gate(scene.gate("zombie"))
    await until(lambda: too_late(scene), "the zombie's verdict is refused")
    assert (await scene.job(id)).state is State.RUNNING
    open_gate(scene.gate("successor"))
    await scene.stop(zombie)
    successor = scene.worker(gate="successor")
    await scene.finished()
    await scene.stop(successor)
    await scene.check()


async def test_the_heartbeats_of_a_late_worker_keep_nothing_alive(scene: Scene) -> None:
    """I3 I12: when the second worker dies as well, the job is taken over, although the late
    worker still sends heartbeats for it."""
    n, one = gated(scene, "gated")
    # without a free slot to claim the job again
    zombie = scene.worker(gate="zombie", deaf=True, concurrency=1)
    await scene.enqueue([one])
    await scene.started(n, by=zombie)
    successor = scene.worker(gate="successor")
    await scene.ready(successor)
    await scene.freeze(zombie)
    await scene.started(n, by=successor)
    scene.thaw(zombie)
    await scene.kill(successor)
    open_gate(scene.gate("third"))
    third = scene.worker(gate="third")
    await scene.started(n, by=third, within=scene.lease * 2 + SLACK)
    await scene.finished()
    open_gate(scene.gate("zombie"))
    await scene.stop(zombie, third)
    await scene.check()


def at_work(scene: Scene, process: Process) -> bool:
    return (
        len(scene.lines("start", who=process.who)) - len(scene.lines("end", who=process.who)) >= 4
    )


async def test_workers_that_freeze_again_and_again_under_load(scene: Scene) -> None:
    """I1 I2 I3 I4 I6 I8 I13"""
    rounds = scaled(3, 200)
    pool = [scene.worker(concurrency=8) for _ in range(3)]
    for _ in range(rounds):
        await scene.enqueue(menu.mixed(scene, 60, longest=1200))
        victim = scene.random.choice(pool)
        await until(partial(at_work, scene, victim), "the victim has much to do")
        await scene.freeze(victim)
        # for longer than the lease: that is the fault
        await asyncio.sleep(scene.lease * scene.random.uniform(1.2, 2))
        scene.thaw(victim)
    await scene.finished()
    await scene.stop(*pool)
    report = await scene.check()
    assert report.figures["runs lost"] > 0, (
        "nothing was running when it froze: the test shows nothing"
    )
