"""Several apps and workers in one registry: every line is there once, and their numbers are added
up."""

import asyncio
import re
from collections import Counter
from pathlib import Path

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from tests.engine.conftest import until_state, working

from .test_metrics import app_at, free_port
from .workload import sums


async def lines_of(registry: CollectorRegistry) -> list[str]:
    """What Prometheus reads, less the values."""
    text = (await asyncio.to_thread(generate_latest, registry)).decode()
    return [re.sub(r" \S+$", "", line) for line in text.splitlines()]


async def test_apps_of_two_stores_are_added_up() -> None:
    one, two, registry = app_at(), app_at(), CollectorRegistry()
    for app in (one, two):
        app.metrics(registry)
        await app.enqueue_many([app.tasks["work"].call() for _ in range(3)])
    async with working(one):
        for job in (await one.jobs()).jobs:
            await until_state(one, job.id, "succeeded")
    lines = await lines_of(registry)
    assert len(lines) == len(set(lines)), "the same line twice, and Prometheus refuses the page"
    told = await asyncio.to_thread(sums, registry)
    assert told["mita_enqueued_total"] == 6
    assert told["mita_finished_total:succeeded"] == told["mita_run_seconds_count"] == 3
    assert told["mita_jobs:succeeded"] == told["mita_jobs:ready"] == 3
    await one.close()
    await two.close()


async def test_apps_of_one_store_count_its_jobs_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    one, two, registry = app_at(url), app_at(url), CollectorRegistry()
    for app in (one, two):
        app.metrics(registry)
        await app.tasks["work"].enqueue()
    told = await asyncio.to_thread(sums, registry)
    assert told["mita_enqueued_total"] == told["mita_jobs:ready"] == 2
    await one.close()
    await two.close()


async def test_two_workers_that_serve_metrics_leave_the_usual_registry_as_it_was() -> None:
    app = app_at()
    before = await lines_of(REGISTRY)
    async with working(app, metrics=f"127.0.0.1:{free_port()}"):
        async with working(app, metrics=f"127.0.0.1:{free_port()}"):
            await until_state(app, (await app.tasks["work"].enqueue()).id, "succeeded")
            lines = await lines_of(REGISTRY)
            assert max(Counter(lines).values()) == 1
            assert (await asyncio.to_thread(sums, REGISTRY))["mita_enqueued_total"] == 1
        assert any("mita_jobs" in line for line in await lines_of(REGISTRY)), (
            "one of them still serves"
        )
    assert await lines_of(REGISTRY) == before
    await app.close()
