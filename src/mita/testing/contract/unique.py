"""A queue has at most one job for each unique key that has not ended."""

import asyncio

from mita.model.job import Receipt, State, WhenBusy
from mita.model.outcome import Answer, CancelJob, RescheduleJob, RetryJob
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    QUEUE,
    SHORT,
    SOON,
    claim_one,
    claims,
    dead,
    fail,
    gone,
    job,
    look,
    move,
    put,
    retry,
    running,
    settled,
    state_of,
    stop,
    succeed,
)

KEY = "order:7"


async def is_free(store: Store, queue: str = QUEUE) -> bool:
    """Whether a new job could take the key. The key is free again afterwards."""
    probe = job(unique=KEY, queue=queue, when=When(HOUR))
    [receipt] = await store.enqueue([probe])
    if receipt.created:
        await store.amend([probe.id], CancelJob(keep=0))
    return receipt.created


async def test_a_second_job_with_the_key_gets_the_id_of_the_first(
    store: Store, twin: Store
) -> None:
    """An enqueue with a key that is taken creates nothing and returns the id of the job that has
    the key."""
    id = await put(store, unique=KEY)
    assert await twin.enqueue([job(unique=KEY)]) == [Receipt(id, created=False)]
    assert (await store.queues())[0].ready == 1


async def test_a_key_is_taken_once_in_one_batch(store: Store) -> None:
    """Of two jobs in one batch with the same key, only the first is created."""
    one, two, other = job(unique=KEY), job(unique=KEY), job(unique="order:8")
    receipts = await store.enqueue([one, two, other])
    assert receipts == [Receipt(one.id), Receipt(one.id, created=False), Receipt(other.id)]


async def test_each_queue_has_its_own_keys(store: Store) -> None:
    """The same unique key can be used once in each queue."""
    await put(store, unique=KEY)
    assert await is_free(store, "billing")


async def test_concurrent_enqueues_with_one_key_create_one_job(store: Store, twin: Store) -> None:
    """Twenty concurrent enqueues with one key create one job and all return its id."""
    handles = [store, twin] * 10
    answers = await asyncio.gather(*(handle.enqueue([job(unique=KEY)]) for handle in handles))
    receipts = [receipt for [receipt] in answers]
    assert sum(receipt.created for receipt in receipts) == 1
    assert len({receipt.id for receipt in receipts}) == 1


async def test_the_key_is_taken_until_the_job_ends(store: Store) -> None:
    """A queued, blocked or running job keeps its key."""
    holder = await running(store, resource="r", queue=QUEUE)
    id = await put(store, unique=KEY, resource="r")
    assert not await is_free(store), "while it is queued"
    assert await claims(store) == []
    assert await state_of(store, id) is State.BLOCKED
    assert not await is_free(store), "while it is blocked"
    await settled(store, succeed(holder))
    claim = await claim_one(store)
    assert not await is_free(store), "while it is running"
    await settled(store, retry(claim))
    assert not await is_free(store), "while it waits for its retry"
    await settled(store, move(await claim_one(store)))
    assert not await is_free(store), "after it moved itself"
    await store.amend([id], RescheduleJob(NOW))
    assert not await is_free(store), "after it was moved"


async def test_the_key_is_free_when_the_job_has_ended(store: Store) -> None:
    """Success, failure and cancellation free the key."""
    await settled(store, succeed(await running(store, unique=KEY)))
    assert await is_free(store), "after success"
    await settled(store, fail(await running(store, unique=KEY)))
    assert await is_free(store), "after failure"
    await settled(store, stop(await running(store, unique=KEY)))
    assert await is_free(store), "after a stop"
    await settled(store, succeed(await running(store, unique=KEY), keep=0))
    assert await is_free(store), "after it was forgotten"
    await store.amend([await put(store, unique=KEY)], CancelJob(keep=HOUR))
    assert await is_free(store), "after it was cancelled"


async def test_the_key_is_free_when_the_job_was_skipped_or_replaced(store: Store) -> None:
    """A job that the busy policy cancels gives its unique key back."""
    holder = await running(store, resource="r")
    await put(store, resource="r", unique=KEY, when_busy=WhenBusy.SKIP)
    assert await claims(store) == []
    assert await is_free(store), "after it was skipped"
    await put(store, resource="r", unique=KEY)
    assert await claims(store) == []
    await put(store, resource="r", when_busy=WhenBusy.REPLACE)
    assert await claims(store) == []
    assert await is_free(store), "after it was replaced"
    await settled(store, succeed(holder))


async def test_unique_for_keeps_the_key_after_the_end(store: Store, clock: Ticker) -> None:
    """With `unique_for` the key stays taken for that long after the job has ended."""
    claim = await running(store, unique=KEY, unique_for=SOON)
    await clock.tick(PAST)
    assert not await is_free(store), "the while begins when the job ends"
    await settled(store, succeed(claim))
    assert await store.enqueue([job(unique=KEY)]) == [Receipt(claim.id, created=False)]
    await clock.tick(PAST_SOON)
    assert await is_free(store)


async def test_unique_for_keeps_the_key_of_a_job_that_is_not_kept(store: Store) -> None:
    """`unique_for` holds even if the record of the job is deleted at its end."""
    claim = await running(store, unique=KEY, unique_for=LONG)
    await settled(store, succeed(claim, keep=0))
    assert await gone(store, claim.id)
    assert not await is_free(store)


async def test_pruning_a_job_does_not_free_its_key(store: Store, clock: Ticker) -> None:
    """`unique_for` holds even if the record of the job is pruned."""
    claim = await running(store, unique=KEY, unique_for=LONG)
    await settled(store, succeed(claim, keep=SHORT))
    await clock.tick(PAST)
    assert await store.prune(10, 1000) == 1
    assert not await is_free(store)


async def test_a_job_cannot_be_retried_while_another_has_its_key(store: Store) -> None:
    """Retrying a failed job whose unique key another job has returns `TAKEN` and changes
    nothing."""
    old = await dead(store, unique=KEY)
    await put(store, unique=KEY, when=When(HOUR))
    before = await look(store, old)
    assert await store.amend([old], RetryJob(NOW)) == [Answer.TAKEN]
    assert await look(store, old) == before


async def test_a_retried_job_has_its_key_again(store: Store) -> None:
    """A failed job that is retried takes its unique key again."""
    free, kept = await dead(store, unique=KEY), await dead(store, unique="kept", unique_for=LONG)
    assert await store.amend([free, kept], RetryJob(NOW)) == [Answer.DONE, Answer.DONE]
    assert await store.enqueue([job(unique=KEY)]) == [Receipt(free, created=False)]
    assert await store.enqueue([job(unique="kept")]) == [Receipt(kept, created=False)]
