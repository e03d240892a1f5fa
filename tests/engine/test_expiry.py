"""Jobs that expire, deadlines and limits of reschedules, on every store with real workers."""

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mita import Every, Job, JobCancelled, JobFailed, Mita, Reschedule, Retry
from mita.engine.worker import Worker
from mita.model.event import Kind
from mita.model.job import Claim
from mita.rules.explain.evidence import ReasonCode
from mita.rules.moves import FREE_MOVES
from mita.tasks import Handle
from tests.waiting import until

from .conftest import until_state, working

SOON = 0.2  # seconds until a job of these tests expires
QUICK = {"poll": 0.05, "schedule": False}


async def expired(app: Mita, job: Handle[Any]) -> None:
    """Wait until the job has expired, by the store's clock."""

    async def says_so() -> bool:
        return ReasonCode.EXPIRED in [reason.code for reason in await app.explain(job.id)]

    await until(says_so)


# ---------------------------------------------------------------- expires


async def test_an_expired_job_is_never_started(app: Mita) -> None:
    ran: list[int] = []
    seen: list[tuple[Kind, str]] = []

    @app.task(expires=SOON)
    async def send(n: int) -> None:
        ran.append(n)

    listening = app.listen(lambda events: seen.extend((event.kind, event.id) for event in events))
    late = await send.enqueue(1)
    await expired(app, late)
    async with working(app, **QUICK):
        with pytest.raises(JobCancelled, match=r"expired: not started within 0.2 s"):
            await late.result(timeout=20)
        endless = await send.options(expires=None).enqueue(2)
        await endless.result(timeout=20)
        await until(lambda: (Kind.SUCCEEDED, endless.id) in seen)
    listening.stop()
    record = await app.get(late.id)
    assert record is not None
    assert (record.state, record.attempts, record.interruptions) == ("cancelled", 0, 0)
    assert (record.expires, record.started, record.error) == (SOON, None, None)
    assert "expired" in [line.kind for line in record.timeline]
    assert "started" not in [line.kind for line in record.timeline]
    [reason] = await app.explain(late.id)
    assert "expired (not started within 0.2 s of its due time)" in reason.text
    assert ran == [2]
    assert [kind for kind, id in seen if id == late.id] == [Kind.ENQUEUED, Kind.EXPIRED]


async def test_a_retried_job_that_had_expired_runs(app: Mita) -> None:
    @app.task(expires=SOON)
    async def send() -> str:
        return "sent"

    late = await send.enqueue()
    await expired(app, late)
    async with working(app, **QUICK):
        await until_state(app, late.id, "cancelled")
        # for as long as it takes: on a busy machine it may expire again
        await until(lambda: retried(app, late))
        assert await late.result(timeout=20) == "sent"


async def retried(app: Mita, job: Handle[Any]) -> bool:
    record = await app.get(job.id)
    assert record is not None
    if record.state == "cancelled":
        await app.retry(job.id)
    return record.state == "succeeded"


async def test_an_expired_job_of_a_paused_queue_ends_when_a_worker_looks_at_it(app: Mita) -> None:
    @app.task(queue="slow", expires=SOON)
    async def send() -> None: ...

    await app.pause("slow")
    late = await send.enqueue()
    await expired(app, late)
    async with working(app, **QUICK):
        first, *others = await app.explain(late.id)
        assert first.code is ReasonCode.EXPIRED
        assert "it ends as soon as a worker looks at it" in first.text
        assert ReasonCode.PAUSED in [reason.code for reason in others]
        await app.resume("slow")
        with pytest.raises(JobCancelled, match="expired"):
            await late.result(timeout=20)


async def test_an_expired_job_behind_a_key_ends_when_its_turn_comes(app: Mita) -> None:
    gate, ran = asyncio.Event(), []

    @app.task(resource="partner")
    async def charge(n: int) -> None:
        ran.append(n)
        await gate.wait()

    async with working(app, **QUICK):
        first = await charge.enqueue(1)
        await until(lambda: ran)
        late = await charge.options(expires=SOON).enqueue(2)
        await until_state(app, late.id, "blocked")
        await expired(app, late)
        last = await charge.enqueue(3)
        gate.set()
        with pytest.raises(JobCancelled, match="expired"):
            await late.result(timeout=20)
        await first.result(timeout=20)
        await last.result(timeout=20)
    assert ran == [1, 3]


