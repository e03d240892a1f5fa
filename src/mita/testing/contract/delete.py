"""A job that has ended can be deleted, and nothing of it is left. No other job can be deleted."""

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
    """A job that was cancelled while it waited. Returns its id."""
    id = await put(store)
    assert await store.amend([id], CancelJob(keep=HOUR)) == [Answer.DONE]
    return id


async def test_a_job_that_has_ended_is_deleted(store: Store, twin: Store) -> None:
    """A succeeded, failed or cancelled job is gone from every view after its deletion."""
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
    """I1 no loss, I10 terminal is terminal: deleting a job that has not ended returns `TOO_LATE`
    and changes nothing."""
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
    """An id that was deleted, or never existed, is `UNKNOWN`."""
    id, other = await done(store), await dead(store)
    ids = [id, "f" * 32, id, other]
    assert await store.amend(ids, DeleteJob()) == [
        Answer.DONE,
        Answer.UNKNOWN,
        Answer.UNKNOWN,
        Answer.DONE,
    ]


async def test_the_timeline_and_once_values_go_with_a_deleted_job(store: Store) -> None:
    """A new job with the id of a deleted one has neither its timeline nor its once values."""
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
    """Deleting a job ends its `unique_for`."""
    id = await done(store, unique=KEY, unique_for=LONG)
    [receipt] = await twin.enqueue([job(unique=KEY)])
    assert (receipt.id, receipt.created) == (id, False), "the key outlives the run"
    assert await store.amend([id], DeleteJob()) == [Answer.DONE]
    [receipt] = await twin.enqueue([job(unique=KEY)])
    assert receipt.created


async def test_a_deleted_job_leaves_the_unique_key_of_another_alone(
    store: Store, twin: Store
) -> None:
    """Deleting an old job does not free the key that another job has now."""
    old = await dead(store, unique=KEY)
    new = await put(store, unique=KEY)
    assert await store.amend([old], DeleteJob()) == [Answer.DONE]
    [receipt] = await twin.enqueue([job(unique=KEY)])
    assert (receipt.id, receipt.created) == (new, False)


async def test_an_old_claim_cannot_bring_a_deleted_job_back(store: Store) -> None:
    """I3 one outcome: a claim of a deleted job can settle nothing."""
    claim = await running(store)
    await settled(store, succeed(claim))
    assert await store.amend([claim.id], DeleteJob()) == [Answer.DONE]
    assert await store.settle([fail(claim)]) == [False]
    assert await gone(store, claim.id)
    assert await claimed_ids(store) == []


async def test_deleting_jobs_leaves_the_others_of_the_queue_alone(store: Store) -> None:
    """The queue and its waiting jobs stay when ended jobs are deleted."""
    ended = [await done(store) for _ in range(3)]
    waits = await put(store)
    assert await store.amend(ended, DeleteJob()) == [Answer.DONE] * 3
    assert await store.queue_names() == [QUEUE]
    assert await claimed_ids(store) == [waits]
