"""Jobs that kill the worker that runs them."""

import signal

from mita.model.job import State
from tests.waiting import until

from . import menu
from .checker import Expect, Fault
from .harness import Asked, Scene, scaled
from .jobs import POISON


async def test_a_job_that_kills_its_workers_fails_and_other_jobs_run(scene: Scene) -> None:
    """I1 I4 I6 I15: crashes have their own limit, separate from attempts."""
    poisons = scaled(1, 20)
    dead = Expect(state=State.FAILED, attempts=0)
    ids = await scene.enqueue(
        [Asked(scene.works.poison.call(scene.number()), dead) for _ in range(poisons)]
    )
    pool = [scene.worker(concurrency=4) for _ in range(2)]
    budget = POISON.max_crashes + 1
    for _ in range(poisons * budget):
        await scene.enqueue([menu.nap(scene, 10) for _ in range(20)])
        await until(
            lambda: any(worker.code is not None for worker in pool),
            "a worker takes the poison job",
        )
        [slot, *_] = [slot for slot, worker in enumerate(pool) if worker.code is not None]
        assert pool[slot].code == -signal.SIGKILL, scene.troubles()
        line = scene.lines("dying", who=pool[slot].who)[0]
        scene.faults.append(Fault(line.who, "kill", line.mono, line.wall))
        pool[slot] = scene.worker(concurrency=4)
    await scene.finished()
    await scene.stop(*pool)
    for id in ids:
        job = await scene.job(id)
        assert (job.state, job.crashes, job.attempts) == (State.FAILED, budget, 0)
        assert (job.error or "").startswith("WorkerLost")
    await scene.check()
