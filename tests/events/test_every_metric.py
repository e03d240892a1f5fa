"""Every metric there is moves on every store, for the reason that it is there for."""

import asyncio
import logging
import threading

import pytest
from prometheus_client import CollectorRegistry

from mita import Every, Job, Mita, Rate, Retry, StoreError
from mita.events import listener
from mita.metrics import TABLE
from mita.model.event import MoveReason
from mita.model.job import State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import SECOND
from tests.engine.conftest import working
from tests.waiting import until

from .workload import Workload, sums

PARTS = {"histogram": "_count"}
OUTCOMES = ("succeeded", "failed", "cancelled")


class Mishaps:
    """What a workload does not bring about by itself."""

    def __init__(self, app: Mita) -> None:
        self._app = app
        self._began = asyncio.Event()

        @app.task(name="plain", queue="mishaps")
        async def plain() -> None: ...

        @app.task(name="twice", queue="mishaps")
        async def settles_itself(job: Job) -> None:
            """So what the worker says of it afterwards comes too late."""
            store = await app.open_store()
            await store.settle(
                [Settlement(job._claim, Verdict(state=State.SUCCEEDED, keep=3600 * SECOND))]
            )
            await store.close()

        @app.task(name="late", queue="mishaps", expires=0.001)
        async def late() -> None: ...

        @app.task(name="endless", queue="mishaps")
        async def endless() -> None:
            self._began.set()
            await asyncio.sleep(3600)

        @app.task(name="shaky", queue="mishaps", retry=Retry(max_retries=0))
        async def shaky() -> None:
            raise ValueError("it shakes")

        @app.task(name="spaced", queue="mishaps", rate=Rate(20))
        async def spaced() -> None: ...

        self._spaced = spaced

        @app.task(name="rated", queue="mishaps", rate=Rate(1, per=60))
        async def rated() -> None: ...

        @app.task(name="durable", queue="mishaps")
        async def durable(job: Job) -> None:
            await job.run(plain.call())
            await job.wait_for("go")
            await job.sleep(1)
            await job.wait_for("never")

        self._rated, self._durable = rated, durable
        self._plain, self._twice, self._endless = plain, settles_itself, endless
        self._late = late
        self._shaky = shaky

    async def prepare(self) -> None:
        """One is claimed by a worker that dies at once; of the last two nobody serves the queue."""
        await self._plain.enqueue()
        store = await self._app.open_store()
        [_] = (await store.claim(["mishaps"], 1, SECOND // 20, "one that dies")).claims
        await store.close()
        await self._app.enqueue_many([self._plain.options(queue="nobody").call() for _ in range(2)])
        await self._late.enqueue()
        await self._app.limit_queue("mishaps", concurrency=500, rate=Rate(1000, burst=1000))
        await self._app.repeat("tick", self._plain.call(), Every(0.05), limit=2)
        await self._app.repeat("late", self._plain.call(), Every(0.01), limit=1)
        await self._app.repeat("shaky", self._shaky.call(), Every(0.05), pause_after=1)
        await asyncio.sleep(0.1)  # nobody is there for its first windows

    async def begin(self) -> None:
        await self._twice.enqueue()
        await self._app.enqueue_many([self._rated.call() for _ in range(2)])
        await self._app.signal((await self._durable.enqueue()).id, "go")
        await self._app.chain(self._plain.call(), self._plain.call()).enqueue()
        await self._app.enqueue_many([self._spaced.call() for _ in range(3)])
        await self._endless.enqueue()
        async with asyncio.timeout(20):
            await self._began.wait()


async def away(*_: object) -> None:
    raise StoreError("the store is away")


@pytest.mark.timeout(120)
async def test_every_metric_moves(
    app: Mita, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(listener, "MOST_WAITING_EVENTS", 50)
    registry, hung = CollectorRegistry(), threading.Event()
    app.metrics(registry)
    listening = app.listen(lambda _: hung.wait(60))
    work, mishaps = Workload(app, 200, seed=7), Mishaps(app)

    async def has(*names: str) -> bool:
        told = await asyncio.to_thread(sums, registry)
        return all(told[name] for name in names)

    with monkeypatch.context() as patch:
        patch.setattr(type(await app._store()).__mro__[1], "pause", away)
        with pytest.raises(StoreError):
            await app.pause("mishaps")
    await mishaps.prepare()
    async with working(app, queues=["free", "keyed", "mishaps"], lease=3.0, grace=0.01):
        await work._enqueue()
        await mishaps.begin()
        await until(
            lambda: has(
                "mita_crashes_total",
                "mita_stale_writes_total",
                "mita_repeat_fires_total:skip",
                "mita_repeats_paused_total",
                "mita_rescheduled_total:sleep",
                "mita_rescheduled_total:signal",
                "mita_flows_ended_total:chain:succeeded",
            )
        )
        await until(
            lambda: has(
                *(f"mita_finished_total:{outcome}" for outcome in OUTCOMES),
                "mita_retry_exhausted_total",
            )
        )
        await until(
            lambda: has(
                "mita_oldest_ready_seconds", "mita_workers", "mita_jobs:ready", "mita_jobs:running"
            )
        )
    hung.set()
    listening.stop()
    assert await has(*(f"mita_rescheduled_total:{reason}" for reason in MoveReason))
    assert await has("mita_scheduler_lock:acquired", "mita_scheduler_lock:released")
    told = await asyncio.to_thread(sums, registry)
    names = {described.name: described.name + PARTS.get(described.kind, "") for described in TABLE}
    moved = {name.split(":")[0] for name, value in told.items() if value}
    # of an outbox: tests/contrib/test_outbox_seen.py
    assert [
        name
        for name, part in names.items()
        if part not in moved and name != "mita_workers" and "outbox" not in name
    ] == []
