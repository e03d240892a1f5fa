"""Handlers that take longer than the lease, in healthy workers."""

import pytest

from .checker import Expect
from .harness import Asked, Scene, scaled

KINDS = ("nap", "thread_nap", "blocking", "spinning")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_handler_that_runs_longer_than_the_lease_keeps_its_job(
    scene: Scene, kind: str
) -> None:
    """I4: a separate thread extends the leases, even while a handler blocks the event loop."""
    scene.lease, leases = 2 * scene.lease, scaled(2, 60)
    task = getattr(scene.works, kind)
    await scene.enqueue(
        [
            Asked(task.call(scene.number(), round(leases * scene.lease * 1000)), Expect())
            for _ in range(2)
        ]
    )
    # each would take over the jobs that the other loses
    workers = [scene.worker(concurrency=1), scene.worker(concurrency=1)]
    await scene.finished(within=leases * scene.lease * 2 + 20)
    await scene.stop(*workers)
    report = await scene.check()
    assert (report.figures["runs"], report.figures["crashes"], report.figures["stale"]) == (2, 0, 0)
