"""The metrics of limits, after runs with known numbers: on every store."""

import asyncio
from collections import Counter

from prometheus_client import CollectorRegistry

from mita import Key, Mita, Rate
from mita.metrics.depths import Depth
from mita.metrics.sharing import together
from mita.model.gate import StoredLimit
from mita.model.view import QueueView
from tests.engine.conftest import until_state, working
from tests.waiting import until

from .workload import sums


async def test_the_metrics_of_limits_are_right(app: Mita) -> None:
    registry, let_go = CollectorRegistry(), asyncio.Event()
    app.metrics(registry)

    @app.task(name="slow", queue="rates", rate=Rate(1, per=3600, burst=2))
    async def slow() -> None: ...

    @app.task(name="spaced", queue="rates", rate=Rate(10, key="spaced"))
    async def spaced() -> None: ...

    @app.task(name="keyed", queue="keys", resource=["account", Key("tape", limit=5)])
    async def keyed() -> None:
        await let_go.wait()

    @app.task(name="capped", queue="capped")
    async def capped() -> None: ...

    async def told() -> Counter[str]:
        return await asyncio.to_thread(sums, registry)

    await app.limit_queue("capped", concurrency=3, rate=Rate(1, per=3600, burst=5))
    await app.enqueue_many([slow.call() for _ in range(6)])
    await app.enqueue_many([spaced.call() for _ in range(3)])
    await app.enqueue_many([capped.call() for _ in range(9)])
    first, *others = await app.enqueue_many([keyed.call() for _ in range(3)])
    assert (await told())["mita_queue_tokens"] == 5
    async with working(app):
        await until_state(app, first.id, "running")
        for job in others:
            await until_state(app, job.id, "blocked")
        let_go.set()

        async def is_done() -> bool:
            found = await told()
            return found["mita_jobs:succeeded"] == 2 + 3 + 5 + 3 and not found["mita_jobs:running"]

        await until(is_done)
        found = await told()
    assert found["mita_rate_waits_total"] == found["mita_rescheduled_total:rate_limited"]
    rated = {
        sample.labels["task"]: sample.value
        for metric in await asyncio.to_thread(lambda: [*registry.collect()])
        for sample in metric.samples
        if sample.name == "mita_rate_waits_total"
    }
    assert rated["slow"] == 4, "two had a token, and four wait"
    assert rated["spaced"] >= 2
    assert rated["keyed"] == rated["capped"] == 0
    assert found["mita_rescheduled_total:resource_busy"] == 2
    assert found["mita_limit_wait_seconds_count:rate"] == 2, "of three jobs the first had a token"
    assert found["mita_limit_wait_seconds_sum:rate"] >= 0.1 + 0.2 - 0.002, "both are measured"
    assert found["mita_limit_wait_seconds_count:key"] == 2
    assert found["mita_limit_wait_seconds_count:both"] == 0
    assert (found["mita_queue_limit"], found["mita_queue_tokens"]) == (3, 0)
    assert (found["mita_jobs:ready"], found["mita_jobs:blocked"]) == (4, 4)
    await app.limit_queue("capped")

    async def is_gone() -> bool:
        found = await told()
        return not [name for name in ("mita_queue_limit", "mita_queue_tokens") if name in found]

    await until(is_gone, "the metrics of a limit go with it")


def test_limits_of_two_stores_are_added_if_both_have_one() -> None:
    one = QueueView(name="mail", limit=StoredLimit(3, 1000, 5), tokens=4)
    other = QueueView(name="mail", limit=StoredLimit(2), tokens=None)
    [both] = together([Depth([one], 1), Depth([one], 1)]).queues  # type: ignore[union-attr]
    assert (both.limit, both.tokens) == (StoredLimit(6), 8)
    [both] = together([Depth([one], 1), Depth([other], 1)]).queues  # type: ignore[union-attr]
    assert (both.limit, both.tokens) == (StoredLimit(5), None)
