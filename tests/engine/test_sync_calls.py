"""The `_sync` methods inside handlers: a call that would wait for its own worker is refused with
the remedy."""

import asyncio

import pytest

from mita import JobFailed, Mita, Retry, UsageError
from mita.testing import lab

from .conftest import working

ONE_TRY = Retry(max_retries=0)
REMEDY = r"result_sync blocks the event loop of this worker.*use `await job.result\(\)`"


async def test_an_async_handler_cannot_wait_with_result_sync(app: Mita) -> None:
    """It would block the event loop that has to run the job: the worker would hang."""

    @app.task
    async def child() -> str:
        return "grown up"

    @app.task(retry=ONE_TRY)
    async def parent() -> str:
        return (await child.enqueue()).result_sync()

    @app.task(retry=ONE_TRY)
    async def patient_parent() -> str:
        return await (await child.enqueue()).result()

    @app.task(retry=ONE_TRY)
    def parent_on_a_thread() -> str:
        return child.enqueue_sync().result_sync()

    async with working(app):
        with pytest.raises(JobFailed) as caught:
            await (await parent.enqueue()).result(timeout=20)
        assert "result_sync blocks the event loop of this worker" in caught.value.error
        assert "use `await job.result()`" in caught.value.error
        for task in (patient_parent, parent_on_a_thread):
            assert await (await task.enqueue()).result(timeout=20) == "grown up"


async def test_other_code_on_the_event_loop_of_a_worker_cannot_wait_with_result_sync(
    app: Mita,
) -> None:
    """For example in a web server that runs a worker."""

    @app.task
    async def child() -> str:
        return "grown up"

    async with working(app):
        handle = await child.enqueue()
        assert await handle.result(timeout=20) == "grown up"  # so the worker is up
        with pytest.raises(UsageError, match=REMEDY):
            handle.result_sync()
        assert await asyncio.to_thread(handle.result_sync, 20) == "grown up"


async def test_calls_that_wait_for_the_store_alone_work_in_an_async_handler(app: Mita) -> None:
    @app.task
    async def child() -> None: ...

    @app.task(retry=ONE_TRY)
    async def parent() -> str:
        handle = child.after(3600).enqueue_sync()
        app.reschedule_sync(handle.id, after=7200)
        record = handle.get_sync()
        app.cancel_sync(handle.id)
        return record.state if record is not None else "nothing"

    async with working(app):
        assert await (await parent.enqueue()).result(timeout=20) == "scheduled"


async def test_result_sync_is_refused_in_a_test_without_a_worker() -> None:
    app = Mita("memory://")

    @app.task
    async def child() -> None: ...

    @app.task(retry=ONE_TRY)
    async def parent() -> None:
        (await child.enqueue()).result_sync()

    async with lab(app) as bench:
        handle = await parent.enqueue()
        await bench.drain(raises=False)
        record = await app.get(handle.id)
    assert record is not None
    assert record.error is not None
    assert "result_sync blocks the event loop" in record.error
