"""What a worker does with the jobs that it claims, on real stores and in real time."""

import asyncio
import contextvars
import time

import msgspec
import pytest

from mita import Abort, Job, Mita, Reschedule, Retry, Unavailable
from mita.model.job import NewJob, State
from mita.ports.ids import new_id
from tests.waiting import until

from .conftest import until_state, working

QUICK = Retry(max_retries=2, base=0.001, cap=0.002)


async def test_async_and_sync_handlers_run_and_their_results_are_stored(app: Mita) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task
    def shout(text: str) -> str:
        return text.upper()

    async with working(app):
        first, second = await add.enqueue(2, b=3), await shout.enqueue("hello")
        assert await first.result(timeout=10) == 5
        assert await second.result(timeout=10) == "HELLO"


async def test_every_handler_has_a_context_of_its_own(app: Mita) -> None:
    here = contextvars.ContextVar("here", default=0)

    @app.task
    async def look(n: int) -> int:
        seen = here.get()
        here.set(n)
        await asyncio.sleep(0)
        return seen

    @app.task
    def look_sync(n: int) -> int:
        seen = here.get()
        here.set(n)
        return seen

    async with working(app, threads=1):
        jobs = await app.enqueue_many(
            [task.call(n) for n in range(1, 6) for task in (look, look_sync)]
        )
        assert {await job.result(timeout=10) for job in jobs} == {0}


async def test_a_failing_job_is_retried_within_its_budget_and_then_fails(app: Mita) -> None:
    attempts = []

    @app.task(retry=QUICK)
    async def never(job: Job) -> None:
        attempts.append(job.attempt)
        raise RuntimeError("no luck")

    async with working(app):
        handle = await never.enqueue()
        record = await until_state(app, handle.id, "failed")
    assert attempts == [1, 2, 3]
    assert record.attempts == 3
    assert record.error.startswith("RuntimeError: no luck")
    assert [event.kind for event in record.timeline if event.kind in ("retried", "failed")] == [
        "retried",
        "retried",
        "failed",
    ]


async def test_abort_and_final_errors_fail_at_once(app: Mita) -> None:
    @app.task
    async def hopeless() -> None:
        raise Abort("the account is closed")

    @app.task(final=(KeyError,))
    def missing() -> None:
        raise KeyError("gone")

    async with working(app):
        handles = [await hopeless.enqueue(), await missing.enqueue()]
        records = [await until_state(app, handle.id, "failed") for handle in handles]
    assert [record.attempts for record in records] == [1, 1]
    assert "the account is closed" in records[0].error


async def test_a_handler_reschedules_its_job_without_using_an_attempt(app: Mita) -> None:
    @app.task
    async def later(job: Job) -> str | Reschedule:
        match job.reschedules:
            case 0:
                raise Reschedule(after=0.01)
            case 1:
                return Reschedule(after=0.01)
            case n:
                return f"attempt {job.attempt} after {n} moves"

    async with working(app):
        handle = await later.enqueue()
        assert await handle.result(timeout=10) == "attempt 1 after 2 moves"
        record = await app.get(handle.id)
    assert record is not None
    assert (record.attempts, record.reschedules) == (0, 2)


async def test_a_timeout_counts_as_a_failure_on_the_event_loop_and_on_a_thread(app: Mita) -> None:
    @app.task(timeout=0.05, retry=Retry(max_retries=0))
    async def slow() -> None:
        await asyncio.sleep(30)

    @app.task(timeout=0.05, retry=Retry(max_retries=0))
    def slow_sync(job: Job) -> None:
        while not job.cancelled:
            time.sleep(0.01)

    async with working(app):
        handles = [await slow.enqueue(), await slow_sync.enqueue()]
        records = [await until_state(app, handle.id, "failed") for handle in handles]
    assert all(record.error.startswith("TimedOut") and record.attempts == 1 for record in records)


async def test_a_timeout_error_of_the_handler_itself_is_an_ordinary_error(app: Mita) -> None:
    @app.task(timeout=30, retry=Retry(max_retries=0))
    async def own() -> None:
        raise TimeoutError("the partner did not answer")

    async with working(app):
        record = await until_state(app, (await own.enqueue()).id, "failed")
    assert "the partner did not answer" in record.error


@pytest.mark.parametrize("timeout", [None, 30.0], ids=["without a timeout", "with a timeout"])
async def test_a_handler_that_cancels_its_own_task_fails_and_frees_its_slot(
    app: Mita, timeout: float | None
) -> None:
    @app.task(timeout=timeout, retry=Retry(max_retries=0))
    async def giving_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(30)

    @app.task
    async def own_task() -> str:
        async with asyncio.timeout(30):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async with working(app, concurrency=1):
        record = await until_state(app, (await giving_up.enqueue()).id, "failed")
        handle = await own_task.enqueue()
        assert await handle.result(timeout=10) == handle.id
    assert record.error.startswith("asyncio.exceptions.CancelledError")


