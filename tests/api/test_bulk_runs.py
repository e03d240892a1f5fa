"""Bulk runs: `app.start_bulk`, `app.bulk` and `app.bulks`."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mita import Answer, BulkRecord, LeaseLost, Mita, Retry, UsageError
from mita.client import bulk_work
from mita.client.bulk_work import BulkWork
from mita.model.bulk import ChosenJob
from mita.rules.own_tasks import BULK_TASK
from mita.testing import lab
from tests.waiting import until

from .conftest import working


@pytest.fixture
async def app(url: str) -> AsyncIterator[Mita]:
    async with Mita(url, retry=Retry(max_retries=0)) as app:

        @app.task(queue="mail")
        async def send(to: str, times: int = 1) -> str:
            if times < 0:
                raise ValueError(f"cannot send to {to}")
            return to * times

        @app.task
        async def ship(order: int) -> None:
            raise KeyError(order)

        yield app


async def failed_jobs(app: Mita, n: int = 3) -> list[str]:
    """Failed jobs of `send`, and one of another task."""
    send, ship = app.tasks["send"], app.tasks["ship"]
    ids = [(await send.enqueue(f"{number}", times=-1)).id for number in range(n)]
    other = await ship.enqueue(1)
    async with working(app, concurrency=5):
        await until(lambda: has_states(app, [*ids, other.id], "failed"))
    return ids


async def has_states(app: Mita, ids: list[str], state: str) -> bool:
    records = [await app.get(id) for id in ids]
    return all(record is not None and record.state == state for record in records)


async def has_ended(app: Mita, id: str) -> BulkRecord | None:
    record = await app.bulk(id)
    return record if record is not None and record.finished is not None else None


async def ended(app: Mita, id: str) -> BulkRecord:
    """The bulk run, once it has ended. A worker for its queue alone runs it."""
    async with working(app, queues=["mita.bulk"]):
        await until(lambda: has_ended(app, id))
    record = await app.bulk(id)
    assert record is not None
    return record


async def test_failed_jobs_are_retried_and_the_run_says_how_many(app: Mita) -> None:
    ids = await failed_jobs(app)
    begun = await app.start_bulk("retry", task="send", reason="the server is back")
    assert (begun.verb, begun.filters) == ("retry", {"task": "send", "state": "failed"})
    assert (begun.state, begun.total, begun.done, begun.answers) == ("ready", None, 0, {})
    record = await ended(app, begun.id)
    assert (record.state, record.total, record.done) == ("succeeded", 3, 3)
    assert (record.answers, record.changed, record.error) == ({"done": 3}, 3, None)
    for id in ids:
        job = await app.get(id)
        assert job is not None
        assert (job.state, job.attempts) == ("ready", 0)
        line = job.timeline[-1]
        assert (line.kind, line.note) == ("revived", f"the server is back; bulk run {begun.id}")
    [other] = (await app.jobs(task="ship")).jobs
    assert other.state == "failed"


async def test_arguments_are_corrected_before_the_retry(app: Mita) -> None:
    """Jobs whose arguments do not fit are refused, and stay as they were."""
    ids = await failed_jobs(app)
    begun = await app.start_bulk("retry", arguments={"times": 2}, all=True)
    record = await ended(app, begun.id)
    assert record.answers == {"refused": 1, "done": 3}
    assert "task 'ship': it has no parameter 'times'" in record.refusal
    async with working(app):
        assert [await app.result(id, 10) for id in ids] == ["00", "11", "22"]
    job = await app.get(ids[0])
    assert job is not None
    kinds = [line.kind for line in job.timeline]
    assert kinds.index("failed") < kinds.index("amended") < kinds.index("revived")
    shown = await app.get(begun.id)
    assert shown is not None
    assert shown.arguments is not None
    assert "withheld" in shown.arguments["arguments"], "they may be secret"


async def test_amend_changes_arguments_and_nothing_else(app: Mita) -> None:
    ids = await failed_jobs(app)
    begun = await app.start_bulk("amend", arguments={"times": 5}, task="send", limit=2)
    record = await ended(app, begun.id)
    assert (record.total, record.answers) == (2, {"done": 2})
    jobs = [await app.get(id) for id in sorted(ids)]
    assert [job and job.arguments and job.arguments["times"] for job in jobs] == [-1, 5, 5]
    assert {job and job.state for job in jobs} == {"failed"}


async def test_jobs_are_cancelled_rescheduled_and_deleted(app: Mita) -> None:
    send = app.tasks["send"]
    ids = [(await send.after(60).enqueue("Ada")).id for _ in range(3)]
    moved = await ended(app, (await app.start_bulk("reschedule", queue="mail", after=3600)).id)
    assert moved.answers == {"done": 3}
    cancelled = await ended(app, (await app.start_bulk("cancel", queue="mail", limit=2)).id)
    assert cancelled.answers == {"done": 2}
    states = [(job := await app.get(id)) and job.state for id in sorted(ids)]
    assert states == ["scheduled", "cancelled", "cancelled"], "the newest first"
    deleted = await ended(app, (await app.start_bulk("delete", all=True)).id)
    assert deleted.answers == {"done": 2}, "what has ended, except bulk runs"
    page = await app.bulks(limit=2)
    assert [one.verb for one in page.bulks] == ["delete", "cancel"]
    assert [one.verb for one in (await app.bulks(after=page.after)).bulks] == ["reschedule"]


async def test_only_jobs_that_matched_when_it_began_are_changed(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that fails after the choice is not chosen; one that was retried by hand meanwhile is
    left alone, also if it has failed again."""
    ids = await failed_jobs(app)
    whole = BulkWork._choose

    async def choose(work: BulkWork) -> Any:
        chosen = await whole(work)
        await app.retry(ids[0])
        await app.retry(ids[1])
        late = await app.tasks["send"].enqueue("late", times=-1)
        async with working(app, queues=["mail"]):
            await until(lambda: has_states(app, [ids[0], ids[1], late.id], "failed"))
        await app.amend(ids[1], arguments={"times": 1})
        return chosen

    monkeypatch.setattr(BulkWork, "_choose", choose)
    record = await ended(app, (await app.start_bulk("retry", task="send")).id)
    assert (record.total, record.answers) == (3, {"done": 1, "too late": 2})
    assert await has_states(app, ids[:2], "failed")
    assert await has_states(app, ids[2:], "ready")


