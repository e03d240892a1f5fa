"""A job that has ended can be deleted: nothing of it is left. No other job can."""

from mita.model.job import State
from mita.model.outcome import Answer, CancelJob, DeleteJob, RetryJob
from mita.model.time import HOUR, NOW
from mita.model.view import JobFilter
from mita.ports.store import OnceValue, Store

from .given import (
    LONG,
    QUEUE,
    claim_one,
    claimed_ids,
    dead,
    done,
    fail,
    gone,
    job,
    look,
    put,
    running,
    settled,
    state_of,
    succeed,
)

KEY = "order:7"


async def cancelled(store: Store) -> str:
    """A job that was cancelled while it waited; its id."""
    id = await put(store)
    assert await store.amend([id], CancelJob(keep=HOUR)) == [Answer.DONE]
    return id


async def test_a_job_that_has_ended_is_deleted(store: Store, twin: Store) -> None:
    ids = [await done(store), await dead(store), await cancelled(store)]
    kept = await done(store)
    assert await store.amend(ids, DeleteJob()) == [Answer.DONE] * 3
    assert await twin.find([*ids, kept]) == [None, None, None, await look(store, kept)]
    assert [found.id for found in (await twin.page(JobFilter(), None, 10)).jobs] == [kept]
    [view] = await twin.queues()
    assert (view.succeeded, view.failed, view.cancelled) == (1, 0, 0)
    assert await store.amend(ids, DeleteJob()) == [Answer.UNKNOWN] * 3
    assert await store.amend(ids, RetryJob(NOW)) == [Answer.UNKNOWN] * 3


async def test_a_job_that_waits_or_runs_is_not_deleted(store: Store) -> None:
    """I1, I10"""
    claim = await running(store, resource="r")
    blocked, queued = await put(store, resource="r"), await put(store, priority=0)
    assert await claimed_ids(store, 1) == [queued]
    waiting = await put(store, priority=0)
    before = await store.find([claim.id, blocked, queued, waiting])
    assert [found.state for found in before if found] == [
        State.RUNNING,
        State.BLOCKED,
        State.RUNNING,
        State.QUEUED,
    ]
    assert (
        await store.amend([claim.id, blocked, queued, waiting], DeleteJob())
        == [Answer.TOO_LATE] * 4
    )
    assert await store.find([claim.id, blocked, queued, waiting]) == before
    await settled(store, succeed(claim))
    assert await state_of(store, claim.id) is State.SUCCEEDED


async def test_each_id_is_deleted_once(store: Store) -> None:
    id, other = await done(store), await dead(store)
    ids = [id, "f" * 32, id, other]
    assert await store.amend(ids, DeleteJob()) == [
        Answer.DONE,
        Answer.UNKNOWN,
        Answer.UNKNOWN,
        Answer.DONE,
    ]


async def test_timeline_and_memos_go_with_a_deleted_job(store: Store) -> None:
    claim = await running(store)
    await store.store_once(OnceValue(claim=claim, name="charged", value=b"yes"))
    await settled(store, fail(claim))
    assert await store.timeline(claim.id)
    assert await store.amend([claim.id], DeleteJob()) == [Answer.DONE]
    assert await store.timeline(claim.id) == []
    await store.enqueue([job(id=claim.id)])
    again = await claim_one(store)
    assert (again.id, again.attempts) == (claim.id, 0)
    assert await store.load_once(again, "charged", shared=False) is None


async def test_a_deleted_job_frees_the_unique_key_that_it_would_have_kept(
    store: Store, twin: Store
) -> None:
    id = await done(store, unique=KEY, unique_for=LONG)
    [receipt] = await twin.enqueue([job(unique=KEY)])
    assert (receipt.id, receipt.created) == (id, False), "the key outlives the run"
    assert await store.amend([id], DeleteJob()) == [Answer.DONE]
    [receipt] = await twin.enqueue([job(unique=KEY)])
    assert receipt.created


async def test_a_deleted_job_leaves_the_unique_key_of_another_alone(
    store: Store, twin: Store
) -> None:
    old = await dead(store, unique=KEY)
    new = await put(store, unique=KEY)
    assert await store.amend([old], DeleteJob()) == [Answer.DONE]
    [receipt] = await twin.enqueue([job(unique=KEY)])
    assert (receipt.id, receipt.created) == (new, False)


async def test_an_old_claim_cannot_bring_a_deleted_job_back(store: Store) -> None:
    """I3"""
    claim = await running(store)
    await settled(store, succeed(claim))
    assert await store.amend([claim.id], DeleteJob()) == [Answer.DONE]
    assert await store.settle([fail(claim)]) == [False]
    assert await gone(store, claim.id)
    assert await claimed_ids(store) == []


async def test_the_lines_of_a_queue_stay_whole_around_deleted_jobs(store: Store) -> None:
    ended = [await done(store) for _ in range(3)]
    waits = await put(store)
    assert await store.amend(ended, DeleteJob()) == [Answer.DONE] * 3
    assert await store.queue_names() == [QUEUE]
    assert await claimed_ids(store) == [waits]
