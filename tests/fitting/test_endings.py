"""What providers made is cleaned up, however the run ends."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from mita import Abort, Depends, Job, Mita, Reschedule, Retry, Unavailable
from mita.engine import execution
from mita.engine.run_context import Stop
from mita.engine.worker import Worker
from mita.testing import lab
from tests.engine.conftest import until_state, working
from tests.waiting import until

from .conftest import untyped

ONE_TRY = Retry(max_retries=0)


class Resource:
    """A sync and an async provider that say what they saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.began = threading.Event()
        self.go = threading.Event()  # for handlers on threads

    def sync(self) -> Iterator[str]:
        try:
            yield "sync"
        except BaseException as error:
            self.seen.append(f"sync {type(error).__name__}")
            raise
        else:
            self.seen.append("sync ok")

    async def on_loop(self, first: Annotated[str, Depends(lambda: "")]) -> AsyncIterator[str]:
        try:
            yield "async"
        except BaseException as error:
            await asyncio.sleep(0)
            self.seen.append(f"async {type(error).__name__}")
            raise
        else:
            await asyncio.sleep(0)
            self.seen.append("async ok")


def declare(app: Mita, held: Resource, act: Callable[[Job], Any], kind: str, **options: Any) -> Any:
    """A task that does `act`, with one sync and one async dependency."""
    one, two = Depends(held.sync), Depends(held.on_loop)
    if kind == "loop":

        async def handler(job: Job, a: Annotated[str, one], b: Annotated[str, two]) -> Any:
            held.began.set()
            made = act(job)
            return await made if asyncio.iscoroutine(made) else made

        return app.task(**options)(handler)

    def on_thread(job: Job, a: Annotated[str, one], b: Annotated[str, two]) -> Any:
        held.began.set()
        return act(job)

    return app.task(**options)(on_thread)


def raises(error: BaseException) -> Callable[[Job], Any]:
    def act(job: Job) -> None:
        raise error

    return act


@pytest.mark.parametrize("kind", ["loop", "thread"])
@pytest.mark.parametrize(
    ("act", "state", "seen"),
    [
        (lambda job: "done", "succeeded", "ok"),
        (raises(ValueError("no")), "failed", "ValueError"),
        (raises(SystemExit("no")), "failed", "SystemExit"),
        (raises(GeneratorExit()), "failed", "GeneratorExit"),
        (raises(asyncio.CancelledError()), "failed", "CancelledError"),
        (raises(Abort("no")), "failed", "Abort"),
        (raises(Reschedule(after=600)), "scheduled", "Reschedule"),
        (raises(Unavailable(after=600)), "blocked", "Unavailable"),
        (lambda job: Reschedule(after=600), "scheduled", "ok"),
    ],
)
async def test_what_a_handler_returns_or_raises(
    app: Mita, kind: str, act: Callable[[Job], Any], state: str, seen: str
) -> None:
    resource = Resource()
    options = {"resource": "r"} if seen == "Unavailable" else {}
    task = declare(app, resource, act, kind, retry=ONE_TRY, **options)
    async with lab(app) as it:
        job = await task.enqueue()
        await it.drain(raises=False)
        record = await job.get()
        assert record.state == state, record
        assert resource.seen == [f"async {seen}", f"sync {seen}"]


async def asleep(job: Job) -> None:
    await job.sleep(60)


async def waiting(job: Job) -> None:
    await job.wait_for("go")


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        ("loop", asleep),
        ("loop", waiting),
        ("thread", lambda job: job.sleep_sync(60)),
        ("thread", lambda job: job.wait_for_sync("go")),
    ],
)
async def test_a_handler_that_sleeps_or_waits(
    app: Mita, kind: str, act: Callable[[Job], Any]
) -> None:
    resource = Resource()
    task = declare(app, resource, act, kind)
    async with lab(app) as it:
        job = await task.enqueue()
        await it.drain()
        assert resource.seen == ["async Suspend", "sync Suspend"]
        await it.signal(job.id, "go")
        assert await it.advance(61) == 1
        assert resource.seen[2:] == ["async ok", "sync ok"]
        assert (await job.get()).state == "succeeded"