async def test_a_worker_that_does_not_know_the_task_ends_an_expired_job(tmp_path: Path) -> None:
    mine, other = (Mita(f"sqlite:///{tmp_path / 'jobs.db'}") for _ in range(2))

    @mine.task(expires=SOON)
    async def send() -> None: ...

    @other.task
    async def another() -> None: ...

    async with mine, other:
        late = await send.enqueue()
        await expired(mine, late)
        async with working(other, **QUICK):
            with pytest.raises(JobCancelled, match="expired"):
                await late.result(timeout=20)


async def test_jobs_of_a_repeat_expire_too(app: Mita) -> None:
    @app.task
    async def tick() -> None: ...

    app.repeats(Every(3600), key="tick")(tick)
    await app.repeat("often", tick.options(expires=SOON, deadline=60).call(), Every(0.01), limit=1)
    async with working(app, queues=["nothing"], poll=0.05):
        [made] = await until(lambda: jobs_of(app, "often"))
    assert (made.expires, made.deadline) == (SOON, 60)
    await expired(app, Handle(made.id, True, app))
    async with working(app, **QUICK):
        record = await until_state(app, made.id, "cancelled")
    assert record.timeline[-2].kind == "expired"


async def jobs_of(app: Mita, repeat: str) -> Any:
    return (await app.jobs(repeat=repeat)).jobs


# ---------------------------------------------------------------- while a claim waits in a worker


async def claimed(worker: Worker, queue: str) -> Claim:
    """Claim a job of a queue that the worker does not serve, and give it to its executor."""
    store = worker._executor._context.store
    [claim] = (await store.claim([queue], 1, 30_000, worker.id)).claims
    worker._executor.start([claim], time.monotonic() + 30)
    return claim


async def test_a_claim_that_expires_while_it_waits_for_a_slot_is_not_started(app: Mita) -> None:
    gate, ran = asyncio.Event(), []

    @app.task
    async def fill() -> None:
        ran.append("filler")
        await gate.wait()

    @app.task(queue="aside", expires=SOON)
    async def send() -> None:
        ran.append("late")

    async with working(app, queues=["default"], concurrency=1, poll=60.0) as worker:
        filler = await fill.enqueue()
        await until(lambda: ran)
        late = await send.enqueue()
        await claimed(worker, "aside")
        assert [waiting.claim.id for waiting in worker._executor.waiting] == [late.id]
        store = worker._executor._context.store
        due = (await store.find([late.id]))[0].due  # type: ignore[union-attr]
        await until(lambda: is_past(store, due + 1000 * SOON))
        gate.set()
        with pytest.raises(JobCancelled, match="expired"):
            await late.result(timeout=20)
        await filler.result(timeout=20)
        await (await fill.enqueue()).result(timeout=20)  # the slot is free again
    assert ran == ["filler", "filler"]


async def test_a_claim_that_expires_while_it_waits_for_a_thread_is_not_started(app: Mita) -> None:
    gate, ran = threading.Event(), []
    seen: list[tuple[Kind, str]] = []

    @app.task
    def fill() -> None:
        ran.append("filler")
        gate.wait(60)

    @app.task(queue="aside", expires=SOON)
    def send() -> None:
        ran.append("late")

    listening = app.listen(lambda events: seen.extend((event.kind, event.id) for event in events))
    async with working(app, queues=["default"], threads=1, poll=60.0) as worker:
        try:
            filler = await fill.enqueue()
            await until(lambda: ran)
            late = await send.enqueue()
            claim = await claimed(worker, "aside")
            assert not worker._executor.waiting, "it has a slot, and waits for a thread"
            store = worker._executor._context.store
            worker._executor.emit_started()
            await until(lambda: is_past(store, claim.due + 1000 * SOON))
        finally:
            gate.set()
        with pytest.raises(JobCancelled, match="expired"):
            await late.result(timeout=20)
        await filler.result(timeout=20)
        in_time = await send.options(queue="default", expires=60).enqueue()
        await in_time.result(timeout=20)
        await until(lambda: (Kind.SUCCEEDED, in_time.id) in seen)
    listening.stop()
    assert ran == ["filler", "late"]
    assert [kind for kind, id in seen if id == late.id] == [Kind.ENQUEUED, Kind.EXPIRED]
    whole = [Kind.ENQUEUED, Kind.STARTED, Kind.SUCCEEDED]
    assert [kind for kind, id in seen if id == in_time.id] == whole


