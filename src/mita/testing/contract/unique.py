"""One living job for each unique key of a queue."""

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
    """Whether a new job would get the key; it does not keep it."""
    probe = job(unique=KEY, queue=queue, when=When(HOUR))
    [receipt] = await store.enqueue([probe])
    if receipt.created:
        await store.amend([probe.id], CancelJob(keep=0))
    return receipt.created


async def test_a_second_job_with_the_key_gets_the_first_ones_id(store: Store, twin: Store) -> None:
    id = await put(store, unique=KEY)
    assert await twin.enqueue([job(unique=KEY)]) == [Receipt(id, created=False)]
    assert (await store.queues())[0].ready == 1


async def test_a_key_is_taken_once_in_one_batch_too(store: Store) -> None:
    one, two, other = job(unique=KEY), job(unique=KEY), job(unique="order:8")
    receipts = await store.enqueue([one, two, other])
    assert receipts == [Receipt(one.id), Receipt(one.id, created=False), Receipt(other.id)]


async def test_each_queue_has_its_own_keys(store: Store) -> None:
    await put(store, unique=KEY)
    assert await is_free(store, "billing")


async def test_many_who_ask_at_once_get_one_job(store: Store, twin: Store) -> None:
    handles = [store, twin] * 10
    answers = await asyncio.gather(*(handle.enqueue([job(unique=KEY)]) for handle in handles))
    receipts = [receipt for [receipt] in answers]
    assert sum(receipt.created for receipt in receipts) == 1
    assert len({receipt.id for receipt in receipts}) == 1


async def test_the_key_is_held_in_every_state_but_the_last(store: Store) -> None:
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


async def test_the_key_is_free_when_the_job_gave_way(store: Store) -> None:
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


async def test_a_key_can_outlive_its_job_for_a_while(store: Store, clock: Ticker) -> None:
    claim = await running(store, unique=KEY, unique_for=SOON)
    await clock.tick(PAST)
    assert not await is_free(store), "the while begins when the job ends"
    await settled(store, succeed(claim))
    assert await store.enqueue([job(unique=KEY)]) == [Receipt(claim.id, created=False)]
    await clock.tick(PAST_SOON)
    assert await is_free(store)


async def test_a_key_outlives_even_a_forgotten_job(store: Store) -> None:
    claim = await running(store, unique=KEY, unique_for=LONG)
    await settled(store, succeed(claim, keep=0))
    assert await gone(store, claim.id)
    assert not await is_free(store)


async def test_pruning_a_job_does_not_free_its_key(store: Store, clock: Ticker) -> None:
    claim = await running(store, unique=KEY, unique_for=LONG)
    await settled(store, succeed(claim, keep=SHORT))
    await clock.tick(PAST)
    assert await store.prune(10, 1000) == 1
    assert not await is_free(store)


async def test_a_job_whose_key_went_to_another_cannot_be_revived(store: Store) -> None:
    old = await dead(store, unique=KEY)
    await put(store, unique=KEY, when=When(HOUR))
    before = await look(store, old)
    assert await store.amend([old], RetryJob(NOW)) == [Answer.TAKEN]
    assert await look(store, old) == before


async def test_a_revived_job_has_its_key_again(store: Store) -> None:
    free, kept = await dead(store, unique=KEY), await dead(store, unique="kept", unique_for=LONG)
    assert await store.amend([free, kept], RetryJob(NOW)) == [Answer.DONE, Answer.DONE]
    assert await store.enqueue([job(unique=KEY)]) == [Receipt(free, created=False)]
    assert await store.enqueue([job(unique="kept")]) == [Receipt(kept, created=False)]
