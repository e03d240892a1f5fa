"""Stored limits: what an operator sets for a key holds for the next start, and all limits are
shown."""

from mita.model.gate import Gate, StoredLimit
from mita.model.job import PRIORITIES, State
from mita.ports.store import Store

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
    settled,
    state_of,
    succeed,
)

KEY = "partner"


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
        for priority in (PRIORITIES[0], PRIORITIES[-1])
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
