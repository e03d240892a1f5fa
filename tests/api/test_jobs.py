"""Enqueue, wait, inspect, reschedule, cancel and retry, on an ordinary app."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mita import Abort, Job, JobCancelled, JobFailed, Mita, MitaError, Reschedule, Retry, UsageError
from mita.client.enqueue import fit_together, in_parts
from mita.model.outcome import Answer
from mita.tasks import Handle

from .conftest import total, working


async def test_a_job_runs_and_its_result_has_its_type(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task
    def add(a: int, b: int = 2) -> int:
        return a + b

    async with working(app):
        first = await greet.enqueue("Ada")
        second = await add.enqueue(1)
        assert await first.result(10) == "hello Ada"
        assert await second.result(10) == 3
    assert first.created


async def test_a_task_can_be_called_like_its_function(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    assert await greet("Ada") == "hello Ada"
    assert await total(app) == 0


async def test_a_new_default_does_not_change_the_arguments_of_waiting_jobs(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with Mita(url) as before:

        @before.task(name="charge")
        async def old(account: int, cents: int = 100) -> int:
            return cents

        passed, left_out = await old.enqueue(1, cents=100), await old.enqueue(2)
    async with Mita(url) as after:

        @after.task(name="charge")
        async def new(account: int, cents: int = 250) -> int:
            return cents

        async with working(after):
            assert await after.result(passed.id, 10) == 100
            assert await after.result(left_out.id, 10) == 250


async def test_a_job_waits_for_its_due_time(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> None: ...

    later = await greet.after(60).enqueue("Ada")
    moment = datetime.now(UTC) + timedelta(hours=1)
    at = await greet.at(moment).enqueue("Bo")
    past = await greet.at(datetime(2001, 1, 1, tzinfo=UTC)).enqueue("Cy")
    records = [await job.get() for job in (later, at, past)]
    assert [record.state for record in records if record] == ["scheduled", "scheduled", "ready"]
    assert records[1] is not None
    assert abs(records[1].due - moment) < timedelta(milliseconds=2)


async def test_options_of_a_job_override_those_of_its_task(app: Mita) -> None:
    @app.task(queue="mail", priority=3, resource="to:{to}", unique="{to}/{subject}")
    async def send(to: str, subject: str = "hi") -> None: ...

    job = await send.enqueue("ada")
    record = await job.get()
    assert record is not None
    assert (record.queue, record.priority, record.resource, record.unique) == (
        "mail",
        3,
        "to:ada",
        "ada/hi",
    )
    job = await send.options(queue="fast", priority=9, resource=None, unique="u").enqueue("ada")
    record = await job.get()
    assert record is not None
    assert (record.queue, record.priority, record.resource, record.unique) == ("fast", 9, None, "u")


async def test_a_second_enqueue_of_a_unique_key_returns_the_first_job(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> None: ...

    first = await greet.options(unique="ada").enqueue("Ada")
    twin = await greet.options(unique="ada").enqueue("Ada")
    assert (twin.id, twin.created) == (first.id, False)
    assert await total(app) == 1


async def test_jobs_of_one_call_keep_their_order(app: Mita) -> None:
    @app.task
    async def number(n: int) -> int:
        return n

    handles = await app.enqueue_many(number.call(n) for n in range(2500))
    assert len({handle.id for handle in handles}) == await total(app) == 2500
    record = await handles[1234].get()
    assert record is not None
    assert record.arguments == {"n": 1234}
    assert await app.enqueue_many([]) == []


async def test_a_failed_job_raises_its_error_and_can_be_retried(app: Mita) -> None:
    broken = [True]

    @app.task(retry=Retry(max_retries=1, base=0.001))
    async def fragile() -> str:
        if broken[0]:
            raise RuntimeError("it broke")
        return "fixed"

    async with working(app):
        job = await fragile.enqueue()
        with pytest.raises(JobFailed, match="RuntimeError: it broke") as caught:
            await job.result(10)
        assert caught.value.id == job.id
        record = await job.get()
        assert record is not None
        assert (record.state, record.attempts) == ("failed", 2)
        assert [line.kind for line in record.timeline] == [
            "created",
            "retried",
            "started",
            "failed",
        ]
        broken[0] = False
        assert await app.retry(job.id) is Answer.DONE
        assert await job.result(10) == "fixed"
        assert await app.retry(job.id) is Answer.TOO_LATE


async def test_a_final_error_and_an_abort_fail_at_once(app: Mita) -> None:
    @app.task(final=ValueError)
    async def wrong() -> None:
        raise ValueError("no use")

    @app.task
    async def pointless() -> None:
        raise Abort("give up")

    async with working(app):
        for task in (wrong, pointless):
            job = await task.enqueue()
            with pytest.raises(JobFailed):
                await job.result(10)
            record = await job.get()
            assert record is not None
            assert record.attempts == 1


async def test_a_cancelled_job_says_why(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> None: ...

    job = await greet.enqueue("Ada")
    assert await app.cancel(job.id, "changed our mind") is Answer.DONE
    with pytest.raises(JobCancelled, match="changed our mind"):
        await job.result()
    record = await job.get()
    assert record is not None
    assert [(line.kind, line.note) for line in record.timeline] == [
        ("created", ""),
        ("cancelled", "changed our mind"),
    ]
    assert await app.cancel(job.id) is Answer.TOO_LATE
    assert await app.retry(job.id) is Answer.DONE


async def test_a_job_can_be_rescheduled_from_outside_and_by_its_handler(app: Mita) -> None:
    @app.task
    async def patient(job: Job) -> int | Reschedule:
        return Reschedule(after=0.01) if job.reschedules < 3 else job.attempt

    job = await patient.after(3600).enqueue()
    assert await app.reschedule(job.id, after=0) is Answer.DONE
    async with working(app):
        assert await job.result(10) == 1
    record = await job.get()
    assert record is not None
    assert (record.reschedules, record.attempts) == (3, 0)


async def test_a_priority_can_be_changed(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> None: ...

    job = await greet.enqueue("Ada")
    assert await app.prioritise(job.id, 9) is Answer.DONE
    record = await job.get()
    assert record is not None
    assert record.priority == 9


async def test_waiting_for_a_result_times_out_and_the_job_continues(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> None: ...

    job = await greet.enqueue("Ada")
    with pytest.raises(TimeoutError, match=r"still queued after 0.03 s"):
        await job.result(0.03)
    with pytest.raises(TimeoutError):
        await job.result(0)


async def test_a_deleted_job_has_no_result(url: str) -> None:
    async with Mita(url, keep=0) as app:

        @app.task
        async def greet(name: str) -> None: ...

        job = await greet.enqueue("Ada")
        async with working(app):
            with pytest.raises(MitaError, match="keep="):
                await job.result(10)
        assert await job.get() is None


async def test_counts_have_every_state_of_every_queue(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> None: ...

    await greet.enqueue("Ada")
    await greet.after(60).enqueue("Bo")
    await greet.options(queue="other").enqueue("Cy")
    await app.chain(greet.call("Di"), greet.call("Ed"), greet.call("Fay")).enqueue()
    nothing = {
        "waiting": 0,
        "scheduled": 0,
        "ready": 0,
        "blocked": 0,
        "running": 0,
        "succeeded": 0,
        "failed": 0,
        "cancelled": 0,
    }
    assert await app.counts() == {
        "default": {**nothing, "waiting": 2, "scheduled": 2, "ready": 2},  # and the flow itself
        "other": {**nothing, "ready": 1},
    }


async def test_pages_are_newest_first_and_obey_the_filter(app: Mita) -> None:
    @app.task
    async def number(n: int) -> None: ...

    handles = [(await number.enqueue(n)).id for n in range(5)]
    await number.after(60).enqueue(9)
    first = await app.jobs(state="ready", limit=3)
    rest = await app.jobs(state="ready", limit=3, after=first.after)
    assert sorted(job.id for job in first.jobs + rest.jobs) == sorted(handles)
    assert rest.after is None
    assert [job.arguments for job in (await app.jobs(state="scheduled")).jobs] == [{"n": 9}]
    assert (await app.jobs(queue="nobodys")).jobs == ()


async def test_jobs_of_a_paused_queue_and_of_a_held_key_wait(app: Mita) -> None:
    @app.task(queue="mail", resource="key")
    async def send() -> str:
        return "sent"

    await app.pause("mail")
    job = await send.enqueue()
    async with working(app, poll=0.05):
        with pytest.raises(TimeoutError):
            await job.result(0.1)
        await app.hold("key", after=60)
        await app.resume("mail")
        with pytest.raises(TimeoutError):
            await job.result(0.1)
        await app.unhold("key")
        assert await job.result(10) == "sent"


async def test_a_handler_can_report_progress_and_use_once(app: Mita) -> None:
    ran: list[str] = []

    @app.task(retry=Retry(max_retries=2, base=0.001))
    async def careful(job: Job) -> int:
        async def charge() -> int:
            ran.append(job.id)
            return 42

        await job.progress(job.attempt, 3, "on the way")
        paid = await job.once("charged", charge)
        if job.attempt < 3:
            raise RuntimeError("again")
        return paid

    @app.task(retry=Retry(max_retries=2, base=0.001))
    def careful_too(job: Job) -> int:
        def charge() -> int:
            ran.append(job.id)
            return 7

        paid = job.once_sync("charged", charge)
        job.progress_sync(1)
        if job.attempt < 3:
            raise RuntimeError("again")
        return paid

    async with working(app):
        first, second = await careful.enqueue(), await careful_too.enqueue()
        assert await first.result(10) == 42
        assert await second.result(10) == 7
    assert sorted(ran) == sorted([first.id, second.id])
    record = await first.get()
    assert record is not None
    assert record.progress == (3, 3, "on the way")


async def test_a_job_of_one_event_loop_can_be_read_in_another(app: Mita) -> None:
    @app.task
    async def greet(name: str) -> str:
        return name

    job: Handle[str] = await asyncio.to_thread(greet.enqueue_sync, "Ada")
    async with working(app):
        assert await job.result(10) == "Ada"
    assert await asyncio.to_thread(job.result_sync, 10) == "Ada"
    [many] = await asyncio.to_thread(app.enqueue_many_sync, [greet.after(60).call("Bo")])
    assert await asyncio.to_thread(lambda: app.reschedule_sync(many.id, after=90)) is Answer.DONE
    assert await asyncio.to_thread(app.cancel_sync, many.id) is Answer.DONE
    assert await asyncio.to_thread(app.retry_sync, many.id) is Answer.DONE
    record = await asyncio.to_thread(app.get_sync, many.id)
    assert record is not None
    assert record.state == "ready"


def test_many_jobs_are_sent_in_parts_that_every_store_accepts() -> None:
    app = Mita("memory://", payload_limit=20_000_000)

    @app.task
    async def keep(text: str) -> None: ...

    large, largest, small = keep.call("x" * 1_000_000), keep.call("x" * 17_000_000), keep.call("x")
    calls = [*[large] * 40, largest, *[small] * 2500]
    parts = list(in_parts(calls))
    assert [job.payload for part in parts for job in part] == [call.payload for call in calls]
    assert [len(part) for part in parts] == [15, 15, 10, 1, 1000, 1000, 500]
    assert not fit_together(calls[:60])
    assert fit_together(calls[-1000:])


async def test_a_failed_job_can_be_retried_at_a_given_time(app: Mita) -> None:
    @app.task
    async def send() -> None: ...

    jobs = [await send.enqueue() for _ in range(3)]
    for job in jobs:
        await app.cancel(job.id)
    assert await app.retry(jobs[0].id, after=60, reason="by Ada") is Answer.DONE
    assert await app.retry(jobs[1].id, at=datetime(2040, 1, 1, tzinfo=UTC)) is Answer.DONE
    assert await app.reschedule(jobs[2].id, after=60) is Answer.DONE
    records = [await app.get(job.id) for job in jobs]
    assert [record.state.value for record in records if record] == ["scheduled"] * 3
    assert records[1] is not None
    assert records[1].due == datetime(2040, 1, 1, tzinfo=UTC)
    with pytest.raises(UsageError, match="not both"):
        await app.retry(jobs[0].id, at=datetime(2040, 1, 1, tzinfo=UTC), after=1)
    for job in jobs:
        await app.cancel(job.id)
    assert (await app.retry_many(state="cancelled", after=60)).answers == {Answer.DONE: 3}
    assert (await app.counts())["default"]["scheduled"] == 3
