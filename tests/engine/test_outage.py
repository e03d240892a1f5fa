"""A store that is unreachable for a while costs no attempt (I6): calls of a handler wait for it."""

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from mita import Job, Mita, Retry, StoreError
from mita.model.record import JobRecord
from tests.waiting import until

from .conftest import working
from .outage import Outage, outage  # noqa: F401, RUF100

ONE_TRY = Retry(max_retries=0)


async def succeeded(app: Mita, id: str) -> JobRecord:
    """Wait until the job has succeeded; the store may be unreachable until then. Returns the
    record."""
    found: list[JobRecord] = []

    async def reached() -> bool:
        with suppress(StoreError):
            record = await app.get(id)
            if record is not None and record.state == "succeeded":
                found.append(record)
        return bool(found)

    await until(reached)
    return found[0]


async def test_progress_during_an_outage_is_kept_and_the_last_report_is_written_before_the_end(
    outage: Outage,  # noqa: F811
) -> None:
    app, cut = Mita(outage.url), asyncio.Event()
    ready, reported = asyncio.Event(), asyncio.Event()

    @app.task(retry=ONE_TRY)
    async def crawl(job: Job) -> str:
        ready.set()
        await cut.wait()
        for page in range(1, 21):
            await job.progress(page, 20, f"page {page}")
        reported.set()
        return "all pages"

    async with app, working(app, lease=30):
        handle = await crawl.enqueue()
        await asyncio.wait_for(ready.wait(), 20)
        outage.cut()
        cut.set()
        await asyncio.wait_for(reported.wait(), 20)
        outage.open()
        record = await succeeded(app, handle.id)
    assert record.progress == (20, 20, "page 20")
    assert (record.attempts, record.interruptions, record.crashes) == (0, 0, 0)


async def test_once_waits_for_a_store_that_is_unreachable_for_a_while(outage: Outage) -> None:  # noqa: F811
    app, cut = Mita(outage.url), asyncio.Event()
    ready, made = asyncio.Event(), []

    def charge() -> str:
        made.append(1)
        return "receipt 7"

    @app.task(retry=ONE_TRY)
    async def pay(job: Job) -> str:
        ready.set()
        await cut.wait()
        return await job.once("charge", charge)

    async with app, working(app, lease=30):
        handle = await pay.enqueue()
        await asyncio.wait_for(ready.wait(), 20)
        outage.cut()
        cut.set()
        await asyncio.sleep(0.5)  # the fault itself
        outage.open()
        record = await succeeded(app, handle.id)
        assert await handle.result(timeout=20) == "receipt 7"
    assert made == [1]
    assert (record.attempts, record.interruptions, record.crashes) == (0, 0, 0)


async def test_progress_and_once_wait_for_the_store_on_a_thread_too(outage: Outage) -> None:  # noqa: F811
    app, ready, cut, reported = (
        Mita(outage.url),
        threading.Event(),
        threading.Event(),
        threading.Event(),
    )

    @app.task(retry=ONE_TRY)
    def pay(job: Job) -> str:
        ready.set()
        cut.wait(20)
        job.progress_sync(1, 2)
        job.progress_sync(2, 2)
        reported.set()
        return job.once_sync("charge", lambda: "receipt 7")

    async with app, working(app, lease=30):
        handle = await pay.enqueue()
        assert await asyncio.to_thread(ready.wait, 20)
        outage.cut()
        cut.set()
        assert await asyncio.to_thread(reported.wait, 20)
        outage.open()
        record = await succeeded(app, handle.id)
    assert record.progress == (2, 2, "")
    assert (record.attempts, record.interruptions, record.crashes) == (0, 0, 0)


@pytest.mark.parametrize("why", ["timeout", "shutdown"])
async def test_a_run_that_must_end_while_it_waits_for_the_store_is_interrupted(
    outage: Outage,  # noqa: F811
    why: str,
) -> None:
    """Its timeout and the end of the grace time are not the handler's fault."""
    app, cut, waiting = Mita(outage.url), asyncio.Event(), asyncio.Event()
    ready, runs = asyncio.Event(), []

    @app.task(retry=ONE_TRY, timeout=2 if why == "timeout" else None)
    async def pay(job: Job) -> str:
        runs.append(job.attempt)
        ready.set()
        await cut.wait()
        waiting.set()
        try:
            return await job.once("charge", lambda: "receipt 7")
        except asyncio.CancelledError:
            outage.open()
            raise

    async with app, working(app, lease=30, grace=0.2) as worker:
        handle = await pay.enqueue()
        await asyncio.wait_for(ready.wait(), 20)
        outage.cut()
        cut.set()
        await asyncio.wait_for(waiting.wait(), 20)
        if why == "shutdown":
            worker.stop()
        else:
            await succeeded(app, handle.id)
    record = await app.get(handle.id)
    await app.close()
    assert record is not None
    assert (record.attempts, record.interruptions, record.crashes) == (0, 1, 0)
    assert runs == ([1, 1] if why == "timeout" else [1])
    assert ["the store was unreachable" if why == "timeout" else "the worker shut down"] == [
        event.note for event in record.timeline if event.kind == "interrupted"
    ]


async def test_a_run_that_waited_for_as_long_as_its_lease_is_interrupted(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store extends the lease but refuses this call: that must neither block the run for
    ever nor fail it."""
    runs: list[int] = []
    recall = type(await app._store()).load_once

    async def refuse_the_first_run(self: Any, *args: Any) -> Any:
        if len(runs) == 1:
            raise StoreError("no leader", transient=True)
        return await recall(self, *args)

    monkeypatch.setattr(type(await app._store()), "load_once", refuse_the_first_run)

    @app.task(retry=ONE_TRY)
    async def pay(job: Job) -> str:
        runs.append(job.attempt)
        return await job.once("charge", lambda: "receipt 7")

    async with working(app, lease=1):
        handle = await pay.enqueue()
        record = await succeeded(app, handle.id)
    assert runs == [1, 1]
    assert (record.attempts, record.interruptions, record.crashes) == (0, 1, 0)


async def test_a_worker_inside_a_program_ends_in_time_when_its_store_is_unreachable(
    outage: Outage,  # noqa: F811
) -> None:
    app, started = Mita(outage.url), asyncio.Event()

    @app.task
    async def nap() -> None:
        started.set()
        await asyncio.sleep(600)

    async with working(app, lease=60, grace=0.2):
        await nap.enqueue()
        await asyncio.wait_for(started.wait(), 20)
        outage.cut()
        cut = time.monotonic()
    assert time.monotonic() - cut < 40, "a worker has a third of its lease to end"
    outage.open()
    await app.close()