async def is_past(store: Any, moment: float) -> bool:
    return bool(await store.now() > moment + 1)


# ---------------------------------------------------------------- deadline


async def test_an_async_handler_is_stopped_at_its_deadline_and_can_be_retried(app: Mita) -> None:
    slow = [True]

    @app.task(deadline=0.3, retry=Retry(max_retries=5, waits=(0.0,)))
    async def crawl() -> str:
        if slow[0]:
            await asyncio.sleep(600)
        return "done"

    async with working(app, **QUICK):
        job = await crawl.enqueue()
        with pytest.raises(JobFailed, match="DeadlineExceeded: its run was stopped"):
            await job.result(timeout=20)
        record = await app.get(job.id)
        assert record is not None
        assert (record.state, record.attempts, record.deadline) == ("failed", 1, 0.3)
        slow[0] = False

        async def done() -> bool:
            """For as long as it takes: a busy machine may not start it within its deadline."""
            record = await app.get(job.id)
            assert record is not None
            if record.state == "failed":
                await app.retry(job.id)
            return record.state == "succeeded"

        await until(done)


async def test_a_handler_on_a_thread_is_told_at_its_deadline(app: Mita) -> None:
    @app.task(deadline=0.3)
    def crawl(job: Job) -> None:
        while not job.cancelled:
            time.sleep(0.01)

    async with working(app, **QUICK):
        job = await crawl.enqueue()
        with pytest.raises(JobFailed, match="DeadlineExceeded: its run was stopped"):
            await job.result(timeout=20)


async def test_a_retry_behind_the_deadline_is_not_waited_for(app: Mita) -> None:
    @app.task(deadline=60, retry=Retry(max_retries=5, waits=(600.0,)))
    async def fragile() -> None:
        raise ValueError("no luck")

    async with working(app, **QUICK):
        job = await fragile.enqueue()
        with pytest.raises(JobFailed, match=r"DeadlineExceeded: its next run, in 600 s"):
            await job.result(timeout=20)
    record = await app.get(job.id)
    assert record is not None
    assert "ValueError: no luck" in (record.error or "")
    assert [failure.type for failure in record.failures] == ["DeadlineExceeded"]


async def test_a_deadline_is_counted_from_the_time_that_the_enqueue_gave(app: Mita) -> None:
    @app.task(deadline=60)
    async def send() -> str:
        return "sent"

    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    async with working(app, **QUICK):
        for job in (await send.after(0.3).enqueue(), await send.at(soon).enqueue()):
            assert await job.result(timeout=20) == "sent"


# ---------------------------------------------------------------- reschedules


async def test_a_handler_that_keeps_moving_itself_fails_at_its_limit(app: Mita) -> None:
    runs = []

    @app.task(max_reschedules=2)
    async def poll(job: Job) -> None:
        runs.append(job.reschedules)
        raise Reschedule(after=0.01)

    async with working(app, **QUICK):
        job = await poll.enqueue()
        with pytest.raises(JobFailed, match=r"TooManyReschedules.*max_reschedules is 2"):
            await job.result(timeout=20)
    record = await app.get(job.id)
    assert record is not None
    assert (record.reschedules, record.attempts, record.max_reschedules) == (2, 0, 2)
    assert runs == [0, 1, 2]


async def test_a_handler_that_spins_is_slowed_and_named_once(
    app: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mita.worker")

    @app.task
    async def spin() -> None:
        raise Reschedule(after=0)

    async with working(app, **QUICK):
        jobs = [await spin.enqueue() for _ in range(2)]

        async def slowed() -> bool:
            records = [await app.get(job.id) for job in jobs]
            return all(record and record.reschedules > FREE_MOVES for record in records)

        await until(slowed)

        async def explained() -> bool:
            return ReasonCode.SLOWED in [reason.code for reason in await app.explain(jobs[0].id)]

        await until(explained)
    lines = [line for line in caplog.records if getattr(line, "event", "") == "slowed"]
    assert len(lines) == 1
    text = lines[0].getMessage()
    assert "of spin " in text
    assert any(job.id in text for job in jobs)
