"""What a worker costs: without jobs, and after many jobs."""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from mita import Every
from tests.waiting import until

from .harness import Process, Scene, scaled

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

MEGABYTE = 1024 * 1024


def cpu_seconds(process: Process) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: Process) -> int:
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )


async def test_an_idle_worker_uses_hardly_any_processor_time(scene: Scene) -> None:
    """I14: with jobs and a repeat that are not due yet, and default settings."""
    await scene.app.enqueue_many(
        [scene.works.noop.after(timedelta(hours=1)).call() for _ in range(1000)]
    )
    await scene.app.repeat("hourly", scene.works.tick.call(), Every(3600))
    worker = scene.worker(lease=30, poll=1.0)
    await scene.ready(worker)
    await asyncio.sleep(1)  # its start is not idle
    before = cpu_seconds(worker)
    seconds = scaled(3, 60)
    await asyncio.sleep(seconds)
    spent = (cpu_seconds(worker) - before) / seconds
    scene.tell(f"an idle worker takes {spent:.2%} of a core")
    assert spent < 0.05
    await scene.stop(worker)


async def test_the_memory_of_a_worker_stays_flat(scene: Scene) -> None:
    """I14: after many jobs it is as large as after a few, and the store deletes what it need not
    keep."""
    warm, most, batch = 20_000, scaled(100_000, 1_000_000), 5000
    worker = scene.start(app={})
    done, sizes = 0, {}
    while done < most:
        await scene.app.enqueue_many([scene.works.noop.call() for _ in range(batch)])
        await scene.finished()
        done += batch
        if done >= warm:
            sizes[done] = memory(worker)
    grown = sizes[most] - sizes[warm]
    scene.tell(
        f"{sizes[warm] / MEGABYTE:.1f} MB after {warm:,} jobs, {sizes[most] / MEGABYTE:.1f} MB "
        f"after {most:,}"
    )
    assert grown < 10 * MEGABYTE

    async def is_pruned() -> bool:
        return bool((await scene.app.counts())["default"]["succeeded"] < 10_000 + 3 * batch)

    await until(is_pruned, "the next sweeps delete what is too much")
    await scene.stop(worker)
    assert not scene.errors(), scene.troubles()
