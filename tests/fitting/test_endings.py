"""What providers made is cleaned up, however the run ends."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from mita import Abort, Depends, Job, Mita, Reschedule, Retry, Unavailable
from mita.engine.execution import Stop
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
        await it.run_due()
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
        await it.run_due()
        assert resource.seen == ["async Suspend", "sync Suspend"]
        await it.signal(job.id, "go")
        assert await it.run_until(after=61) == 1
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
        [execution] = worker._executor.held
        worker._executor.lose(execution)

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


async def test_a_clean_up_that_was_stopped_once_is_not_stopped_again(
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
        await it.run_due()
    assert resource.seen == ["async OSError", "sync OSError"]
    assert log == []
