"""What `app.get` and `app.explain` say of durable handlers, under a clock that the test moves."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from msgspec import Struct

from mita import (
    Job,
    JobFailed,
    JobRecord,
    Mita,
    ReasonCode,
    Retry,
    SignalRecord,
    SleepRecord,
    StepRecord,
    WaitRecord,
)
from mita.ports.store import OnceValue
from mita.rules.durable import sleep_name, step_name, wait_name
from mita.testing import lab


class Account(Struct):
    owner: str


def create(owner: str) -> Account:
    return Account(owner)


def new_app(**task: Any) -> Mita:
    app = Mita("memory://")

    @app.task(name="onboard", **task)
    async def onboard(job: Job, owner: str) -> None:
        await job.once("plain", lambda: 7)
        await job.step("create", create, owner)
        await job.sleep(60)
        await job.wait_for("approval", timeout=600)
        await job.wait_for("payment")

    return app


async def record_of(app: Mita, id: str) -> JobRecord:
    record = await app.get(id)
    assert record is not None
    return record


async def enqueued(app: Mita) -> str:
    return (await app.enqueue(app.find_task("onboard").call("Ada"))).id


async def test_a_record_has_what_is_done_and_what_it_waits_for() -> None:
    app = new_app()
    async with lab(app) as it:
        began, id = it.now, await enqueued(app)
        assert (await record_of(app, id)).steps == ()
        await it.drain()
        record = await record_of(app, id)
        once, step = record.steps
        assert once == StepRecord("plain", value=7)
        assert (step.name, step.ended, step.value) == ("create", began, {"owner": "Ada"})
        assert step.seconds is not None
        minute = began + timedelta(seconds=60)
        assert record.sleeps == (SleepRecord("1", minute),)
        assert (record.signals, record.waits_for) == ((), ())
        await it.advance(60)
        record = await record_of(app, id)
        assert record.waits_for == (WaitRecord("approval", minute + timedelta(seconds=600)),)
        await it.signal(id, "approval", [1])
        record = await record_of(app, id)
        assert record.state == "ready"
        assert record.signals == (SignalRecord("approval", [1]),)
        assert record.waits_for == ()
        await it.drain()
        assert (await record_of(app, id)).waits_for == (WaitRecord("payment"),)
        page = await app.jobs()
        assert page.jobs[0].steps == ()


async def test_a_wait_that_timed_out_is_shown_as_such() -> None:
    app = new_app()
    async with lab(app) as it:
        id = await enqueued(app)
        await it.advance(660, raises=False)
        record = await record_of(app, id)
    assert record.signals == (SignalRecord("approval", timed_out=True),)


@pytest.mark.parametrize("secret", [True, ["owner"]])
async def test_values_of_a_secret_task_are_not_shown(secret: Any) -> None:
    app = new_app(secret=secret)
    async with lab(app) as it:
        id = await enqueued(app)
        await it.signal(id, "approval", "Ada")
        await it.drain()
        record = await record_of(app, id)
    assert [(step.name, step.value) for step in record.steps] == [("plain", None), ("create", None)]
    assert record.signals == (SignalRecord("approval"),)


async def test_explain_says_until_when_it_sleeps_and_for_what_it_waits() -> None:
    app = new_app()
    async with lab(app) as it:
        id = await enqueued(app)
        await it.drain()
        [first, *_] = await app.explain(id)
        assert first.code is ReasonCode.SLEEPS
        assert first.text.startswith("it sleeps until ")
        await it.advance(60)
        [first, *_] = await app.explain(id)
        assert first.code is ReasonCode.WAITS_FOR_SIGNAL
        assert first.command == ("signal", id, "approval", "JSON")
        await it.signal(id, "approval")
        assert ReasonCode.WAITS_FOR_SIGNAL not in [one.code for one in await app.explain(id)]
        await it.drain()
        [first, *_] = await app.explain(id)
        assert first.text == "it waits for the signal 'payment' (without a time-out)"


async def test_explain_names_the_child_that_a_job_waits_for_and_what_keeps_it() -> None:
    app = Mita("memory://")

    @app.task
    async def child() -> None: ...

    @app.task
    async def parent(job: Job) -> None:
        await job.run(child.options(queue="other").call())

    async with lab(app) as it:
        await app.pause("other")
        job = await parent.enqueue()
        await it.drain()
        [first, *_] = await app.explain(job.id)
        [one] = (await app.jobs(task="child")).jobs
        await app.cancel(one.id)
        [ended, *_] = await app.explain(job.id)
    assert (first.code, first.evidence) == (
        ReasonCode.WAITS_FOR_CHILD,
        {"child": one.id, "because": "queue paused"},
    )
    assert first.text.startswith(f"it waits for its child, job {one.id}: queue 'other' has been")
    assert first.command == ("resume", "other")
    assert ended.code is not ReasonCode.WAITS_FOR_CHILD


async def test_what_cannot_be_read_is_shown_without_its_value() -> None:
    app = new_app()
    async with lab(app):
        id, store = await enqueued(app), await app.open_store()
        [claim] = (await store.claim(["default"], 1, 1000, "w")).claims
        for name in (step_name("a"), sleep_name("1"), wait_name("go"), "plain"):
            await store.store_once(OnceValue(claim=claim, name=name, value=b"\xc1"))
        await app.signal(id, "late", 1)
        await store.close()
        record = await record_of(app, id)
    assert record.steps == (StepRecord("plain"), StepRecord("a"))
    assert record.sleeps == (SleepRecord("1"),)
    assert record.signals == (SignalRecord("late", 1),)


async def test_a_parent_shows_how_its_children_ended_and_not_their_results() -> None:
    """The task of a child may be secret when that of its parent is not."""
    app = Mita("memory://", retry=Retry(max_retries=0))

    @app.task(secret=True)
    async def log_in(works: bool) -> str:
        if not works:
            raise ValueError("the password is hush")
        return "hush"

    @app.task
    async def parent(job: Job) -> int:
        length = len(await job.run(log_in.call(True)))
        with suppress(JobFailed):
            await job.run(log_in.call(False))
        return length

    async with lab(app) as it:
        job = await parent.enqueue()
        await it.drain(raises=False)
        assert await job.result() == 4
        record = await record_of(app, job.id)
    said = {str(signal.value) for signal in record.signals}
    assert said == {"succeeded", "failed: ValueError (text withheld: task is secret)"}
    assert "hush" not in repr(record)