async def hang(job: Job) -> None:
    await asyncio.Event().wait()


def watch(job: Job) -> None:
    """A handler on a thread that looks whether it should stop."""
    while not job.cancelled:
        threading.Event().wait(0.01)


ACTS = {"loop": (hang, "CancelledError"), "thread": (watch, "ok")}


@pytest.mark.parametrize("kind", ACTS)
async def test_a_run_that_takes_too_long(app: Mita, kind: str) -> None:
    resource, (act, seen) = Resource(), ACTS[kind]
    task = declare(app, resource, act, kind, retry=ONE_TRY, timeout=0.05)
    async with working(app):
        job = await task.enqueue()
        await until_state(app, job.id, "failed")
    assert resource.seen == [f"async {seen}", f"sync {seen}"]


@pytest.mark.parametrize("kind", ACTS)
async def test_a_run_that_is_cancelled(app: Mita, kind: str) -> None:
    resource, (act, seen) = Resource(), ACTS[kind]
    task = declare(app, resource, act, kind)
    async with working(app):
        job = await task.enqueue()
        await until(resource.began.is_set)
        await app.cancel(job.id)
        await until_state(app, job.id, "cancelled")
    assert resource.seen == [f"async {seen}", f"sync {seen}"]


@pytest.mark.parametrize("kind", ACTS)
async def test_a_run_that_loses_its_lease(app: Mita, kind: str) -> None:
    resource, (act, seen) = Resource(), ACTS[kind]
    task = declare(app, resource, act, kind)

    def lose(worker: Worker) -> None:
        [run] = worker._executor.held
        worker._executor.lose(run)

    async with working(app) as worker:
        await task.enqueue()
        await until(resource.began.is_set)
        lose(worker)
        await until(lambda: len(resource.seen) == 2)
        assert resource.seen == [f"async {seen}", f"sync {seen}"]


@pytest.mark.parametrize("kind", ACTS)
async def test_a_run_when_its_worker_stops(app: Mita, kind: str) -> None:
    resource, (act, seen) = Resource(), ACTS[kind]
    task = declare(app, resource, act, kind)
    async with working(app, grace=0.05):
        job = await task.enqueue()
        await until(resource.began.is_set)
    await until(lambda: len(resource.seen) == 2)
    assert resource.seen == [f"async {seen}", f"sync {seen}"]
    assert (await job.get()).state == "ready"


async def test_a_provider_that_hangs_is_stopped_by_the_timeout(app: Mita, log: list[str]) -> None:
    async def hanging() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("stopped")
            raise

    @app.task(timeout=0.05, retry=ONE_TRY)
    async def use(x: Annotated[None, Depends(hanging)]) -> None: ...

    @app.task(timeout=0.05, retry=ONE_TRY)
    def use_sync(x: Annotated[None, Depends(hanging)]) -> None:
        log.append("ran")

    async with working(app):
        for task in (use, use_sync):
            record = await until_state(app, (await untyped(task).enqueue()).id, "failed")
            assert "timeout" in record.error
    assert log == ["stopped", "stopped"]


