"""Every reason why a job is not running, on every store, with real workers."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mita import Job, Mita, Reschedule, Retry, Unavailable
from mita.engine import lease_keeper
from mita.rules.explain.evidence import Reason, ReasonCode
from mita.rules.flow import step_id
from mita.tasks import Handle, Task
from tests.waiting import until

from .conftest import TIMEOUT_S, until_state, working

QUICK = {"poll": 0.05, "schedule": False}
SOON = Retry(max_retries=3, waits=(240.0,))


async def reasons_of(app: Mita, job: Handle[Any], *codes: ReasonCode) -> list[Reason]:
    """Wait until the reasons have these codes, because workers need a moment. Returns the
    reasons."""
    reasons: list[Reason] = []

    async def as_expected() -> bool:
        reasons[:] = await app.explain(job.id)
        return [reason.code for reason in reasons] == list(codes)

    try:
        await until(as_expected)
    except TimeoutError:
        pytest.fail(
            f"after {TIMEOUT_S:g} s it says {[str(reason) for reason in reasons]}, not {codes}"
        )
    return reasons


class Gate:
    """Tasks that run until the gate is opened."""

    def __init__(self, app: Mita) -> None:
        self.open = asyncio.Event()

        @app.task
        async def wait() -> None:
            await self.open.wait()

        @app.task(resource="account:{account}")
        async def charge(account: int) -> None:
            await self.open.wait()

        self.wait: Task[[], None] = wait
        self.charge: Task[[int], None] = charge


@pytest.fixture
def gate(app: Mita) -> Gate:
    return Gate(app)


@asynccontextmanager
async def running(app: Mita, gate: Gate, **settings: Any) -> AsyncIterator[None]:
    async with working(app, **QUICK, **settings):
        try:
            yield
        finally:
            gate.open.set()


async def test_a_running_job_is_explained(app: Mita, gate: Gate) -> None:
    async with running(app, gate, name="blue"):
        [reason] = await reasons_of(app, await gate.wait.enqueue(), ReasonCode.RUNNING)
        await until(lambda: says(app, reason.evidence["worker"]))
        assert "it is running on worker" in reason.text
        assert "since" in reason.text
        assert reason.evidence["attempt"] == 1


async def says(app: Mita, worker: str) -> bool:
    """Whether this worker has sent a heartbeat."""
    store = await app._store()
    return worker in {view.id for view in await store.workers()}


async def test_a_running_job_that_was_rescheduled_is_explained(app: Mita, gate: Gate) -> None:
    async with running(app, gate):
        job = await gate.wait.enqueue()
        await reasons_of(app, job, ReasonCode.RUNNING)
        await app.reschedule(job.id, after=240)
        [_, asked] = await reasons_of(app, job, ReasonCode.RUNNING, ReasonCode.ASKED)
        assert "asked to reschedule" in asked.text


async def test_a_job_whose_worker_died_is_explained(app: Mita, gate: Gate) -> None:
    job = await gate.wait.enqueue()
    store = await app._store()
    # a lease of a millisecond that is not extended
    await store.claim(["default"], 1, 1, "gone")
    [_, over] = await reasons_of(app, job, ReasonCode.RUNNING, ReasonCode.LEASE_OVER)
    assert "its lease expired" in over.text
    assert over.remedy.endswith("start one: mita worker MODULE:APP")


async def test_a_scheduled_job_is_explained(app: Mita, gate: Gate) -> None:
    job = await gate.wait.after(240).enqueue()
    async with running(app, gate):
        [due] = await reasons_of(app, job, ReasonCode.DUE)
    assert "it is due in" in due.text
    assert "it was scheduled for then" in due.text
    assert 0 < due.evidence["in_seconds"] <= 240
    assert due.remedy == f"make it due now: mita reschedule {job.id} --after 0"
    assert due.command == ("reschedule", job.id, "--after", "0")


async def test_a_job_that_waits_for_a_retry_is_explained(app: Mita) -> None:
    @app.task(retry=SOON)
    async def fail() -> None:
        raise RuntimeError("no luck")

    async with working(app, **QUICK):
        [due] = await reasons_of(app, await fail.enqueue(), ReasonCode.DUE)
    assert "retry 1 of 3 after RuntimeError: no luck" in due.text
    assert due.evidence["because"] == "retried"


async def test_a_job_that_its_handler_rescheduled_is_explained(app: Mita) -> None:
    @app.task
    async def later() -> None:
        raise Reschedule(after=240, reason="the file is not there yet")

    async with working(app, **QUICK):
        [due] = await reasons_of(app, await later.enqueue(), ReasonCode.DUE)
    assert "rescheduled by its handler (the file is not there yet)" in due.text


async def test_a_job_that_a_user_rescheduled_is_explained(app: Mita, gate: Gate) -> None:
    job = await gate.wait.enqueue()
    await app.reschedule(job.id, after=240, reason="by Ada: the partner is closed")
    async with running(app, gate):
        [due] = await reasons_of(app, job, ReasonCode.DUE)
    assert "rescheduled from outside (by Ada: the partner is closed)" in due.text


async def test_a_job_that_waits_after_a_crash_is_explained(app: Mita) -> None:
    @app.task(retry=SOON)
    async def work() -> None: ...

    job = await work.enqueue()
    store = await app._store()
    await store.claim(["default"], 1, 1, "gone")
    async with working(app, **QUICK, lease=0.4):
        [due] = await reasons_of(app, job, ReasonCode.DUE)
    assert "its worker died or was cut off (1 crash so far)" in due.text


async def test_a_job_that_was_skipped_for_a_busy_key_is_explained(app: Mita, gate: Gate) -> None:
    async with running(app, gate):
        await reasons_of(app, await gate.charge.enqueue(42), ReasonCode.RUNNING)
        [skipped] = await reasons_of(
            app, await gate.charge.options(when_busy="skip").enqueue(42), ReasonCode.CANCELLED
        )
    assert "cancelled" in skipped.text
    assert ": skipped (account:42 is taken)" in skipped.text


async def test_a_job_whose_key_is_held_is_explained(app: Mita, gate: Gate) -> None:
    async with running(app, gate, name="blue"):
        holder = await gate.charge.enqueue(42)
        [reason] = await reasons_of(
            app,
            holder,
            ReasonCode.RUNNING,
        )
        await until(lambda: says(app, reason.evidence["worker"]))
        waiting = [await gate.charge.enqueue(42) for _ in range(3)]
        for job in waiting:
            await reasons_of(app, job, ReasonCode.KEY_HELD)
        [held] = await app.explain(waiting[-1].id)
    assert f"key 'account:42' is held by job {holder.id} on worker blue" in held.text
    assert "2 ahead of it" in held.text
    assert held.evidence["holders"] == [holder.id]
    assert held.command == ("why", holder.id)


async def test_a_step_that_waits_for_a_step_whose_key_is_held_is_explained(
    app: Mita, gate: Gate
) -> None:
    flow = app.flow("import")
    parts = [flow.add(gate.charge.call(42)) for _ in range(2)]
    last = flow.add(gate.wait.call(), after=[flow.add(gate.wait.call(), after=parts)])
    expected = (ReasonCode.WAITS_FOR_STEPS, ReasonCode.KEY_HELD, ReasonCode.RUNNING)
    async with running(app, gate, name="blue"):
        run = await flow.enqueue()
        step: Handle[None] = Handle(step_id(run.id, last.number), True, app)
        first, held, runs = await reasons_of(app, step, *expected)
        whole: Handle[None] = Handle(run.id, True, app)
        [waits, *_] = await reasons_of(app, whole, *expected)
        counts = (await app.counts())["default"]
    assert first.text == "it waits for 1 of 1 steps: step 3 (wait) is waiting"
    assert held.text.startswith(f"step {held.evidence['step']} (charge): key 'account:42' is held")
    assert held.command == ("why", runs.evidence["id"])
    assert waits.text.startswith("flow 'import' waits for 4 of 4 steps: step")
    assert (counts["waiting"], counts["blocked"], counts["running"]) == (2, 1, 1)


async def test_a_job_whose_key_is_on_hold_is_explained(app: Mita) -> None:
    @app.task(resource="partner")
    async def ask() -> None:
        raise Unavailable(after=240, reason="429")

    async with working(app, **QUICK):
        [reason] = await reasons_of(app, await ask.enqueue(), ReasonCode.KEY_UNAVAILABLE)
        [behind] = await reasons_of(app, await ask.enqueue(), ReasonCode.KEY_UNAVAILABLE)
    assert "key 'partner' is on hold until" in reason.text
    assert "1 ahead of it" in behind.text
    assert reason.remedy.endswith(": mita unhold partner --queue default")


async def test_a_job_of_a_paused_queue_is_explained(app: Mita, gate: Gate) -> None:
    job = await gate.wait.enqueue()
    await app.pause("default")
    async with running(app, gate):
        [paused] = await reasons_of(app, job, ReasonCode.PAUSED)
    assert "queue 'default' has been paused since" in paused.text
    assert "ago" in paused.text
    assert paused.evidence["since"] is not None
    assert paused.remedy == "resume it: mita resume default"


async def test_a_job_of_a_queue_without_a_worker_is_explained(app: Mita, gate: Gate) -> None:
    job = await gate.wait.enqueue()
    [alone] = await reasons_of(app, job, ReasonCode.NO_WORKER)
    assert alone.text == "no worker is alive"
    async with running(app, gate, queues=["mail"]):

        async def other() -> bool:
            return (
                "no live worker serves queue 'default' (they serve mail)"
                in (await app.explain(job.id))[0].text
            )

        await until(other)
        [reason] = await reasons_of(app, job, ReasonCode.NO_WORKER)
    assert reason.remedy == "start one for 'default': mita worker MODULE:APP --queues default"


async def test_a_job_of_an_unknown_task_is_explained(app: Mita, gate: Gate) -> None:
    @app.task
    async def unheard_of() -> None: ...

    job = await unheard_of.enqueue()
    del app.task._registry.known["unheard_of"]  # from here on the worker has older code
    async with running(app, gate):
        [due, unknown] = await reasons_of(app, job, ReasonCode.DUE, ReasonCode.TASK_UNKNOWN)
    assert "no worker that received it has known its task 'unheard_of'" in due.text
    assert "no live worker of queue 'default' knows the task 'unheard_of'" in unknown.text
    assert "deploy" in unknown.remedy
    assert due.remedy == "", "an earlier time would not help"


async def test_a_job_that_waits_for_a_slot_is_explained(app: Mita, gate: Gate) -> None:
    async with running(app, gate, concurrency=1):
        await reasons_of(app, await gate.wait.enqueue(), ReasonCode.RUNNING)
        jobs = [await gate.wait.enqueue() for _ in range(8)]
        [busy] = await reasons_of(app, jobs[-1], ReasonCode.BUSY)
    assert "the only slot of its worker is busy" in busy.text
    assert "ahead of it" in busy.text
    assert busy.evidence["ahead"] >= 1
    assert busy.remedy.endswith("more slots: mita worker MODULE:APP --concurrency 2")


async def test_a_job_that_waits_for_a_thread_is_explained(app: Mita) -> None:
    let_go = threading.Event()

    @app.task
    def block() -> None:
        let_go.wait(60)

    async with working(app, **QUICK, threads=1, lease=1):
        try:
            await reasons_of(app, await block.enqueue(), ReasonCode.RUNNING)
            jobs = [await block.enqueue() for _ in range(3)]
            [busy] = await reasons_of(app, jobs[-1], ReasonCode.BUSY)
            [next_one] = await reasons_of(app, jobs[-2], ReasonCode.BUSY)
        finally:
            let_go.set()
    assert "sync functions use all their threads" in busy.text
    assert "2 jobs ahead of it" in busy.text
    assert "1 job ahead of it" in next_one.text
    assert busy.remedy.endswith("more threads: mita worker MODULE:APP --threads 32")


async def test_a_known_rate_gives_an_estimate(app: Mita, gate: Gate) -> None:
    @app.task
    async def quick() -> None:
        await asyncio.sleep(0.001)

    async with running(app, gate, concurrency=1, lease=0.6):
        await app.enqueue_many([quick.call() for _ in range(50)])
        job = None

        async def estimated() -> bool:
            nonlocal job
            await app.enqueue_many([quick.call() for _ in range(50)])
            job = await gate.wait.options(priority=0).enqueue()
            return any("at the present rate" in reason.text for reason in await app.explain(job.id))

        await until(estimated)


async def test_a_wrong_clock_of_a_worker_is_reported(
    app: Mita, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = SimpleNamespace(time=lambda: time.time() + 70, monotonic=time.monotonic)
    monkeypatch.setattr(lease_keeper, "time", fast)
    job = await gate.wait.after(240).enqueue()
    async with running(app, gate, name="blue", lease=1):
        [_, clock] = await reasons_of(app, job, ReasonCode.DUE, ReasonCode.CLOCK)
    assert "the clock of worker blue is 1 m" in clock.text
    assert "ahead of the store's" in clock.text
    assert clock.evidence["offset_seconds"] == pytest.approx(70, abs=TIMEOUT_S)
    assert "synchronise" in clock.remedy


async def test_a_failed_job_is_explained(app: Mita) -> None:
    @app.task(retry=Retry(max_retries=3, waits=(0.0,)))
    async def fail(job: Job) -> None:
        raise RuntimeError(f"no luck in run {job.attempt}")

    async with working(app, **QUICK):
        [dead] = await reasons_of(app, await fail.enqueue(), ReasonCode.FAILED)
    assert "it failed after 4 failed runs" in dead.text
    assert "the last error was RuntimeError: no luck in run 4" in dead.text
    assert dead.remedy.startswith("correct the cause, then run it again: mita retry ")


async def test_a_job_with_a_unique_key_is_explained(app: Mita, gate: Gate) -> None:
    task = gate.wait.options(unique="one", unique_for=240)
    first, second = await task.enqueue(), await task.enqueue()
    assert (second.created, second.id) == (False, first.id)
    await app.pause("default")
    async with running(app, gate):
        [_, twin] = await reasons_of(app, second, ReasonCode.PAUSED, ReasonCode.TWIN)
        assert "every enqueue with that key returns this job" in twin.text
        await app.resume("default")
        gate.open.set()
        await until_state(app, first.id, "succeeded")
        third = await task.enqueue()
        assert third.id == first.id
        [_, kept] = await reasons_of(app, third, ReasonCode.SUCCEEDED, ReasonCode.TWIN)
        assert "it keeps the unique key 'one' until" in kept.text


async def test_an_ended_job_whose_unique_key_another_job_has_is_explained(
    app: Mita, gate: Gate
) -> None:
    task = gate.wait.options(unique="one")
    first = await task.enqueue()
    await app.cancel(first.id, "not wanted")
    second = await task.enqueue()
    [cancelled, twin] = await reasons_of(app, first, ReasonCode.CANCELLED, ReasonCode.TWIN)
    assert "(not wanted)" in cancelled.text
    assert f"its unique key 'one' now belongs to job {second.id}" in twin.text
