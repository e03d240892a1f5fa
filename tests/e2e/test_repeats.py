"""Many schedulers on one store."""

from collections import defaultdict

import pytest

from mita import All, Every
from mita.model.time import SECOND
from tests.waiting import until

from .harness import Scene, scaled

INTERVAL = 0.02
KEYS = 10


@pytest.mark.parametrize("all_lead", [False, True], ids=["one leads", "all believe that they lead"])
async def test_five_schedulers_with_faults_create_one_job_for_each_fire(
    scene: Scene, all_lead: bool
) -> None:
    """I1 I2 I4 I7 I8 I13: one of them is frozen for a while and continues late, another one is
    killed."""
    fires = scaled(100, 3000)
    workers = [
        scene.start(leads=all_lead, worker={"poll": 0.05, "concurrency": 20, "lease": 3})
        for _ in range(5)
    ]
    await scene.ready(*workers)
    for n in range(KEYS):
        await scene.app.repeat(
            f"tick-{n}", scene.works.tick.call(), Every(INTERVAL), limit=fires, missed=All(10_000)
        )
    await until(lambda: len(scene.lines("start")) > KEYS * fires / 10, "they fire")
    late, unlucky, *others = workers
    await scene.freeze(late)
    await scene.kill(unlucky)
    await until(
        lambda: len(scene.lines("start")) > KEYS * fires / 2, "the other schedulers continue"
    )
    scene.thaw(late)
    await scene.finished(repeats=True, within=60 + fires * INTERVAL)
    await scene.stop(late, *others)

    made = defaultdict(list)
    for job in (await scene.history()).jobs.values():
        made[job.repeat].append(job.fire_time or 0)
    assert len(made) == KEYS
    for times in made.values():
        first = min(times)
        assert sorted(times) == [first + n * round(INTERVAL * SECOND) for n in range(fires)]
    assert [repeat.count for repeat in await scene.app.repeats.all()] == [fires] * KEYS
    await scene.check()