async def test_a_clean_up_is_not_disturbed_when_its_run_is_stopped(
    app: Mita, log: list[str]
) -> None:
    cleaning, go = asyncio.Event(), asyncio.Event()

    async def session() -> AsyncIterator[None]:
        try:
            yield
        finally:
            cleaning.set()
            await go.wait()
            log.append("closed")

    @app.task(timeout=0.05)
    async def use(x: Annotated[None, Depends(session)]) -> None:
        await asyncio.Event().wait()

    async with working(app) as worker:
        job = await untyped(use).enqueue()
        await cleaning.wait()  # the timeout has stopped the handler
        await app.cancel(job.id)
        await until(lambda: [one.stop for one in worker._executor.held] == [Stop.CANCELLED])
        go.set()
        await until_state(app, job.id, "cancelled")
    assert log == ["closed"]


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_clean_up_that_hangs_is_stopped_in_the_end(
    app: Mita, log: list[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "CLEAN_UP_S", 0.05)

    async def session() -> AsyncIterator[None]:
        try:
            yield
        finally:
            try:
                await asyncio.Event().wait()
            finally:
                log.append("stopped")

    if kind == "loop":

        @app.task(timeout=0.05, retry=ONE_TRY)
        async def use(x: Annotated[None, Depends(session)]) -> None: ...

    else:

        @app.task(timeout=0.05, retry=ONE_TRY)
        def use(x: Annotated[None, Depends(session)]) -> None: ...

    async with working(app):
        await until_state(app, (await untyped(use).enqueue()).id, "failed")
    assert log == ["stopped"]


async def test_a_job_is_settled_after_the_clean_up(app: Mita) -> None:
    states = []

    async def look(job: Job) -> AsyncIterator[None]:
        yield
        record = await app.get(job.id)
        assert record is not None
        states.append(record.state)

    @app.task
    async def use(x: Annotated[None, Depends(look)]) -> None: ...

    async with working(app):
        await (await untyped(use).enqueue()).result(10)
    assert states == ["running"]


async def test_a_handler_is_not_called_if_a_provider_failed_and_others_are_cleaned_up(
    app: Mita, log: list[str]
) -> None:
    resource = Resource()

    def fails() -> None:
        raise OSError("no")

    @app.task(retry=ONE_TRY)
    def use(
        a: Annotated[str, Depends(resource.sync)],
        b: Annotated[str, Depends(resource.on_loop)],
        c: Annotated[None, Depends(fails)],
    ) -> None:
        log.append("ran")

    async with lab(app) as it:
        await untyped(use).enqueue()
        await it.drain(raises=False)
    assert resource.seen == ["async OSError", "sync OSError"]
    assert log == []


async def test_nothing_stays_open_when_many_runs_end_in_many_ways(app: Mita) -> None:
    chance, is_open = random.Random(7), set[int]()
    made, lock = [0], threading.Lock()

    def sync() -> Iterator[int]:
        with lock:
            made[0] += 1
            number = made[0]
            is_open.add(number)
        try:
            yield number
        finally:
            with lock:
                is_open.remove(number)

    async def on_loop(inner: Annotated[int, Depends(sync)]) -> AsyncIterator[int]:
        await asyncio.sleep(0)
        with lock:
            is_open.add(-inner)
        try:
            yield inner
        finally:
            await asyncio.sleep(0)
            with lock:
                is_open.remove(-inner)

    @app.task(retry=ONE_TRY, timeout=0.05)
    async def on_the_loop(act: str, x: Annotated[int, Depends(on_loop)]) -> None:
        assert act != "fail"
        await asyncio.sleep(60 if act == "hang" else 0)

    @app.task(retry=ONE_TRY, timeout=0.05)
    def on_a_thread(job: Job, act: str, x: Annotated[int, Depends(on_loop)]) -> None:
        assert act != "fail"
        while act == "hang" and not job.cancelled:
            threading.Event().wait(0.005)

    calls = [
        untyped(chance.choice([on_the_loop, on_a_thread])).call(
            chance.choice(["return", "fail", "hang"])
        )
        for _ in range(300)
    ]
    async with working(app):
        handles = await app.enqueue_many(calls)
        for handle in chance.sample(handles, 60):
            await app.cancel(handle.id)
        await until(lambda: _all_ended(app))
    assert not is_open
    assert made[0] > 100


async def _all_ended(app: Mita) -> bool:
    return {one.state for one in (await app.jobs(limit=1000)).jobs} <= {
        "succeeded",
        "failed",
        "cancelled",
    }
