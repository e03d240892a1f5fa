"""The range of priorities: negative, small and large ones are told apart in every way that a job
can take."""

from mita.model.job import PRIORITIES
from mita.model.outcome import Answer, PrioritiseJob
from mita.model.time import When
from mita.ports.store import Can, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    QUEUE,
    SHORT,
    claim_one,
    claimed_ids,
    claims,
    exact,
    look,
    lost,
    needs,
    put,
    put_many,
    retry,
    running,
    settled,
    succeed,
)
from .notify import asleep
from .rates import SLOW

KEY = "account:7"
# In an order that is neither that of the numbers, nor that of their digits.
MIXED = (9, PRIORITIES[0], 99, 0, 10, -1, PRIORITIES[-1], 5)
HIGHEST_FIRST = sorted(MIXED, reverse=True)
LOWEST, HIGHEST = HIGHEST_FIRST[-1], HIGHEST_FIRST[0]
# A priority that ages, by queue, beside the next higher one.
RISING = {f"rises-{low}": low for low in (PRIORITIES[0], -2, -1, 0, 9, 99)}


async def _put_mixed(store: Store, **more: object) -> list[str]:
    """Enqueue a job of each priority. Returns their ids, the highest priority first."""
    ids = {priority: await put(store, priority=priority, **more) for priority in MIXED}
    return [ids[priority] for priority in HIGHEST_FIRST]


async def test_every_priority_has_its_place(store: Store) -> None:
    """Jobs start by priority, in one claim and in several; and each shows its own."""
    ids = await _put_mixed(store)
    assert [(await look(store, id)).priority for id in ids] == HIGHEST_FIRST
    first = await claims(store, 2)
    rest = await claims(store, 10)
    assert [claim.id for claim in (*first, *rest)] == ids
    assert [claim.priority for claim in (*first, *rest)] == HIGHEST_FIRST


async def test_every_priority_has_its_place_in_each_queue(store: Store) -> None:
    """A claim of several queues takes one queue after the other, each by priority."""
    needs(store, Can.KEEP_EXACT_ORDER)
    mail, billing = await _put_mixed(store), await _put_mixed(store, queue="billing")
    found = await claimed_ids(store, 50, queues=["billing", QUEUE])
    assert found == [*billing, *mail]


async def test_the_lowest_priority_is_found_when_it_is_due(store: Store, clock: Ticker) -> None:
    """I9 no starvation: a claim says when a job is due, whatever its priority is."""
    ids = await _put_mixed(store, when=When(SHORT))
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert turn.claims == []
    assert turn.again is not None
    assert turn.again <= SHORT
    await clock.tick(PAST)
    found = await claimed_ids(store)
    assert found == ids if exact(store, clock) else sorted(found) == sorted(ids)


async def test_a_job_of_any_priority_goes_back_to_its_place(store: Store, clock: Ticker) -> None:
    """A retry and a lost lease keep the priority, and so does its next claim."""
    for priority in (LOWEST, HIGHEST):
        await settled(store, retry(await running(store, priority=priority)))
        again = await claim_one(store)
        assert again.priority == priority
        await settled(store, succeed(again))
    _, heir = await lost(store, clock, priority=LOWEST)
    assert heir.priority == LOWEST


async def test_a_priority_is_used_again_after_its_last_job(store: Store, twin: Store) -> None:
    """Priorities come and go; a process that has not seen one yet finds its jobs at once."""
    for _ in range(2):
        for priority in MIXED:
            id = await put(twin, priority=priority)
            claim = await claim_one(store)
            assert claim.id == id
            await settled(store, succeed(claim))
        assert await claims(store) == []


async def test_a_new_priority_wakes_a_worker_that_waits(store: Store, twin: Store) -> None:
    """I9 no starvation: the first job of a priority wakes a worker that sleeps, and its claim finds
    the job."""
    await settled(store, succeed(await running(store)))
    for priority in (LOWEST, HIGHEST):
        sleeper = await asleep(store)
        id = await put(twin, priority=priority)
        assert QUEUE in await sleeper
        assert await claimed_ids(store) == [id]


