"""Stored limits: what an operator sets for a queue or a key holds for the next start."""

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
    put,
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


async def test_limits_are_shown(store: Store) -> None:
    """`queues` and `resources` show what was set, until it is removed."""
    limit = StoredLimit(5, SOON * 1000, 3)
    await store.limit([QUEUE], None, limit)
    await store.limit([QUEUE], KEY, limit)
    [view] = await store.queues()
    assert view.limit == limit
    [key] = await store.resources()
    assert (key.queue, key.key, key.limit) == (QUEUE, KEY, limit)
    await store.limit([QUEUE], None, None)
    await store.limit([QUEUE], KEY, None)
    [view] = await store.queues()
    assert view.limit is None
    assert await store.resources() == []


async def test_a_limit_of_a_key_replaces_that_of_the_jobs(store: Store) -> None:
    """The limit that an operator sets for a key holds for jobs that wait and for jobs to come."""
    await put_many(store, 5, resource=KEY)
    assert len(await claims(store)) == 1
    await store.limit([QUEUE], KEY, StoredLimit(concurrency=3))
    assert len(await claims(store)) == 2, "the waiting jobs were woken"
    await store.limit([QUEUE], KEY, None)
    await put(store, resource=KEY)
    assert await claims(store) == []


async def test_a_key_with_a_limit_of_zero_starts_nothing(store: Store) -> None:
    """`concurrency=0` for a key blocks its jobs until the limit is changed."""
    await store.limit([QUEUE], KEY, StoredLimit(concurrency=0))
    id, free = await put(store, resource=KEY), await put(store)
    assert await claimed_ids(store) == [free]
    assert await state_of(store, id) is State.BLOCKED
    await store.limit([QUEUE], KEY, StoredLimit(concurrency=1))
    assert await claimed_ids(store) == [id]


async def test_a_key_can_get_a_rate(store: Store, clock: Ticker) -> None:
    """An operator can give a rate to a key whose jobs have none."""
    await store.limit([QUEUE], KEY, StoredLimit(None, SOON * 1000, 1))
    await put_many(store, 3, resource=KEY, limit=10)
    assert len(await claims(store)) == 1
    assert await claims(store) == []
    await clock.tick(PAST_SOON)
    assert len(await claims(store)) == 1


async def test_a_faster_rate_takes_effect_at_once(store: Store, clock: Ticker) -> None:
    """Jobs that wait for the tokens of a slow rate start when the new rate has one: after one of
    its intervals at most."""
    await put_many(store, 4, gates=(Gate(KEY, None, LONG * 1000, 1),))
    assert len(await claims(store)) == 1
    assert await claims(store) == []
    await store.limit([QUEUE], KEY, StoredLimit(None, SHORT * 1000, 5))
    await clock.tick(PAST)
    assert len(await claims(store)) >= 1


async def test_a_limit_survives_the_end_of_all_jobs(store: Store) -> None:
    """A stored limit is kept while no job of the queue or key is left."""
    await store.limit([QUEUE], KEY, StoredLimit(concurrency=2))
    await store.limit([QUEUE], None, StoredLimit(concurrency=5))
    id = await put(store, resource=KEY)
    [claim] = await claims(store)
    assert claim.id == id
    await settled(store, succeed(claim, keep=0))
    await store.prune(10, 0)
    await store.reap(10, LONG, "w2")
    assert [view.limit for view in await store.resources()] == [StoredLimit(concurrency=2)]
    assert [view.limit for view in await store.queues()] == [StoredLimit(concurrency=5)]


async def test_a_limit_that_is_set_again_gives_no_new_tokens(store: Store) -> None:
    """The tokens that were taken under a rate stay taken when the rate is set once more."""
    rate = StoredLimit(None, LONG * 1000, 1)
    for queue, key in ((QUEUE, None), ("billing", KEY)):
        await store.limit([queue], key, rate)
        await put_many(store, 2, queue=queue, resource=key, limit=9)
        assert len(await claims(store, queues=[queue])) == 1
        await store.limit([queue], key, rate)
        assert await claims(store, queues=[queue]) == []


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


async def test_a_stored_rate_has_its_own_burst(store: Store) -> None:
    """The burst of a stored rate replaces that of the jobs."""
    await store.limit([QUEUE], KEY, StoredLimit(None, LONG * 1000, 3))
    await put_many(store, 5, gates=(Gate(KEY, None, LONG * 1000, 1),))
    assert len(await claims(store)) == 3


async def test_a_stored_rate_leaves_the_limit_of_the_jobs(store: Store) -> None:
    """A part that a stored limit does not have stays as the jobs say."""
    await store.limit([QUEUE], KEY, StoredLimit(None, 1, 9))
    await put_many(store, 3, resource=KEY, limit=2)
    assert len(await claims(store)) == 2


GATES_OF_JOBS: tuple[tuple[str | None, tuple[Gate, ...]], ...] = (
    (None, ()),
    ("account", ()),
    (None, (Gate("host", None, 20_000, 3),)),
    ("account", (Gate("host", None, 20_000, 3),)),
    ("account", (Gate("gpu", 2), Gate("task:t", None, 10_000, 1))),
    (None, (Gate("gpu", 2, 10_000, 2),)),
)


async def test_jobs_with_all_kinds_of_limits_drain_together(store: Store, clock: Ticker) -> None:
    """I1 no loss, I9 no starvation: keys, rates, groups and priorities in one queue, with and
    without a limit of the queue and of a key. Every job starts once, without a sweep."""
    await store.limit(["capped"], None, StoredLimit(concurrency=3))
    await store.limit(["spaced"], None, StoredLimit(20, 5_000, 4))
    await store.limit(["keyed"], "gpu", StoredLimit(1, 15_000, 2))
    queues = ["free", "capped", "spaced", "keyed"]
    ids = [
        await put(store, queue=queue, resource=key, gates=gates, fair=fair, priority=priority)
        for queue in queues
        for key, gates in GATES_OF_JOBS
        for fair in (None, "a", "b")
        for priority in (4, 7)
    ]
    found: list[str] = []
    for _ in range(40 * len(ids)):
        running = (await store.claim(queues, 10, LONG, "w1")).claims
        found += [claim.id for claim in running]
        await settled(store, *map(succeed, running))
        if len(found) == len(ids):
            break
        await clock.tick(5)
    assert sorted(found) == sorted(ids)
