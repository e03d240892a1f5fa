"""A shared once value is computed by one job; the other jobs wait for it."""

import asyncio
import threading
from typing import Any

import pytest

from mita import Job, Mita, Retry
from mita.model.time import SECOND
from tests.waiting import until

from .conftest import working

NO_RETRY = Retry(max_retries=0)


async def test_of_five_concurrent_jobs_one_computes_the_value_and_the_others_wait_for_it(
    app: Mita,
) -> None:
    computed: list[str] = []
    asked, go = [], asyncio.Event()

    @app.task(retry=NO_RETRY)
    async def fetch(job: Job) -> str:
        async def token() -> str:
            computed.append(job.id)
            await go.wait()
            return f"token of {job.id}"

        asked.append(job.id)
        return await job.once("token", token, scope="global")

    async with working(app), working(app):
        jobs = [await fetch.enqueue() for _ in range(5)]
        await until(_true(lambda: len(asked) == 5 and len(computed) >= 1))
        go.set()
        values = {await job.result(timeout=20) for job in jobs}
    assert (len(computed), values) == (1, {f"token of {computed[0]}"})


async def test_of_five_concurrent_sync_handlers_one_computes_the_value(app: Mita) -> None:
    computed: list[str] = []
    asked, go = [], threading.Event()

    @app.task(retry=NO_RETRY)
    def fetch(job: Job) -> str:
        def token() -> str:
            computed.append(job.id)
            go.wait(20)
            return f"token of {job.id}"

        asked.append(job.id)
        return job.once_sync("token", token, scope="global")

    async with working(app, threads=8):
        jobs = [await fetch.enqueue() for _ in range(5)]
        await until(_true(lambda: len(asked) == 5 and len(computed) >= 1))
        go.set()
        values = {await job.result(timeout=20) for job in jobs}
    assert (len(computed), values) == (1, {f"token of {computed[0]}"})


async def test_calls_inside_one_handler_wait_for_each_other(app: Mita) -> None:
    computed: list[int] = []

    @app.task(retry=NO_RETRY)
    async def fetch(job: Job) -> list[int]:
        async def value() -> int:
            computed.append(1)
            await asyncio.sleep(0)
            return 7

        return await asyncio.gather(*[job.once("value", value, scope="global") for _ in range(3)])

    async with working(app):
        assert await (await fetch.enqueue()).result(timeout=20) == [7, 7, 7]
    assert computed == [1]


async def test_when_the_function_fails_the_next_job_runs_it(app: Mita) -> None:
    tries: list[str] = []

    @app.task(retry=NO_RETRY)
    async def fetch(job: Job) -> str:
        def token() -> str:
            tries.append(job.id)
            if len(tries) == 1:
                raise RuntimeError("the first one fails")
            return "token"

        return await job.once("token", token, scope="global")

    async with working(app):
        jobs = [await fetch.enqueue() for _ in range(3)]
        results = await asyncio.gather(
            *[job.result(timeout=20) for job in jobs], return_exceptions=True
        )
    assert len(tries) == 2
    assert sorted(str(result) for result in results if isinstance(result, str)) == [
        "token",
        "token",
    ]


async def test_the_lock_of_a_dead_run_expires(app: Mita) -> None:
    """The dead run took the lock and did not release it."""
    store = await app._store()
    assert await store.lock("once:token", "a dead run", SECOND)

    @app.task(retry=NO_RETRY)
    async def fetch(job: Job) -> str:
        return await job.once("token", lambda: "token", scope="global")

    async with working(app):
        assert await (await fetch.enqueue()).result(timeout=20) == "token"


async def test_the_lock_is_held_as_long_as_the_function_runs(app: Mita) -> None:
    """It runs far longer than a lease, and the second job must not start the function in that
    time."""
    computed: list[str] = []

    @app.task(retry=NO_RETRY)
    async def fetch(job: Job) -> str:
        async def token() -> str:
            computed.append(job.id)
            await asyncio.sleep(3)  # three leases
            return "token"

        return await job.once("token", token, scope="global")

    async with working(app, lease=1):
        jobs = [await fetch.enqueue() for _ in range(2)]
        for job in jobs:
            assert await job.result(timeout=30) == "token"
    assert len(computed) == 1


async def test_a_function_that_asks_for_its_own_value_is_refused(app: Mita) -> None:
    @app.task(retry=NO_RETRY)
    async def fetch(job: Job) -> str:
        async def outer() -> str:
            return await job.once("token", lambda: "inner", scope="global")

        return await job.once("token", outer, scope="global")

    async with working(app):
        job = await fetch.enqueue()
        with pytest.raises(Exception, match="inside its own function"):
            await job.result(timeout=20)


async def test_a_job_that_waits_for_a_value_can_be_cancelled(app: Mita) -> None:
    store = await app._store()
    assert await store.lock("once:token", "another run", 60 * SECOND)
    started: list[str] = []

    @app.task(retry=NO_RETRY)
    def wait_sync(job: Job) -> str:
        started.append(job.id)
        return job.once_sync("token", lambda: "token", scope="global")

    @app.task(retry=NO_RETRY)
    async def wait(job: Job) -> str:
        started.append(job.id)
        return await job.once("token", lambda: "token", scope="global")

    async with working(app):
        jobs = [await wait_sync.enqueue(), await wait.enqueue()]
        await until(_true(lambda: len(started) == 2))
        for job in jobs:
            await app.cancel(job.id)

        async def cancelled() -> bool:
            records = [await app.get(job.id) for job in jobs]
            return all(record is not None and record.state == "cancelled" for record in records)

        await until(cancelled)


def _true(met: Any) -> Any:
    async def condition() -> bool:
        return bool(met())

    return condition
