"""Many processes on one store, without faults."""

from collections import Counter

from .harness import NO_LOSS_LEASE_S, Scene, scaled
from .program import open_gate


async def test_six_processes_share_one_store_and_nothing_is_lost_or_run_twice(scene: Scene) -> None:
    """I1 I2 I3 I4 I8 I13, and no process meets a locked database."""
    share = scaled(2000, 100_000)
    producers = [
        scene.start("producer", gate="all", numbers=scene.numbers(share), ms=5) for _ in range(2)
    ]
    workers = [scene.worker(concurrency=4, lease=NO_LOSS_LEASE_S) for _ in range(4)]
    await scene.ready(*workers)
    open_gate(scene.gate("all"))
    for producer in producers:
        assert await producer.gone(within=60) == 0, scene.troubles()
    scene.acknowledge(scene.lines("enqueued"))
    await scene.finished(within=60)
    await scene.stop(*workers)
    report = await scene.check()
    assert report.figures["asked"] == report.figures["runs"] == 2 * share
    assert not scene.lines("warning"), scene.troubles()
    shares = Counter(line.who for line in scene.lines("start"))
    scene.tell(f"runs by worker: {sorted(shares.values())}")
    assert len(shares) == len(workers)
    assert max(shares.values()) < 5 * min(shares.values()), (
        "one worker keeps the others from working"
    )


async def test_concurrent_enqueues_of_one_unique_job_create_one(scene: Scene) -> None:
    """I1 I13: exactly one enqueue creates the job, and all return the same id."""
    keys = scaled(200, 10_000)
    rivals = [scene.start("rivals", gate="all", numbers=(0, keys)) for _ in range(6)]
    await scene.ready(*rivals)
    open_gate(scene.gate("all"))
    for rival in rivals:
        assert await rival.gone(within=60) == 0, scene.troubles()
    answers = scene.lines("enqueued")
    assert len(answers) == keys * len(rivals)
    assert len({(line.n, line.job) for line in answers}) == keys, (
        "some enqueues returned another id"
    )
    made = [line for line in answers if line.created]
    assert Counter(line.n for line in made) == dict.fromkeys(range(keys), 1)
    makers = Counter(line.who for line in made)
    scene.tell(f"{keys} keys, made by {dict(makers)}")
    assert len(makers) > 1, "the enqueues were not concurrent: the test shows nothing"
    scene.acknowledge(made)
    worker = scene.worker(lease=NO_LOSS_LEASE_S)
    await scene.finished()
    await scene.stop(worker)
    report = await scene.check()
    assert report.figures["runs"] == keys