async def test_any_priority_can_be_given_later(store: Store, twin: Store) -> None:
    """The next claim follows new priorities, which another process gave."""
    ids = await put_many(store, len(MIXED))
    for id, priority in zip(ids, MIXED, strict=True):
        assert await twin.amend([id], PrioritiseJob(priority)) == [Answer.DONE]
        assert (await look(store, id)).priority == priority
    by_id = dict(zip(ids, MIXED, strict=True))
    assert [by_id[id] for id in await claimed_ids(store)] == HIGHEST_FIRST


async def test_ahead_counts_every_priority(store: Store) -> None:
    """`ahead` counts the jobs of all higher priorities."""
    needs(store, Can.KEEP_EXACT_ORDER)
    ids = await _put_mixed(store)
    assert [await store.ahead(id) for id in ids] == list(range(len(ids)))


async def test_a_free_key_goes_to_the_highest_priority(store: Store) -> None:
    """Of the jobs that wait for a key, the one with the highest priority is woken."""
    holder = await running(store, resource=KEY)
    ids = await _put_mixed(store, resource=KEY)
    assert await claims(store) == []
    if Can.KEEP_EXACT_ORDER in store.can:
        assert [await store.ahead(id) for id in ids] == list(range(len(ids)))
    order = []
    for _ in ids:
        await settled(store, succeed(holder))
        holder = await claim_one(store)
        order.append(holder.id)
    assert order == ids


async def test_a_token_goes_to_the_highest_priority(store: Store, clock: Ticker) -> None:
    """Of the jobs that wait at a rate, the one with the highest priority gets the next token."""
    needs(store, Can.KEEP_EXACT_ORDER)
    await put(store, gates=SLOW)
    assert len(await claims(store)) == 1
    ids = await _put_mixed(store, gates=SLOW)
    assert await claims(store) == []
    for expected in ids:
        await clock.tick(PAST_SOON)
        assert await claimed_ids(store) == [expected]


async def test_groups_take_turns_in_every_priority(store: Store) -> None:
    """Each priority has turns of its own, and a higher one goes first."""
    needs(store, Can.SHARE_EXACTLY)
    for group in ("a", "b", None):
        for _ in range(2):
            await _put_mixed(store, fair=group)
    order = []
    for _ in range(6 * len(MIXED)):
        [claim] = await claims(store, 1)
        order.append(claim)
        await settled(store, succeed(claim))
    assert [one.priority for one in order[::6]] == HIGHEST_FIRST
    for at in range(0, len(order), 3):
        assert len({one.priority for one in order[at : at + 3]}) == 1
        assert {one.fair for one in order[at : at + 3]} == {"a", "b", None}


async def test_a_job_of_any_priority_rises(store: Store, clock: Ticker) -> None:
    """I9 no starvation: a job that waited longer than `ageing` goes before one of the next higher
    priority, below 0 as above it."""
    store.ageing = SHORT
    low = {queue: await put(store, queue=queue, priority=at) for queue, at in RISING.items()}
    await clock.tick(PAST)
    high = {queue: await put(store, queue=queue, priority=at + 1) for queue, at in RISING.items()}
    for queue in RISING:
        if Can.KEEP_EXACT_ORDER in store.can:
            assert [await store.ahead(id) for id in (low[queue], high[queue])] == [0, 1]
        assert await claimed_ids(store, 1, queues=[queue]) == [low[queue]]


async def test_a_job_rises_over_the_whole_range(store: Store, clock: Ticker) -> None:
    """I9 no starvation: the lowest priority goes before the highest after as many `ageing` as
    there are priorities between them."""
    store.ageing = 1
    low = await put(store, priority=LOWEST)
    await clock.tick(PAST)
    await put(store, priority=HIGHEST)
    assert await claimed_ids(store, 1) == [low]


async def test_ageing_keeps_the_exact_order(store: Store, clock: Ticker) -> None:
    """With ageing, jobs start by `due - priority * ageing`, also where that is below 0."""
    needs(store, Can.OBEY_A_FAKE_CLOCK)
    store.ageing = 10
    made = []
    for _ in range(2):
        for priority in MIXED:
            made.append((await store.now() - 10 * priority, await put(store, priority=priority)))
            await clock.tick(37)
    in_order = [id for _, id in sorted(made)]
    assert len({rank for rank, _ in made}) == len(made), "no two jobs have one rank"
    assert [await store.ahead(id) for id in in_order] == list(range(len(made)))
    assert [*await claimed_ids(store, 3), *await claimed_ids(store, 50)] == in_order
