"""Handlers that take longer than the lease, in workers that are well."""

import pytest

from .checker import Expect
from .harness import Asked, Scene, scaled

KINDS = ("nap", "thread_nap", "blocking", "spinning")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_handler_that_outlasts_its_lease_keeps_its_job(scene: Scene, kind: str) -> None:
    """I4: the leases are kept by a thread of their own, even while a handler blocks the event
    loop."""
    scene.lease, leases = 2 * scene.lease, scaled(2, 60)
    task = getattr(scene.works, kind)
    await scene.enqueue(
        [
            Asked(task.call(scene.number(), round(leases * scene.lease * 1000)), Expect())
            for _ in range(2)
        ]
    )
    # each would sweep what the other lost
    workers = [scene.worker(concurrency=1), scene.worker(concurrency=1)]
    await scene.finished(within=leases * scene.lease * 2 + 20)
    await scene.stop(*workers)
    report = await scene.check()
    assert (report.figures["runs"], report.figures["crashes"], report.figures["stale"]) == (2, 0, 0)
