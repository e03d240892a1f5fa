"""Recovery: whoever sweeps inherits the jobs of lost workers."""

import asyncio

from mita.model.job import State
from mita.model.outcome import CancelJob, Held, Progress
from mita.model.time import HOUR
from mita.ports.store import Can, OnceValue, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    QUEUE,
    SHORT,
    claim_one,
    claimed_ids,
    claims,
    crash,
    look,
    lost,
    needs,
    put,
    put_many,
    running,
    settled,
    state_of,
    stop,
    succeed,
)


async def test_a_lost_job_goes_to_an_heir_with_a_newer_token(store: Store, clock: Ticker) -> None:
    """I12"""
    stale, heir = await lost(store, clock, resource="r")
    assert heir.token > stale.token
    assert heir.at >= stale.at + SHORT
    held = await look(store, heir.id)
    assert (held.state, held.worker, held.token) == (State.RUNNING, "heir", heir.token)
    assert held.lease_until == heir.at + LONG
    same = ("task", "queue", "payload", "due", "created", "attempts", "crashes", "resource")
    assert [getattr(heir, name) for name in same] == [getattr(stale, name) for name in same]


async def test_a_living_lease_is_left_alone(store: Store) -> None:
    """I4"""
    claim = await running(store)
    assert await store.reap(10, LONG, "w2") == []
    await settled(store, succeed(claim))


async def test_a_late_worker_cannot_settle_a_job_it_lost(store: Store, clock: Ticker) -> None:
    """I3"""
    stale, heir = await lost(store, clock)
    before = await look(store, heir.id)
    assert await store.settle([succeed(stale)]) == [False]
    assert await look(store, heir.id) == before
    assert await store.timeline(heir.id) == []
    assert await store.settle([succeed(heir, b"mine")]) == [True]
    assert await store.settle([succeed(stale, b"late")]) == [False]
    assert (await look(store, heir.id)).result == b"mine"


async def test_a_late_worker_can_write_nothing_at_all(store: Store, clock: Ticker) -> None:
    """I3"""
    stale, heir = await lost(store, clock)
    before = await look(store, heir.id)
    assert await store.progress([Progress(stale, b"half")]) == [False]
    assert await store.extend([stale], HOUR) == [Held.LOST]
    assert await store.store_once(OnceValue(claim=stale, name="charged", value=b"yes")) is None
    assert (
        await store.store_once(OnceValue(claim=stale, name="charged", value=b"yes", keep=LONG))
        is None
    )
    assert await store.load_once(heir, "charged", shared=False) is None
    assert await store.load_once(heir, "charged", shared=True) is None
    assert await look(store, heir.id) == before


async def test_a_crash_is_not_an_attempt(store: Store, clock: Ticker) -> None:
    """I6"""
    _, heir = await lost(store, clock)
    await settled(store, crash(heir))
    after = await look(store, heir.id)
    assert (after.state, after.crashes, after.attempts) == (State.QUEUED, 1, 0)


async def test_an_heir_can_be_lost_too(store: Store, clock: Ticker) -> None:
    """I12"""
    claim = await running(store, lease=SHORT)
    await clock.tick(PAST)
    [first] = await store.reap(10, SHORT, "w2")
    await clock.tick(PAST)
    [second] = await store.reap(10, LONG, "w3")
    assert [claim.id, first.id] == [second.id, second.id]
    assert claim.token < first.token < second.token
    assert await store.settle([succeed(first), succeed(second)]) == [False, True]


async def test_the_longest_lost_go_first_and_no_more_than_asked(
    store: Store, clock: Ticker
) -> None:
    needs(store, Can.KEEP_EXACT_ORDER)
    await put_many(store, 3)
    last = await claim_one(store, lease=SHORT)
    first, second = await claims(store, 2, lease=SHORT // 2)
    await clock.tick(PAST)
    assert [claim.id for claim in await store.reap(2, LONG, "w2")] == [first.id, second.id]
    assert [claim.id for claim in await store.reap(2, LONG, "w2")] == [last.id]
    assert await store.reap(2, LONG, "w2") == []


async def test_lost_jobs_are_found_in_every_queue_and_in_paused_ones(
    store: Store, clock: Ticker
) -> None:
    """I12"""
    ids = [(await running(store, lease=SHORT, queue=queue)).id for queue in ("a", "b")]
    await store.pause(["b"])
    await clock.tick(PAST)
    assert sorted(claim.id for claim in await store.reap(10, LONG, "w2")) == sorted(ids)


async def test_two_who_sweep_at_once_never_share_a_job(
    store: Store, twin: Store, clock: Ticker
) -> None:
    """I4"""
    ids = await put_many(store, 30)
    await claims(store, 30, lease=SHORT)
    await clock.tick(PAST)
    sweeps = await asyncio.gather(*(handle.reap(4, LONG, "w") for handle in [store, twin] * 6))
    assert sorted(claim.id for sweep in sweeps for claim in sweep) == sorted(ids)


async def test_a_lost_job_keeps_its_key_until_it_is_put_down(store: Store, clock: Ticker) -> None:
    """I5"""
    stale, heir = await lost(store, clock, resource="r")
    waiting = await put(store, resource="r")
    assert await claimed_ids(store) == []
    assert await store.settle([succeed(stale)]) == [False]
    assert await state_of(store, waiting) is State.BLOCKED
    await settled(store, crash(heir, wait=LONG))
    assert await claimed_ids(store) == [waiting]


async def test_what_was_asked_of_a_lost_job_still_counts(store: Store, clock: Ticker) -> None:
    claim = await running(store, lease=SHORT)
    await store.amend([claim.id], CancelJob(keep=HOUR))
    await clock.tick(PAST)
    [heir] = await store.reap(10, LONG, "w2")
    assert await store.extend([heir], LONG) == [Held.CANCEL]
    await settled(store, crash(heir))
    after = await look(store, claim.id)
    assert (after.state, after.crashes) == (State.CANCELLED, 1)


async def test_a_sweep_finds_those_who_wait_for_a_key_that_is_free(store: Store) -> None:
    """I12: the one that was woken went away, and nobody told the next."""
    holder = await running(store, resource="r")
    first, second = await put_many(store, 2, resource="r")
    assert await claimed_ids(store) == []
    await settled(store, stop(holder))
    await store.amend([first], CancelJob(keep=HOUR))
    assert await store.reap(10, LONG, "w2") == []
    assert (await claim_one(store, queue=QUEUE)).id == second