async def test_a_run_that_dies_between_two_writes_changes_nothing_twice(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after the change and before the count, after each batch. The jobs run and fail again
    meanwhile. Each is retried once, and counted once."""
    monkeypatch.setattr(bulk_work, "tick_jobs", lambda _: 2)
    ids = await failed_jobs(app, 7)
    whole, deaths = BulkWork._report, set[int]()

    async def report(work: BulkWork, done: int, total: int | None, message: str = "") -> None:
        if total is not None and done and done not in deaths:
            deaths.add(done)
            raise LeaseLost("it died here")
        await whole(work, done, total, message)

    monkeypatch.setattr(BulkWork, "_report", report)
    begun = await app.start_bulk("retry", task="send")
    async with working(app):
        await until(lambda: has_ended(app, begun.id), within=60)
        await until(lambda: has_states(app, ids, "failed"))
    record = await app.bulk(begun.id)
    assert record is not None
    assert (record.total, record.done, record.answers) == (7, 7, {"done": 7})
    assert deaths == {2, 4, 6, 7}
    for id in ids:
        job = await app.get(id)
        assert job is not None
        kinds = [line.kind for line in job.timeline]
        assert kinds.count("revived") == 1, kinds


async def test_a_choice_that_was_half_stored_is_completed(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run dies while it chooses; chunks that are stored are not chosen again."""
    monkeypatch.setattr(bulk_work, "CHUNK_JOBS", 3)
    monkeypatch.setattr(bulk_work, "CALL_JOBS", 2)
    ids = await failed_jobs(app, 8)
    whole, stored = BulkWork._store_chunk, list[int]()

    async def store_chunk(work: BulkWork, number: int, chunk: list[ChosenJob]) -> list[ChosenJob]:
        await whole(work, number, chunk)
        if number not in stored:
            stored.append(number)
            raise LeaseLost("it died here")
        raise AssertionError("chosen twice")

    monkeypatch.setattr(BulkWork, "_store_chunk", store_chunk)
    record = await ended(app, (await app.start_bulk("retry", task="send")).id)
    assert (record.total, record.answers, stored) == (8, {"done": 8}, [0, 1, 2])
    assert await has_states(app, ids, "ready")


async def test_a_run_can_be_stopped_and_goes_on_when_it_is_retried(app: Mita) -> None:
    ids = await failed_jobs(app, 4)
    begun = await app.start_bulk("retry", rate=2.5, task="send")
    async with working(app, queues=["mita.bulk"]):

        async def some_done() -> bool:
            record = await app.bulk(begun.id)
            return record is not None and record.done >= 1

        await until(some_done)
        assert await app.cancel(begun.id) is Answer.ASKED
        await until(lambda: has_ended(app, begun.id))
        stopped = await app.bulk(begun.id)
        assert stopped is not None
        assert stopped.state == "cancelled"
        assert 1 <= stopped.done < 4
        await app.retry(begun.id)
        await until(lambda: has_ended(app, begun.id))
    record = await app.bulk(begun.id)
    assert record is not None
    assert (record.state, record.done, record.answers) == ("succeeded", 4, {"done": 4})
    assert await has_states(app, ids, "ready")


async def test_a_lab_runs_it_like_any_job(app: Mita) -> None:
    async with lab(app) as here:
        ids = [(await app.tasks["send"].enqueue("Ada", times=-1)).id for _ in range(3)]
        await here.drain(raises=False)
        begun = await app.start_bulk("retry", arguments={"times": 1}, task="send")
        await here.drain()
        record = await app.bulk(begun.id)
        assert record is not None
        assert record.answers == {"done": 3}
        assert [await app.result(id, 1) for id in ids] == ["Ada"] * 3
        assert all(job.task != BULK_TASK for job in here.enqueued())


async def test_bulk_runs_are_no_jobs_of_the_user(app: Mita) -> None:
    """Other bulk operations leave them alone, unless their task is named."""
    await app.start_bulk("retry", rate=1, task="send")
    assert (await app.cancel_many(all=True)).matched == 0
    assert (await app.cancel_many(task=BULK_TASK, dry_run=True)).matched == 1
    record = await ended(app, (await app.start_bulk("cancel", queue="mita.bulk")).id)
    assert record.total == 0
    assert BULK_TASK not in app.tasks
    assert await app.bulk("nope") is None


WRONG: dict[str, tuple[Any, list[str]]] = {
    "no filter": ({"verb": "cancel"}, ["no filter was given", "all=True"]),
    "a verb": ({"verb": "kill", "all": True}, ["verb='kill'", "retry, cancel"]),
    "no rate": ({"rate": 0, "all": True}, ["rate=0"]),
    "an endless rate": ({"rate": float("inf"), "all": True}, ["rate=inf"]),
    "a limit": ({"limit": 0.5, "all": True}, ["limit=0.5"]),
    "a filter": ({"que": "x"}, ["unknown filter 'que'", "did you mean 'queue'?"]),
    "a state": ({"state": "running"}, ["only failed, cancelled jobs can be retried"]),
    "a time": ({"verb": "cancel", "after": 5, "all": True}, ["for retry and reschedule"]),
    "no time": ({"verb": "reschedule", "all": True}, ["at=", "after="]),
    "no arguments": ({"verb": "amend", "all": True}, ["amend changes arguments"]),
    "empty arguments": ({"arguments": {}, "all": True}, ["arguments={}"]),
    "arguments": ({"verb": "cancel", "arguments": {"a": 1}, "all": True}, ["for retry and amend"]),
    "a type": ({"arguments": {"times": "x"}, "task": "send"}, ["parameter 'times'"]),
    "a name": ({"arguments": {"time": 1}, "task": "send"}, ["did you mean 'times'?"]),
}


@pytest.mark.parametrize("what", WRONG)
async def test_wrong_choices_are_refused_and_nothing_is_stored(app: Mita, what: str) -> None:
    given, words = WRONG[what]
    with pytest.raises(UsageError) as caught:
        await app.start_bulk(**{"verb": "retry", **given})
    for word in words:
        assert word in str(caught.value)
    assert (await app.bulks()).bulks == ()
