"""Durable sync handlers in real workers: on threads, and in handler processes that are killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mita import Answer, Job, Mita, Retry, WaitRecord
from tests.engine.conftest import URLS, until_state, working
from tests.waiting import until

from .onboarding import TASKS, Approval
from .onboarding import app as onboarding

SETTINGS: dict[str, Any] = {"handler_processes": 2, "poll": 0.1}


@pytest.fixture(params=URLS)
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Mita]:
    async with onboarding.using(URLS[request.param](tmp_path)) as app:
        yield app


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[Mita]:
    async with onboarding.using(URLS["sqlite"](tmp_path)) as app:
        yield app


async def until_it_waits(app: Mita, id: str) -> tuple[WaitRecord, ...]:
    async def waits() -> tuple[WaitRecord, ...]:
        record = await app.get(id)
        return () if record is None else record.waits_for

    found: tuple[WaitRecord, ...] = await until(waits, f"job {id} waits")
    return found


def content(file: Path) -> str:
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("where", TASKS)
async def test_a_sync_handler_sleeps_and_waits(app: Mita, where: str, tmp_path: Path) -> None:
    async with working(app, **SETTINGS):
        job = await TASKS[where]["onboard"].enqueue(str(tmp_path))
        [wait] = await until_it_waits(app, job.id)
        assert wait.name == "approval"
        assert wait.until is not None
        assert await app.signal(job.id, "approval", Approval(True, "Ada")) is Answer.DONE
        assert await job.result(timeout=30) == "account 7: True by Ada"
        record = await app.get(job.id)
    assert record is not None
    assert [step.value for step in record.steps] == ["account 7"]
    assert (record.attempts, record.reschedules, record.crashes) == (0, 2, 0)
    assert content(tmp_path / "created") == "x"
    assert content(tmp_path / "runs") == "xxx"


@pytest.mark.parametrize("where", TASKS)
async def test_a_wait_times_out_in_a_sync_handler(app: Mita, where: str) -> None:
    async with working(app, **SETTINGS):
        job = await TASKS[where]["time_out"].enqueue()
        assert await job.result(timeout=30) == "no signal 'never' came within 0.05 s"
        assert await app.signal(job.id, "never") is Answer.TOO_LATE


@pytest.mark.parametrize("where", TASKS)
async def test_a_signal_while_the_sync_handler_runs_is_found_by_its_wait(
    app: Mita, where: str, tmp_path: Path
) -> None:
    async with working(app, **SETTINGS):
        job = await TASKS[where]["signalled_while_it_runs"].enqueue(str(tmp_path))
        await until(lambda: content(tmp_path / "running"), "its step runs")
        assert await app.signal(job.id, "go", [1, 2]) is Answer.DONE
        (tmp_path / "signalled").touch()
        assert await job.result(timeout=30) == [1, 2]


async def test_a_handler_process_that_is_killed_inside_a_step(app: Mita, tmp_path: Path) -> None:
    """The step that was done is not repeated; the one that was killed is."""
    async with working(app, **SETTINGS):
        job = await TASKS["process"]["killed_in_a_step"].enqueue(str(tmp_path))
        pid = int(await until(lambda: content(tmp_path / "pid"), "its second step runs"))
        assert pid != os.getpid()
        os.kill(pid, signal.SIGKILL)
        assert await job.result(timeout=30) == "account 1, done"
        record = await app.get(job.id)
    assert record is not None
    assert (record.crashes, record.attempts) == (1, 0)
    assert [step.name for step in record.steps] == ["first", "second"]
    assert content(tmp_path / "created") == "x"
    assert content(tmp_path / "second") == "xx"


@pytest.mark.parametrize("where", TASKS)
@pytest.mark.parametrize(
    ("handler", "error"),
    [
        ("without_sync", "this handler is no async function: use job.wait_for_sync(…)"),
        ("catches_everything", "the handler sleeps, which ends its run, but it caught that"),
        ("unstorable", "step 'open' returned a value of type object, which cannot be stored"),
    ],
)
async def test_wrong_uses_fail_in_the_same_way_everywhere(
    on_file: Mita, where: str, handler: str, error: str
) -> None:
    async with working(on_file, **SETTINGS):
        job = await TASKS[where][handler].enqueue()
        record = await until_state(on_file, job.id, "failed")
    assert error in record.error


async def test_handlers_asleep_take_no_slot_and_no_thread(on_file: Mita, tmp_path: Path) -> None:
    """Ten of them wait, and a worker with one slot and one thread runs others."""
    async with working(on_file, concurrency=1, threads=1, poll=0.1):
        tasks = TASKS["thread"]
        jobs = [await tasks["onboard"].enqueue(str(tmp_path)) for _ in range(10)]
        for job in jobs:
            await until_it_waits(on_file, job.id)
        await (await tasks["time_out"].enqueue()).result(timeout=30)
        for job in jobs:
            await on_file.signal(job.id, "approval", Approval(False, "Bo"))
        results = [await job.result(timeout=30) for job in jobs]
    assert results == ["account 7: False by Bo"] * 10


async def test_a_deployment_between_sleep_and_wake_up(tmp_path: Path) -> None:
    """The worker that wakes it has other code: what is done stays done."""
    url = URLS["sqlite"](tmp_path)
    old, new = Mita(url, retry=Retry(max_retries=0)), Mita(url, retry=Retry(max_retries=0))

    @old.task(name="work")
    async def before(job: Job) -> str:
        one = await job.step("one", lambda: "old")
        await job.wait_for("go")
        return one

    @new.task(name="work")
    async def after(job: Job) -> str:
        two = await job.step("two", lambda: "new")
        one = await job.step("one", lambda: "never")
        await job.wait_for("go")
        return f"{one} and {two}"

    async with old, new:
        async with working(old):
            job = await before.enqueue()
            await until_it_waits(old, job.id)
        async with working(new):
            await new.signal(job.id, "go")
            assert await new.result(job.id, timeout=30) == "old and new"


async def test_a_run_that_is_stopped_at_its_wait_loses_nothing(on_file: Mita) -> None:
    """Many jobs are signalled while they begin to wait: each gets its signal once."""
    app = Mita(on_file.url.text)
    got: list[int] = []

    @app.task
    async def ask(job: Job, n: int) -> int:
        value: int = await job.wait_for("go", type=int)
        got.append(value)
        return value

    async with app, working(app, concurrency=20):
        jobs = await app.enqueue_many([ask.call(n) for n in range(100)])
        answers = await asyncio.gather(*(app.signal(job.id, "go", n) for n, job in enumerate(jobs)))
        results = [await job.result(timeout=60) for job in jobs]
    assert answers == [Answer.DONE] * 100
    assert results == list(range(100))
    assert sorted(got) == list(range(100))
