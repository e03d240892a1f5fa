"""Progress that a run reports, and what the next run finds of it."""

import asyncio
import threading
from typing import Any

import pytest

from mita import Job, Mita, Retry
from mita.engine.progress_writer import ProgressWriter
from tests.waiting import until

from .conftest import until_state, working

QUICK = Retry(max_retries=2, base=0.001, cap=0.002)


async def test_progress_is_shown_and_kept_as_a_checkpoint_for_the_next_run(app: Mita) -> None:
    seen: list[Any] = []

    @app.task(retry=QUICK)
    async def pages(job: Job) -> None:
        seen.append(job.checkpoint)
        if job.attempt == 1:
            await job.progress(3, 10, "page 3")
            raise RuntimeError("interrupted")

    @app.task(retry=QUICK)
    def pages_sync(job: Job) -> None:
        seen.append(job.checkpoint)
        if job.attempt == 1:
            job.progress_sync(4, 10, "page 4")
            raise RuntimeError("interrupted")

    async with working(app):
        for task in (pages, pages_sync):
            await (await task.enqueue()).result(timeout=10)
    assert [
        None if point is None else (point.done, point.total, point.message) for point in seen
    ] == [
        None,
        (3, 10, "page 3"),
        None,
        (4, 10, "page 4"),
    ]


async def test_once_runs_once_across_retries(app: Mita) -> None:
    charged = []

    def charge() -> str:
        charged.append(1)
        return "receipt 7"

    @app.task(retry=QUICK)
    async def pay(job: Job) -> str:
        receipt = await job.once("charge", charge)
        if job.attempt < 3:
            raise RuntimeError("after the charge")
        return receipt

    async with working(app):
        assert await (await pay.enqueue()).result(timeout=10) == "receipt 7"
    assert charged == [1]


async def test_progress_is_written_seldom_but_the_last_report_is_kept(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I14: and the run after a failed one continues at its last report."""
    store = await app._store()
    written: list[int] = []
    write = type(store).progress

    async def counted(self: Any, reports: Any) -> Any:
        written.append(len(reports))
        return await write(self, reports)

    monkeypatch.setattr(type(store), "progress", counted)
    went_on: list[float | None] = []

    @app.task(retry=QUICK)
    async def crawl(job: Job) -> None:
        went_on.append(job.checkpoint.done if job.checkpoint else None)
        for page in range(1, 101):
            await job.progress(page, 100, f"page {page}")
        if job.attempt == 1:
            raise RuntimeError("cut off")

    @app.task(retry=QUICK)
    def crawl_sync(job: Job) -> None:
        went_on.append(job.checkpoint.done if job.checkpoint else None)
        for page in range(1, 101):
            job.progress_sync(page, 100, f"page {page}")
        if job.attempt == 1:
            raise RuntimeError("cut off")

    async with working(app):
        for task in (crawl, crawl_sync):
            handle = await task.enqueue()
            record = await until_state(app, handle.id, "succeeded")
            assert record.progress == (100, 100, "page 100")
    assert went_on == [None, 100, None, 100]
    assert len(written) < 200, "four runs of a hundred reports each"


@pytest.mark.parametrize("how", ["cancel", "time"])
async def test_a_last_report_that_cannot_be_written_does_not_delay_the_end(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, stuck = Mita("memory://"), asyncio.Event()

    async def hang(self: ProgressWriter) -> None:
        stuck.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(ProgressWriter, "close", hang)

    @app.task
    async def crawl(job: Job) -> str:
        await job.progress(1, 1)
        return "done"

    async with app, working(app, lease=1.0 if how == "time" else 30.0):
        handle = await crawl.enqueue()
        await stuck.wait()
        if how == "cancel":
            await app.cancel(handle.id)
        await until_state(app, handle.id, "cancelled" if how == "cancel" else "succeeded")


async def test_progress_before_a_long_step_is_visible(app: Mita) -> None:
    seen = asyncio.Event()

    @app.task
    async def crawl(job: Job) -> None:
        for page in range(1, 4):
            await job.progress(page, 4)
        await seen.wait()

    async with working(app):
        handle = await crawl.enqueue()

        async def shown() -> bool:
            record = await app.get(handle.id)
            return record is not None and record.progress is not None and record.progress.done == 3

        await until(shown)
        seen.set()


async def test_a_handler_on_a_thread_that_is_interrupted_keeps_its_last_progress(app: Mita) -> None:
    reported, gate = threading.Event(), threading.Event()

    @app.task
    def crawl(job: Job) -> float | None:
        if job.checkpoint is not None:
            return job.checkpoint.done
        for page in range(1, 21):
            job.progress_sync(page, 20)
        reported.set()
        gate.wait(60)
        return None

    try:
        handle = await crawl.enqueue()
        async with working(app, grace=0):
            assert await asyncio.to_thread(reported.wait, 20)
        async with working(app):
            assert await handle.result(timeout=20) == 20
    finally:
        gate.set()
