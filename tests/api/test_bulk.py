"""Changes to all jobs that match a filter at the start of the call."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mita import Abort, Answer, BulkResult, Job, Mita, UsageError
from mita.model.outcome import Answer as StoreAnswer
from mita.model.outcome import Change
from mita.stores.memory.store import MemoryStore
from tests.waiting import until

from .conftest import total, working


@pytest.fixture
async def send(app: Mita) -> Any:
    @app.task(queue="mail", resource="to:{to}")
    async def send(to: str, n: int = 0) -> int:
        if to == "nobody":
            raise Abort("no such address")
        return n

    return send


async def many(app: Mita, task: Any, n: int, **more: Any) -> list[str]:
    jobs = await app.enqueue_many(task.call(f"a{number}", **more) for number in range(n))
    return [job.id for job in jobs]


async def ended(app: Mita, task: Any) -> None:
    """Three failed and two succeeded jobs."""
    jobs = await app.enqueue_many(
        [*(task.call("nobody") for _ in range(3)), *(task.call(f"a{n}") for n in range(2))]
    )

    async def all_ended() -> bool:
        states = [record.state for job in jobs if (record := await job.get())]
        return sorted(states) == ["failed"] * 3 + ["succeeded"] * 2

    async with working(app):
        await until(all_ended, within=60)


async def test_only_the_jobs_that_match_are_cancelled(app: Mita, send: Any) -> None:
    @app.task(queue="other")
    async def other() -> None: ...

    await many(app, send, 5)
    kept = [await other.enqueue(), await send.after(60).enqueue("late")]
    assert await app.cancel_many(queue="mail", state="ready", reason="too many") == BulkResult(
        5, {Answer.DONE: 5}
    )
    assert [record.state for job in kept if (record := await job.get())] == ["ready", "scheduled"]
    [cancelled, *_] = (await app.jobs(state="cancelled")).jobs
    record = await app.get(cancelled.id)
    assert record is not None
    assert [line.note for line in record.timeline if line.kind == "cancelled"] == ["too many"]


async def test_many_jobs_are_changed_in_batches(app: Mita, send: Any) -> None:
    seen: list[tuple[int, int]] = []
    await many(app, send, 2300)
    result = await app.cancel_many(queue="mail", progress=lambda done, of: seen.append((done, of)))
    assert (result.matched, result.done) == (2300, 2300)
    assert seen == [(1000, 2300), (2000, 2300), (2300, 2300)]
    assert (await app.counts())["mail"]["cancelled"] == 2300


async def test_the_store_is_called_once_for_each_batch_and_not_for_each_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, sizes = MemoryStore.amend, []

    async def amend(store: MemoryStore, ids: Sequence[str], change: Change) -> list[StoreAnswer]:
        sizes.append(len(ids))
        return await whole(store, ids, change)

    async def find(store: MemoryStore, ids: Sequence[str]) -> Any:
        raise AssertionError("a job was looked at by itself")

    monkeypatch.setattr(MemoryStore, "amend", amend)
    async with Mita("memory://") as app:

        @app.task
        async def number(n: int) -> None: ...

        kinds: list[str] = []
        listening = app.listen(
            lambda events: kinds.extend(event.kind for event in events), ["cancelled"]
        )
        await app.enqueue_many(number.call(n) for n in range(1500))
        monkeypatch.setattr(MemoryStore, "find", find)
        assert (await app.cancel_many(all=True)).done == 1500
        assert sizes == [1000, 500]
        await until(lambda: asyncio.sleep(0, len(kinds) == 1500))
        listening.stop()


async def test_jobs_that_are_enqueued_later_are_not_changed(app: Mita, send: Any) -> None:
    """The ids are fixed when the call begins."""
    await many(app, send, 3)

    def one_more(_: int) -> bool:
        late.append(send.call("late"))
        return True

    late: list[Any] = []
    result = await app.cancel_many(queue="mail", confirm=one_more)
    [job] = await app.enqueue_many(late)
    assert result.matched == 3
    record = await job.get()
    assert record is not None
    assert record.state == "ready"


async def test_a_dry_run_and_a_refusal_only_count(app: Mita, send: Any) -> None:
    await many(app, send, 3)
    assert await app.cancel_many(queue="mail", dry_run=True) == BulkResult(3)
    assert await app.cancel_many(queue="mail", confirm=lambda n: n < 3) == BulkResult(3)
    assert await app.cancel_many(queue="nosuch") == BulkResult(0)
    assert (await app.counts())["mail"]["ready"] == 3


async def test_failed_jobs_are_retried_and_cancelled_ones_only_on_request(
    app: Mita, send: Any
) -> None:
    await ended(app, send)
    stopped = await send.after(60).enqueue("cy")
    await app.cancel(stopped.id)
    assert await app.retry_many(queue="mail", error="no such") == BulkResult(3, {Answer.DONE: 3})
    assert await app.retry_many(task="send", state="cancelled") == BulkResult(1, {Answer.DONE: 1})
    assert await app.retry_many(all=True) == BulkResult(0)


async def test_a_job_whose_unique_key_another_job_has_is_counted_as_taken(
    app: Mita, send: Any
) -> None:
    first = await send.options(unique="k").enqueue("ada")
    await app.cancel(first.id)
    await send.options(unique="k").enqueue("ada")
    assert await app.retry_many(queue="mail", state="cancelled") == BulkResult(1, {Answer.TAKEN: 1})


async def test_jobs_are_rescheduled(app: Mita, send: Any) -> None:
    await many(app, send, 3)
    assert await app.reschedule_many(task="send", after=3600, reason="tonight") == BulkResult(
        3, {Answer.DONE: 3}
    )
    assert (await app.counts())["mail"]["scheduled"] == 3


async def test_a_running_job_is_counted_as_asked(app: Mita) -> None:
    began = asyncio.Event()

    @app.task(queue="slow")
    async def slow(job: Job) -> None:
        began.set()
        await asyncio.sleep(60)

    async with working(app):
        job = await slow.enqueue()
        await asyncio.wait_for(began.wait(), 30)
        result = await app.cancel_many(queue="slow")
        assert (result, result.done) == (BulkResult(1, {Answer.ASKED: 1}), 1)

        async def stopped() -> bool:
            record = await job.get()
            return record is not None and record.state == "cancelled"

        await until(stopped, within=60)


async def test_only_jobs_that_have_ended_are_deleted(app: Mita, send: Any) -> None:
    await ended(app, send)
    waits = await send.after(60).enqueue("bo")
    assert await app.delete_many(queue="mail", state="failed") == BulkResult(3, {Answer.DONE: 3})
    assert await app.delete_many(all=True) == BulkResult(2, {Answer.DONE: 2})
    assert await total(app) == 1
    assert await waits.get() is not None
    assert await app.delete(waits.id) is Answer.TOO_LATE
    await app.cancel(waits.id)
    assert await app.delete(waits.id) is Answer.DONE
    assert await total(app) == 0


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no filter": ("cancel_many", {}, "no filter was given.*all=True"),
    "no filter for a retry": ("retry_many", {}, "no filter was given"),
    "no filter for a delete": ("delete_many", {"queue": None}, "no filter was given"),
    "misspelt filter": (
        "cancel_many",
        {"quue": "mail"},
        "unknown filter 'quue', did you mean 'queue'",
    ),
    "misspelt state": ("cancel_many", {"state": "faild"}, "state='faild'"),
    "state that cannot": (
        "cancel_many",
        {"state": "failed"},
        "only waiting, scheduled, ready, blocked, running jobs can be cancelled",
    ),
    "living state": (
        "delete_many",
        {"state": "ready"},
        "only succeeded, failed, cancelled jobs can be deleted",
    ),
    "no time": ("reschedule_many", {"queue": "mail"}, "at=.*after="),
    "odd queue": ("delete_many", {"queue": "a b"}, "queue 'a b'"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_filter_is_refused_and_nothing_is_changed(
    app: Mita, send: Any, what: str
) -> None:
    method, given, says = WRONG[what]
    await many(app, send, 1)
    with pytest.raises(UsageError, match=says):
        await getattr(app, method)(**given)
    assert (await app.counts())["mail"]["ready"] == 1
