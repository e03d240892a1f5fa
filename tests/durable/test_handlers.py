"""Durable handlers in the lab: steps, sleeps and signals under a clock that the test moves."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec import Struct

from mita import Job, JobFailed, JobRecord, Mita, Reschedule, Retry, UsageError
from mita.model.outcome import Answer
from mita.testing import lab

DAY_S = 86_400.0


class Approval(Struct):
    yes: bool
    by: str = ""


def new_app() -> Mita:
    return Mita("memory://", retry=Retry(max_retries=2, base=1, jitter="none"))


async def record_of(app: Mita, id: str) -> JobRecord:
    record = await app.get(id)
    assert record is not None
    return record


async def test_a_step_runs_once_across_retries() -> None:
    app, ran = new_app(), []

    @app.task
    async def onboard(job: Job, user: int) -> str:
        account = await job.step("create account", create, user)
        ran.append("after")
        if len(ran) < 3:
            raise ValueError("try again")
        return account

    async def create(user: int) -> str:
        ran.append("create")
        return f"account {user}"

    async with lab(app) as it:
        job = await onboard.enqueue(7)
        await it.advance(60, raises=False)
        assert await job.result() == "account 7"
    assert ran == ["create", "after", "after"]


async def test_a_step_returns_what_the_annotation_says() -> None:
    app, seen = new_app(), list[Approval]()

    def ask() -> Approval:
        return Approval(True, "Ada")

    @app.task
    async def work(job: Job) -> None:
        seen.append(await job.step("ask", ask))
        if len(seen) == 1:
            raise ValueError("once more")

    async with lab(app) as it:
        await work.enqueue()
        await it.advance(60, raises=False)
    assert seen == [Approval(True, "Ada")] * 2


async def test_a_step_takes_arguments_by_any_name() -> None:
    app = new_app()

    def join(name: str, fn: str, *, self: str = "") -> str:
        return f"{name}, {fn}, {self}"

    @app.task
    async def work(job: Job) -> str:
        return await job.step("join", join, name="a", fn="b", self="c")

    async with lab(app) as it:
        job = await work.enqueue()
        await it.drain()
        assert await job.result() == "a, b, c"


async def test_a_step_that_fails_is_run_again() -> None:
    app, calls = new_app(), []

    def flaky() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("down")
        return 42

    @app.task
    async def work(job: Job) -> int:
        return await job.step("flaky", flaky)

    async with lab(app) as it:
        job = await work.enqueue()
        await it.advance(60, raises=False)
        assert await job.result() == 42
    assert len(calls) == 2


async def test_two_steps_of_one_name_are_an_error() -> None:
    app = new_app()

    @app.task(retry=Retry(max_retries=0))
    async def work(job: Job) -> None:
        for _ in range(2):
            await job.step("charge", lambda: 1)

    async with lab(app) as it:
        job = await work.enqueue()
        await it.drain(raises=False)
        with pytest.raises(JobFailed, match="step 'charge' occurs twice in one run of task"):
            await job.result()


async def test_a_stored_step_that_no_longer_fits_fails_the_job_with_the_remedy() -> None:
    app, kinds = new_app(), list[Any]()

    def as_text() -> str:
        return "seven"

    def as_number() -> int:
        return 7

    @app.task
    async def work(job: Job) -> None:
        kinds.append(await job.step("count", as_text if not kinds else as_number))
        raise ValueError("again")

    async with lab(app) as it:
        job = await work.enqueue()
        await it.advance(60, raises=False)
        with pytest.raises(JobFailed, match="stored result of step 'count' does not fit"):
            await job.result()
        record = await record_of(app, job.id)
    assert kinds == ["seven"]
    assert record.attempts == 2, "no further retries: they would read the same"


async def test_a_sleep_gives_up_the_slot_and_is_no_attempt() -> None:
    app, passed = new_app(), list[str]()

    @app.task(resource="account", max_reschedules=1)
    async def onboard(job: Job) -> str:
        passed.append("top")
        await job.sleep(timedelta(days=3))
        passed.append("middle")
        await job.sleep(DAY_S)
        return "done"

    async with lab(app) as it:
        job = await onboard.enqueue()
        assert await it.advance(3 * DAY_S - 1) == 1
        record = await record_of(app, job.id)
        assert record.state == "scheduled"
        assert record.timeline[-1].kind == "sleeping"
        assert await it.advance(2) == 1
        assert await it.advance(DAY_S) == 1
        record = await record_of(app, job.id)
        assert await job.result() == "done"
    assert passed == ["top", "top", "middle", "top", "middle"]
    assert (record.attempts, record.reschedules, record.interruptions) == (0, 2, 0)


async def test_a_retry_does_not_sleep_again() -> None:
    app, tries = new_app(), []

    @app.task
    async def work(job: Job) -> None:
        await job.sleep(100)
        tries.append(it.now)
        if len(tries) == 1:
            raise ValueError("no")

    async with lab(app) as it:
        began = it.now
        await work.enqueue()
        await it.advance(200, raises=False)
    assert [(at - began).total_seconds() for at in tries] == [100, 101]


async def test_a_signal_that_comes_later() -> None:
    app = new_app()

    @app.task
    async def ask(job: Job) -> str:
        answer = await job.wait_for("approval", type=Approval)
        return f"{answer.by} said {answer.yes}"

    async with lab(app) as it:
        job = await ask.enqueue()
        assert await it.advance(1000 * DAY_S) == 1
        assert await it.signal(job.id, "approval", Approval(True, "Ada")) is Answer.DONE
        assert await it.drain() == 1
        assert await job.result() == "Ada said True"


async def test_a_signal_that_comes_first() -> None:
    app = new_app()

    @app.task
    async def ask(job: Job) -> Any:
        return await job.wait_for("go", timeout=5)

    async with lab(app) as it:
        job = await ask.enqueue()
        assert await it.signal(job.id, "go", {"n": 1}) is Answer.DONE
        assert await it.drain() == 1
        assert await job.result() == {"n": 1}


async def test_a_signal_while_the_handler_runs() -> None:
    app = new_app()

    @app.task
    async def ask(job: Job) -> Any:
        await job.step("look", lambda: 1)  # the stored values are read here
        if job.attempt == 1 and job.checkpoint is None:
            await job.progress(1)
            await app.signal(job.id, "go", "now")
        return await job.wait_for("go")

    async with lab(app) as it:
        job = await ask.enqueue()
        assert await it.drain() == 2
        assert await job.result() == "now"


async def test_a_wait_times_out_once_and_for_ever() -> None:
    app, seen = new_app(), list[str]()

    @app.task
    async def ask(job: Job) -> str:
        try:
            await job.wait_for("approval", timeout=60)
        except TimeoutError as error:
            seen.append(str(error))
        if len(seen) < 2:
            raise ValueError("once more")
        return "nobody"

    async with lab(app) as it:
        job = await ask.enqueue()
        assert await it.advance(59) == 1
        assert await it.advance(1, raises=False) == 1
        assert await it.signal(job.id, "approval", True) is Answer.TAKEN
        assert await it.advance(10) == 1
        assert await job.result() == "nobody"
    assert seen == ["no signal 'approval' came within 60 s"] * 2


async def test_the_timeout_counts_from_the_first_wait() -> None:
    app, waits = new_app(), []

    @app.task
    async def ask(job: Job) -> None:
        waits.append(it.now)
        if len(waits) == 2:
            raise ValueError("a failure in between")
        await job.wait_for("approval", timeout=60)

    async with lab(app) as it:
        began = it.now
        job = await ask.enqueue()
        await it.drain()
        await app.reschedule(job.id, after=30)
        await it.advance(100, raises=False)
        record = await record_of(app, job.id)
    assert record.error is not None
    assert "TimeoutError" in record.error
    assert [(at - began).total_seconds() for at in waits][:4] == [0, 30, 31, 60]


async def test_a_value_of_another_type_fails_the_job_with_the_remedy() -> None:
    app = new_app()

    @app.task
    async def ask(job: Job) -> None:
        await job.wait_for("approval", type=Approval)

    async with lab(app) as it:
        job = await ask.enqueue()
        await it.drain()
        await it.signal(job.id, "approval", 7)
        await it.drain(raises=False)
        with pytest.raises(JobFailed, match="the value of signal 'approval' is no Approval"):
            await job.result()


async def test_a_wait_ends_at_the_deadline_of_the_job() -> None:
    app = new_app()

    @app.task(deadline=50)
    async def ask(job: Job) -> str:
        return await job.wait_for("go", type=str)

    async with lab(app) as it:
        early, late = await ask.enqueue(), await ask.enqueue()
        await it.advance(20)
        await it.signal(early.id, "go", "in time")
        await it.advance(100)
        assert await early.result() == "in time"
        with pytest.raises(JobFailed, match="DeadlineExceeded"):
            await late.result()


async def test_a_handler_may_catch_exceptions_around_a_sleep() -> None:
    """`except Exception` does not catch what ends the run."""
    app = new_app()

    @app.task
    async def work(job: Job) -> str:
        try:
            await job.sleep(10)
        except Exception:  # noqa: BLE001
            return "caught"
        return "slept"

    async with lab(app) as it:
        job = await work.enqueue()
        await it.advance(20)
        assert await job.result() == "slept"


async def test_waits_in_a_task_group_end_the_run_too() -> None:
    app = new_app()

    @app.task
    async def work(job: Job) -> str:
        async with asyncio.TaskGroup() as group:
            one = group.create_task(job.wait_for("a", type=str))
            two = group.create_task(job.wait_for("b", type=str))
        return one.result() + two.result()

    async with lab(app) as it:
        job = await work.enqueue()
        await it.drain()
        await it.signal(job.id, "b", "2")
        await it.drain()
        await it.signal(job.id, "a", "1")
        await it.drain()
        assert await job.result() == "12"


async def test_the_sync_verbs() -> None:
    app, ran = new_app(), list[str]()

    def create(user: int) -> str:
        ran.append("create")
        return f"account {user}"

    @app.task
    def onboard(job: Job, user: int) -> str:
        account = job.step_sync("create", create, user)
        job.sleep_sync(60)
        answer = job.wait_for_sync("approval", timeout=60, type=bool)
        return f"{account}: {answer}"

    async with lab(app) as it:
        job = await onboard.enqueue(7)
        await it.advance(61)
        assert await it.signal(job.id, "approval", True) is Answer.DONE
        await it.drain()
        assert await job.result() == "account 7: True"
    assert ran == ["create"]


async def test_signals_that_cannot_be_given() -> None:
    app = new_app()

    @app.task
    async def work() -> None: ...

    async with lab(app) as it:
        job = await work.enqueue()
        with pytest.raises(UsageError, match="signal key '' is not usable"):
            await app.signal(job.id, "")
        with pytest.raises(UsageError, match="a value of type object cannot be stored"):
            await app.signal(job.id, "go", object())
        with pytest.raises(UsageError, match="no job 'nobody' is in the store"):
            await app.signal("nobody", "go")
        await it.drain()
        assert await app.signal(job.id, "go") is Answer.TOO_LATE


async def test_names_of_once_that_are_ours() -> None:
    app = new_app()

    @app.task(retry=Retry(max_retries=0))
    async def work(job: Job) -> None:
        await job.once("mita:signal:approval", lambda: True)

    async with lab(app) as it:
        job = await work.enqueue()
        await it.drain(raises=False)
        with pytest.raises(JobFailed, match="names that begin with 'mita:' are Mita's own"):
            await job.result()


async def test_sleeps_and_reschedules_of_one_handler() -> None:
    app, runs = new_app(), []

    @app.task
    async def work(job: Job) -> None:
        runs.append(1)
        await job.sleep(10)
        if len(runs) == 2:
            raise Reschedule(after=5)

    async with lab(app) as it:
        job = await work.enqueue()
        await it.advance(60)
        record = await record_of(app, job.id)
    assert (record.state, record.reschedules, len(runs)) == ("succeeded", 2, 3)