async def test_a_running_job_learns_at_once_that_it_was_cancelled(app: Mita) -> None:
    started, told = asyncio.Event(), []

    @app.task
    async def long() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("async")
            raise

    @app.task
    def long_sync(job: Job) -> None:
        loop.call_soon_threadsafe(started.set)
        while not job.cancelled:
            time.sleep(0.005)
        told.append("sync")

    loop = asyncio.get_running_loop()
    async with working(app, lease=30):
        for task in (long, long_sync):
            started.clear()
            handle = await task.enqueue()
            await asyncio.wait_for(started.wait(), 10)
            await app.cancel(handle.id)
            record = await until_state(app, handle.id, "cancelled")
            assert record.attempts == 0
    assert told == ["async", "sync"]


async def test_a_job_rescheduled_while_it_runs_runs_again_at_the_asked_time(app: Mita) -> None:
    started, go_on, runs = asyncio.Event(), asyncio.Event(), []

    @app.task
    async def work(job: Job) -> int:
        runs.append(job.token)
        started.set()
        await go_on.wait()
        return len(runs)

    async with working(app):
        handle = await work.enqueue()
        await asyncio.wait_for(started.wait(), 10)
        await app.reschedule(handle.id, after=0.05)
        go_on.set()
        record = await until_state(app, handle.id, "succeeded")
    assert len(runs) == 2
    assert runs[1] > runs[0]
    assert (record.attempts, record.reschedules, record.result) == (0, 1, 2)


async def test_jobs_of_one_key_run_one_at_a_time(app: Mita) -> None:
    inside, most = 0, 0

    @app.task(resource="account:{account}")
    async def charge(account: int) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.002)
        inside -= 1

    async with working(app):
        jobs = await app.enqueue_many([charge.call(42) for _ in range(20)])
        await asyncio.gather(*(job.result(timeout=20) for job in jobs))
    assert most == 1


async def test_unavailable_makes_every_job_of_the_key_wait(app: Mita) -> None:
    began: list[tuple[str, float]] = []

    @app.task(resource="partner")
    async def call(name: str) -> None:
        began.append((name, time.monotonic()))
        if len(began) == 1:
            raise Unavailable(after=0.3, reason="429")

    async with working(app):
        jobs = await app.enqueue_many([call.call("a"), call.call("b")])
        await asyncio.gather(*(job.result(timeout=20) for job in jobs))
        records = [await app.get(job.id) for job in jobs]
    assert began[1][1] - began[0][1] >= 0.29
    assert all(record is not None and record.attempts == 0 for record in records)


async def test_arguments_that_cannot_be_read_fail_that_job_and_keep_its_bytes(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    broken = NewJob(id=new_id(), task="greet", queue="default", payload=b"\xc1not msgpack")
    store = await app.open_store()
    await store.enqueue([broken])
    async with working(app):
        good = await greet.enqueue("Ada")
        assert await good.result(timeout=10) == "hello Ada"
        await until_state(app, broken.id, "failed")
    [job] = await store.find([broken.id])
    await store.close()
    assert job is not None
    assert job.state is State.FAILED
    assert job.payload == broken.payload
    assert job.error is not None
    assert "greet" in job.error
    assert job.attempts == 0


async def test_a_job_of_an_unknown_task_is_left_for_a_worker_that_knows_it(app: Mita) -> None:
    stranger = NewJob(
        id=new_id(), task="elsewhere", queue="default", payload=msgspec.msgpack.encode({})
    )
    store = await app.open_store()
    await store.enqueue([stranger])

    async def stranded() -> bool:
        [job] = await store.find([stranger.id])
        return job is not None and job.stranded is not None and job.state is State.QUEUED

    async with working(app):
        await until(stranded)
    [job] = await store.find([stranger.id])
    await store.close()
    assert job is not None
    assert (job.attempts, job.crashes, job.interruptions) == (0, 0, 0)


async def test_a_worker_claims_only_jobs_that_it_can_start_soon(app: Mita) -> None:
    """I9: jobs that one worker cannot start are there for another."""
    release = asyncio.Event()

    @app.task
    def hold_sync() -> None:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()

    loop = asyncio.get_running_loop()
    await app.enqueue_many([hold_sync.call() for _ in range(40)])
    async with working(app, concurrency=50, threads=3):

        async def three_run() -> bool:
            return (await app.counts())["default"]["running"] >= 3

        await until(three_run)
        await asyncio.sleep(0.1)
        assert (await app.counts())["default"]["running"] == 3
        release.set()

        async def all_done() -> bool:
            return (await app.counts())["default"]["succeeded"] == 40

        await until(all_done)


async def test_a_worker_of_all_queues_serves_new_queues(app: Mita) -> None:
    @app.task(queue="brand-new")
    async def work() -> str:
        return "ran"

    async with working(app, poll=30):
        assert await (await work.enqueue()).result(timeout=10) == "ran"


async def test_a_worker_serves_only_its_queues(app: Mita) -> None:
    @app.task
    async def work() -> str:
        return "ran"

    async with working(app, queues=["mail"]):
        elsewhere = await work.options(queue="billing").enqueue()
        mine = await work.options(queue="mail").enqueue()
        assert await mine.result(timeout=10) == "ran"
        record = await app.get(elsewhere.id)
    assert record is not None
    assert record.state == "ready"
