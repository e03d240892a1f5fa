"""Rates: the starts of a key are spaced, on the store's clock and over all workers."""

import asyncio

from mita.model.gate import Gate
from mita.model.job import State, WhenBusy
from mita.model.time import When
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST_SOON,
    QUEUE,
    SOON,
    claimed_ids,
    claims,
    exact,
    look,
    put,
    put_many,
    release,
    settled,
    state_of,
    succeed,
)

KEY = "host:a"
SLOW = (Gate(KEY, None, SOON * 1000, 1),)  # one start per SOON


def burst(n: int) -> tuple[Gate, ...]:
    """The same rate, with n starts at once."""
    return (Gate(KEY, None, SOON * 1000, n),)


async def test_a_job_without_a_token_waits_and_counts_no_attempt(store: Store) -> None:
    """I6 attempts: a rate blocks the job that comes too early; that is no attempt, and the claim
    names it as busy."""
    first, second = await put_many(store, 2, gates=SLOW)
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert [claim.id for claim in turn.claims] == [first]
    assert [(busy.id, busy.ended, busy.at_rate) for busy in turn.busy] == [(second, False, True)]
    job = await look(store, second)
    assert (job.state, job.blocked_at, job.attempts, job.busy) == (State.BLOCKED, KEY, 0, 1)


async def test_a_rate_opens_by_itself(store: Store, clock: Ticker) -> None:
    """I12 self-heal: a claim says when the next token comes, and then the job starts."""
    first, second = await put_many(store, 2, gates=SLOW)
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert [claim.id for claim in turn.claims] == [first]
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert turn.claims == []
    assert turn.again is not None
    assert turn.again == SOON if exact(store, clock) else 0 < turn.again <= SOON
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [second]


async def test_the_end_of_a_run_gives_no_token(store: Store) -> None:
    """A rate counts starts: it does not open when a job ends."""
    await put_many(store, 2, gates=SLOW)
    [claim] = await claims(store)
    await settled(store, succeed(claim))
    assert await claims(store) == []


async def test_a_burst_starts_at_once_and_no_more(store: Store, clock: Ticker) -> None:
    """`burst` jobs start at once, and then one per interval."""
    await put_many(store, 5, gates=burst(3))
    assert len(await claims(store)) == 3
    assert await claims(store) == []
    await clock.tick(PAST_SOON)
    assert len(await claims(store)) == 1
    assert await claims(store) == []


async def test_one_rate_for_all_workers(store: Store, twin: Store) -> None:
    """Two workers that claim at the same time share the tokens."""
    await put_many(store, 12, gates=burst(5))
    found = await asyncio.gather(
        *(one.claim([QUEUE], 6, LONG, f"w{n}") for n, one in enumerate((store, twin) * 2))
    )
    assert sum(len(turn.claims) for turn in found) == 5


async def test_a_token_that_one_worker_took_is_gone_for_the_others(
    store: Store, twin: Store
) -> None:
    """A rate is not counted by worker: the third worker finds what the first two have left."""
    await put_many(store, 9, gates=burst(5))
    assert len(await claims(store, 2, worker="w1")) == 2
    assert len(await claims(twin, 2, worker="w2")) == 2
    assert len(await claims(store, 2, worker="w3")) == 1
    assert await claims(twin, 2, worker="w4") == []


async def test_a_job_that_was_not_started_gives_its_token_back(store: Store) -> None:
    """A claim that is handed back unstarted returns its token, so that the next claim gets it."""
    first, _ = await put_many(store, 2, gates=SLOW)
    [claim] = await claims(store)
    await settled(store, release(claim))
    assert await claimed_ids(store) == [first]
    assert await claims(store) == []


async def test_a_rate_and_a_key_must_both_be_open(store: Store, clock: Ticker) -> None:
    """A job that waits for its resource key takes no token."""
    holder, other = await put_many(store, 2, resource="account", gates=burst(2))
    [claim] = await claims(store)
    assert claim.id == holder
    assert (await look(store, other)).blocked_at == "account"
    third = await put(store, resource="else", gates=burst(2))
    assert await claimed_ids(store) == [third], "the second token was not taken"
    await settled(store, succeed(claim))
    assert await claimed_ids(store) == []
    assert (await look(store, other)).blocked_at == KEY
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [other]


async def test_at_a_rate_a_job_waits_whatever_its_busy_policy_is(store: Store) -> None:
    """`skip` and `replace` are about resource keys. A job without a token waits."""
    ids = [await put(store, gates=SLOW, when_busy=policy) for policy in WhenBusy]
    assert len(await claims(store)) == 1
    states = [await state_of(store, id) for id in ids]
    assert sorted(states) == sorted([State.RUNNING, State.BLOCKED, State.BLOCKED])


async def test_a_rate_does_not_hold_up_other_jobs(store: Store) -> None:
    """I9 no starvation: jobs without a rate, and jobs of other keys, are claimed past the ones that
    wait."""
    await put_many(store, 30, gates=SLOW)
    assert len(await claims(store)) == 1
    other = await put(store, gates=(Gate("host:b", None, SOON * 1000, 1),))
    free = await put(store)
    assert sorted(await claimed_ids(store, 5)) == sorted([other, free])


async def test_a_rate_and_a_hold_of_one_key(store: Store, clock: Ticker) -> None:
    """A key on hold starts nothing, even with tokens; after the hold its rate counts."""
    await store.hold([QUEUE], KEY, When(SOON))
    await put_many(store, 3, gates=SLOW)
    assert await claims(store) == []
    await clock.tick(PAST_SOON)
    assert len(await claims(store)) == 1
    assert await claims(store) == []


async def test_a_rate_is_shown(store: Store) -> None:
    """`resources` shows the rate of a key that jobs wait for, and when it opens."""
    await put_many(store, 3, gates=SLOW)
    [claim] = await claims(store)
    [view] = await store.resources(key=KEY)
    assert (view.waiting, view.interval_us, view.burst) == (2, SOON * 1000, 1)
    assert view.next_start == claim.at + SOON


async def test_idle_rates_are_forgotten(store: Store, clock: Ticker) -> None:
    """A rate that is full again needs no record; nothing changes when it is pruned."""
    await put_many(store, 2, gates=burst(1))
    [claim] = await claims(store)
    await settled(store, succeed(claim))
    await clock.tick(PAST_SOON)
    [claim] = await claims(store)
    await store.prune(10, 10)
    await put(store, gates=SLOW)
    assert await claims(store) == [], "a rate that is in use was pruned"
    await clock.tick(PAST_SOON)
    await store.prune(10, 10)
    assert len(await claims(store)) == 1
