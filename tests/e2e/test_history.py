"""The history of runs when workers are killed."""

from tests.waiting import until

from .harness import Scene

JOBS = 200


async def test_a_killed_worker_loses_at_most_its_last_flush(scene: Scene) -> None:
    """What was flushed is counted exactly once, whatever happens to its worker later. A run that
    was killed is counted by the worker that takes its job over."""
    app, works = scene.app, scene.works

    async def runs(number: str = "succeeded") -> int:
        return sum(getattr(point, number) for point in await app.history(by="hour"))

    async def all_flushed() -> bool:
        return await runs() == JOBS

    worker = scene.worker(concurrency=8, gate="closed")
    await app.enqueue_many([works.noop.call() for _ in range(JOBS)])
    await until(all_flushed, "the worker has added its runs")
    number = scene.number()
    await app.enqueue(works.gated.call(number))
    await scene.started(number, by=worker)
    await app.enqueue_many([works.noop.call() for _ in range(JOBS)])
    await scene.kill(worker)
    kept, counts = await runs(), (await app.counts())["default"]
    succeeded, running = counts["succeeded"], counts["running"]
    assert JOBS <= kept <= succeeded
    heir = scene.worker(concurrency=8, gate="open")
    scene.gate("open").touch()
    await scene.finished()
    await scene.stop(heir)
    assert await runs("retried") == running >= 1, "the runs that were killed"
    assert await runs() == kept + (2 * JOBS + 1 - succeeded)
    scene.tell(f"{succeeded - kept} of {succeeded} runs were not flushed before the kill")
