"""Limited queues: what an operator sets for a queue holds for the next start."""

import asyncio

from mita.model.gate import Gate, StoredLimit
from mita.model.job import State
from mita.ports.store import Store

from . import notify
from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    QUEUE,
    SHORT,
    SOON,
    claimed_ids,
    claims,
    put_many,
    release,
    settled,
    state_of,
    succeed,
)

KEY = "partner"


async def test_a_limited_queue_runs_so_many_jobs_at_once(store: Store, twin: Store) -> None:
    """No more jobs of a queue run at once than its limit says, over all workers."""
    await twin.limit([QUEUE], None, StoredLimit(concurrency=3))
    ids = await put_many(store, 5)
    first = await claims(store, 2)
    second = await claims(twin, 10)
    assert len(first) + len(second) == 3
    assert await claims(store) == []
    await settled(store, succeed(first[0]))
    assert len(await claims(twin)) == 1
    states = [await state_of(store, id) for id in ids]
    assert states.count(State.QUEUED) == 1, "a job that finds no place stays ready"


async def test_workers_that_claim_at_once_share_the_places(store: Store, twin: Store) -> None:
    """Claims at the same time never get more than the limit together."""
    await store.limit([QUEUE], None, StoredLimit(concurrency=4))
    await put_many(store, 12)
    found = await asyncio.gather(
        *(one.claim([QUEUE], 6, LONG, f"w{n}") for n, one in enumerate((store, twin) * 3))
    )
    assert sum(len(turn.claims) for turn in found) == 4


async def test_running_jobs_count_when_a_limit_is_set(store: Store) -> None:
    """Jobs that ran before the limit was set count, and none of them is stopped."""
    await put_many(store, 6)
    held = await claims(store, 3)
    await store.limit([QUEUE], None, StoredLimit(concurrency=2))
    assert await claims(store) == []
    await settled(store, succeed(held[0]), succeed(held[1]))
    assert len(await claims(store)) == 1


async def test_a_limit_of_zero_stops_starts(store: Store) -> None:
    """`concurrency=0` starts nothing; without the limit the jobs start at once."""
    await store.limit([QUEUE], None, StoredLimit(concurrency=0))
    ids = await put_many(store, 2)
    assert await claims(store) == []
    await store.limit([QUEUE], None, None)
    assert sorted(await claimed_ids(store)) == sorted(ids)


async def test_the_rate_of_a_queue(store: Store, clock: Ticker) -> None:
    """A queue with a rate starts its burst at once, then one job per interval, and a claim says
    when."""
    await store.limit([QUEUE], None, StoredLimit(None, SOON * 1000, 2))
    await put_many(store, 5)
    assert len(await claims(store)) == 2
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert turn.claims == []
    assert turn.again is not None
    assert 0 < turn.again <= SOON
    await clock.tick(PAST_SOON)
    assert len(await claims(store)) == 1


async def test_the_tokens_of_a_queue_are_shown(store: Store) -> None:
    """`queues` shows how many jobs the rate of a queue lets start now; None if it has no rate."""
    await store.limit([QUEUE], None, StoredLimit(concurrency=50))
    assert [view.tokens for view in await store.queues()] == [None]
    await store.limit([QUEUE], None, StoredLimit(None, LONG * 1000, 3))
    assert [view.tokens for view in await store.queues()] == [3]
    await put_many(store, 4)
    assert len(await claims(store, 2)) == 2
    assert [view.tokens for view in await store.queues()] == [1]
    assert len(await claims(store)) == 1
    [view] = await store.queues()
    assert view.tokens == 0
    assert view.next_start is not None


async def test_jobs_with_a_rate_in_a_limited_queue(store: Store, clock: Ticker) -> None:
    """I9 no starvation: jobs that wait for their own rate in a queue with a limit start when both
    allow it, one after the other, without a sweep."""
    await store.limit([QUEUE], None, StoredLimit(concurrency=50))
    ids = await put_many(store, 6, gates=(Gate(KEY, None, 300_000, 2),))
    found: list[str] = []
    for _ in range(20 * len(ids)):
        running = await claims(store)
        found += [claim.id for claim in running]
        await settled(store, *map(succeed, running))
        if len(found) == len(ids):
            break
        await clock.tick(100)  # a third of the time to the next token
    assert sorted(found) == sorted(ids)


async def test_the_rate_of_a_queue_gets_unstarted_tokens_back(store: Store) -> None:
    """A claim that is handed back unstarted returns the token of its queue."""
    await store.limit([QUEUE], None, StoredLimit(None, SOON * 1000, 1))
    await put_many(store, 2)
    [claim] = await claims(store)
    await settled(store, release(claim))
    assert len(await claims(store)) == 1
    assert await claims(store) == []


async def test_other_queues_are_not_limited(store: Store) -> None:
    """A limit is for the queues that it names; a claim of several queues goes on to the next."""
    await store.limit([QUEUE], None, StoredLimit(concurrency=1))
    await put_many(store, 3)
    others = await put_many(store, 2, queue="billing")
    found = await claimed_ids(store, 10, queues=[QUEUE, "billing"])
    assert len(found) == 3
    assert set(others) < set(found)


async def test_a_place_in_a_limited_queue_is_a_notification(store: Store, twin: Store) -> None:
    """I9 no starvation: a worker that waits hears of a run that ends in a full queue."""
    await store.limit([QUEUE], None, StoredLimit(concurrency=1))
    await put_many(store, 2)
    [claim] = await claims(store)
    assert (await twin.claim([QUEUE], 10, LONG, "w2")).claims == []
    await twin.wait([QUEUE], 0.2)
    waiting = asyncio.ensure_future(twin.wait([QUEUE], notify.WAKE_UP_TIMEOUT_S))
    await asyncio.sleep(0.05)
    await settled(store, succeed(claim))
    assert QUEUE in await waiting


async def test_a_limit_can_be_set_before_the_first_job(store: Store) -> None:
    """A queue that never had a job can be limited, and is then known."""
    await store.limit(["new"], None, StoredLimit(concurrency=1))
    assert [view.name for view in await store.queues() if view.limit] == ["new"]
    await put_many(store, 2, queue="new")
    assert len(await claims(store, queues=["new"])) == 1


async def test_a_faster_rate_of_a_queue_takes_effect_at_once(store: Store, clock: Ticker) -> None:
    """A queue that waits for the token of a slow rate starts jobs by the new rate."""
    await store.limit([QUEUE], None, StoredLimit(None, LONG * 1000, 1))
    await put_many(store, 3)
    assert len(await claims(store)) == 1
    await store.limit([QUEUE], None, StoredLimit(None, SHORT * 1000, 1))
    await clock.tick(PAST)
    assert len(await claims(store)) == 1


async def test_a_full_queue_names_no_time(store: Store) -> None:
    """A claim that finds a queue full does not ask to be made again: the end of a run is a
    notification."""
    await store.limit([QUEUE], None, StoredLimit(concurrency=1))
    await put_many(store, 2)
    assert len(await claims(store)) == 1
    assert (await store.claim([QUEUE], 10, LONG, "w1")).again is None
