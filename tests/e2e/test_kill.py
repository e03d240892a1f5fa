"""Workers that are killed in the middle of their jobs, again and again."""

import asyncio

from . import menu
from .harness import Scene, scaled

WORKERS = 6


async def test_workers_that_are_killed_in_the_middle_of_jobs_lose_nothing(scene: Scene) -> None:
    """I1 I2 I3 I4 I5 I6 I8 I12 I13"""
    scene.lease *= 2  # of six busy workers only the killed ones may lose their leases
    kills = scaled(40, 2500)
    pool = [scene.worker(concurrency=8, name=f"worker-{slot}") for slot in range(WORKERS)]
    for _ in range(kills):
        await scene.enqueue(menu.mixed(scene, 50))
        await asyncio.sleep(scene.random.uniform(0.1, 0.4))  # the time between two kills
        victim = scene.random.randrange(WORKERS)
        await scene.kill(pool[victim])
        # under the same name, as a pod does
        pool[victim] = scene.worker(concurrency=8, name=f"worker-{victim}")
    await scene.finished(within=60)
    await scene.stop(*pool)
    report = await scene.check()
    assert report.figures["runs lost"] > kills / 4, "no running job was hit: the test shows nothing"
