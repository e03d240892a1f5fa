"""What a worker does with the jobs it claims, on real stores and in real time."""

import asyncio
import contextvars
import threading
import time
from typing import Any

import msgspec
import pytest

from mita import Abort, Job, Mita, Reschedule, Retry, Unavailable
from mita.engine.keeper import Keeper
from mita.engine.reports import Reports
from mita.model.job import NewJob, State
from mita.ports.ids import new_id
from mita.ports.store import Store

from .conftest import until, until_state, working

QUICK = Retry(max_retries=2, base=0.001, cap=0.002)


async def test_async_and_sync_handlers_run_and_their_results_come_back(app: Mita) -> None:
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
        jobs = await app.enqueue_many([task.call(n) for n in range(1, 6) for task in (look, look_sync)])
        assert {await job.result(timeout=10) for job in jobs} == {0}


async def test_a_failure_is_retried_within_its_budget_and_then_dead(app: Mita) -> None:
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


async def test_a_handler_moves_its_job_without_spending_an_attempt(app: Mita) -> None:
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


async def test_a_time_out_counts_as_a_failure_on_the_loop_and_on_a_thread(app: Mita) -> None:
    let_go = threading.Event()

    @app.task(timeout=0.05, retry=Retry(max_retries=0))
    async def slow() -> None:
        await asyncio.sleep(30)

    @app.task(timeout=0.05, retry=Retry(max_retries=0))
    def slow_sync() -> None:
        let_go.wait(30)

    async with working(app):
        handles = [await slow.enqueue(), await slow_sync.enqueue()]
        records = [await until_state(app, handle.id, "failed") for handle in handles]
        let_go.set()
    assert all(record.error.startswith("TimedOut") and record.attempts == 1 for record in records)


async def test_a_time_out_error_of_the_handlers_own_is_its_own(app: Mita) -> None:
    @app.task(timeout=30, retry=Retry(max_retries=0))
    async def own() -> None:
        raise TimeoutError("the partner did not answer")

    async with working(app):
        record = await until_state(app, (await own.enqueue()).id, "failed")
    assert "the partner did not answer" in record.error


@pytest.mark.parametrize("timeout", [None, 30.0], ids=["without a time-out", "with a time-out"])
async def test_a_handler_that_cancels_its_own_task_fails_and_leaves_its_slot(app: Mita, timeout: float | None) -> None:
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
    assert record.error.startswith("CancelledError")


async def test_a_running_job_is_told_at_once_when_somebody_cancels_it(app: Mita) -> None:
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


async def test_jobs_of_one_key_take_turns(app: Mita) -> None:
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
    stranger = NewJob(id=new_id(), task="elsewhere", queue="default", payload=msgspec.msgpack.encode({}))
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
    assert [None if point is None else (point.done, point.total, point.message) for point in seen] == [
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


async def test_a_stopping_worker_lets_short_jobs_end_and_puts_long_ones_back(app: Mita) -> None:
    started = asyncio.Semaphore(0)

    @app.task
    async def short() -> str:
        started.release()
        await asyncio.sleep(0.05)
        return "done"

    @app.task
    async def long() -> None:
        started.release()
        await asyncio.sleep(60)

    @app.task
    async def never_started() -> None: ...

    async with working(app, concurrency=2, grace=0.5) as worker:
        handles = [await short.enqueue(), await long.enqueue()]
        for _ in handles:
            await asyncio.wait_for(started.acquire(), 10)
        waiting = await never_started.enqueue()
        worker.stop()
    records = [await app.get(handle.id) for handle in (*handles, waiting)]
    assert [record.state for record in records if record] == ["succeeded", "ready", "ready"]
    assert [record.interruptions for record in records if record] == [0, 1, 0]
    assert [record.attempts for record in records if record] == [0, 0, 0]


async def test_a_second_stop_leaves_at_once(app: Mita) -> None:
    started = asyncio.Event()

    @app.task
    async def long() -> None:
        started.set()
        await asyncio.sleep(60)

    async with working(app, grace=20, lease=30) as worker:
        handle = await long.enqueue()
        await asyncio.wait_for(started.wait(), 10)
        worker.stop()
        worker.stop()
    record = await app.get(handle.id)
    assert record is not None
    assert (record.state, record.interruptions) == ("ready", 1)


async def test_a_worker_takes_only_what_it_can_start_soon(app: Mita) -> None:
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


async def test_expired_leases_are_swept_and_counted_as_crashes(app: Mita) -> None:
    @app.task(retry=QUICK)
    async def work(job: Job) -> int:
        return job.token

    handle = await work.enqueue()
    store = await app.open_store()
    turn = await store.claim(["default"], 1, 50, "a worker that dies")
    assert len(turn.claims) == 1
    async with working(app, lease=1):
        assert await handle.result(timeout=20) > turn.claims[0].token
        record = await app.get(handle.id)
    await store.close()
    assert record is not None
    assert (record.crashes, record.attempts) == (1, 0)


async def test_a_worker_of_all_queues_hears_of_new_ones(app: Mita) -> None:
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


async def test_a_lost_lease_stops_the_run_and_its_verdict_counts_for_nothing(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3: as if the worker's heartbeats no longer reached the store."""
    ended: list[str] = []
    runs: list[int] = []

    @app.task(retry=QUICK)
    async def work(job: Job) -> str:
        runs.append(job.token)
        if len(runs) > 1:
            return "the heir's"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("told")
        return "too late"

    async def not_heard(self: Keeper, store: Store) -> None: ...

    monkeypatch.setattr(Keeper, "_beat", not_heard)
    async with working(app, lease=0.6):
        handle = await work.enqueue()
        assert await handle.result(timeout=20) == "the heir's"
        record = await app.get(handle.id)
    assert ended == ["told"]
    assert record is not None
    assert (record.crashes, record.attempts) == (1, 0)


async def test_a_worker_whose_keeper_dies_leaves_with_the_error(app: Mita, monkeypatch: pytest.MonkeyPatch) -> None:
    """I12: leases that nobody keeps would run out one after the other, and its jobs run twice."""
    ended: list[str] = []
    died = threading.Event()

    @app.task
    async def work() -> None:
        while not died.is_set():  # noqa: ASYNC110 - it dies on another thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        ended.append("work")

    async def broken(self: Keeper, store: Store) -> None:
        if self._crew.held:
            died.set()
            raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(Keeper, "_beat", broken)
    await work.enqueue()
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(20):
            await app.worker(lease=0.3, grace=5).run()
    assert ended == ["work"], "what ran came to its end within the grace time"


async def test_progress_is_written_seldom_but_the_last_word_is_kept(app: Mita, monkeypatch: pytest.MonkeyPatch) -> None:
    """I14: and a run that failed is gone on with from where it really was."""
    store = await app._store_here()
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
async def test_a_last_word_that_cannot_be_written_does_not_hold_up_the_ending(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, stuck = Mita("memory://"), asyncio.Event()

    async def hang(self: Reports) -> None:
        stuck.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(Reports, "close", hang)
    if how == "time":
        monkeypatch.setattr("mita.engine.execution.LONGEST_LAST_WORD", 0.01)

    @app.task
    async def crawl(job: Job) -> str:
        await job.progress(1, 1)
        return "done"

    async with app, working(app):
        handle = await crawl.enqueue()
        await stuck.wait()
        if how == "cancel":
            await app.cancel(handle.id)
        await until_state(app, handle.id, "cancelled" if how == "cancel" else "succeeded")


async def test_progress_of_a_long_step_reaches_its_readers(app: Mita) -> None:
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
