"""Recovery: a worker that reaps takes over the jobs whose leases have expired."""

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


async def test_a_reaped_job_has_a_larger_token(store: Store, clock: Ticker) -> None:
    """I12 self-heal: a job whose lease has expired is claimed again by the worker that reaps it,
    under a larger token."""
    stale, heir = await lost(store, clock, resource="r")
    assert heir.token > stale.token
    assert heir.at >= stale.at + SHORT
    held = await look(store, heir.id)
    assert (held.state, held.worker, held.token) == (State.RUNNING, "heir", heir.token)
    assert held.lease_until == heir.at + LONG
    same = ("task", "queue", "payload", "due", "created", "attempts", "crashes", "resource")
    assert [getattr(heir, name) for name in same] == [getattr(stale, name) for name in same]


async def test_a_claim_that_is_settled_twice_leaves_the_others_to_a_reap(
    store: Store, clock: Ticker
) -> None:
    """I12 self-heal: a worker whose answer was lost settles again. That changes nothing for the
    jobs that it claimed in the same call: if it dies, they are taken over."""
    await put_many(store, 3)
    first, second, third = await claims(store, 3, lease=SHORT)
    await settled(store, succeed(first))
    await settled(store, succeed(second))
    for _ in range(2):
        await store.settle([succeed(first), succeed(second)])
    await clock.tick(PAST)
    assert [heir.id for heir in await store.reap(10, LONG, "heir")] == [third.id]


async def test_a_job_with_a_lease_is_not_reaped(store: Store) -> None:
    """I4 bounded duplicates: a reap does not touch jobs whose lease has not expired."""
    claim = await running(store)
    assert await store.reap(10, LONG, "w2") == []
    await settled(store, succeed(claim))


async def test_a_late_worker_cannot_settle_a_job_it_lost(store: Store, clock: Ticker) -> None:
    """I3 one outcome: the verdict of a worker that lost its lease is refused and changes
    nothing."""
    stale, heir = await lost(store, clock)
    before = await look(store, heir.id)
    assert await store.settle([succeed(stale)]) == [False]
    assert await look(store, heir.id) == before
    assert await store.timeline(heir.id) == []
    assert await store.settle([succeed(heir, b"mine")]) == [True]
    assert await store.settle([succeed(stale, b"late")]) == [False]
    assert (await look(store, heir.id)).result == b"mine"


async def test_a_late_worker_can_write_nothing_at_all(store: Store, clock: Ticker) -> None:
    """I3 one outcome: progress, heartbeat and once values of a worker that lost its lease are
    refused."""
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
    """I6 attempts: a lost worker counts as a crash and not as an attempt."""
    _, heir = await lost(store, clock)
    await settled(store, crash(heir))
    after = await look(store, heir.id)
    assert (after.state, after.crashes, after.attempts) == (State.QUEUED, 1, 0)


async def test_a_reaped_job_can_be_reaped_again(store: Store, clock: Ticker) -> None:
    """I12 self-heal: if the worker that reaped a job dies as well, the next reap finds the job."""
    claim = await running(store, lease=SHORT)
    await clock.tick(PAST)
    [first] = await store.reap(10, SHORT, "w2")
    await clock.tick(PAST)
    [second] = await store.reap(10, LONG, "w3")
    assert [claim.id, first.id] == [second.id, second.id]
    assert claim.token < first.token < second.token
    assert await store.settle([succeed(first), succeed(second)]) == [False, True]


async def test_reap_returns_the_longest_expired_first_and_at_most_its_limit(
    store: Store, clock: Ticker
) -> None:
    """Leases that expired first are reaped first, at most `limit` in one call."""
    needs(store, Can.KEEP_EXACT_ORDER)
    await put_many(store, 3)
    last = await claim_one(store, lease=SHORT)
    first, second = await claims(store, 2, lease=SHORT // 2)
    await clock.tick(PAST)
    assert [claim.id for claim in await store.reap(2, LONG, "w2")] == [first.id, second.id]
    assert [claim.id for claim in await store.reap(2, LONG, "w2")] == [last.id]
    assert await store.reap(2, LONG, "w2") == []


async def test_expired_leases_are_reaped_in_every_queue(store: Store, clock: Ticker) -> None:
    """I12 self-heal: a reap looks at all queues, paused ones included."""
    ids = [(await running(store, lease=SHORT, queue=queue)).id for queue in ("a", "b")]
    await store.pause(["b"])
    await clock.tick(PAST)
    assert sorted(claim.id for claim in await store.reap(10, LONG, "w2")) == sorted(ids)


async def test_concurrent_reaps_never_share_a_job(store: Store, twin: Store, clock: Ticker) -> None:
    """I4 bounded duplicates: of several reaps at once each job goes to one."""
    ids = await put_many(store, 30)
    await claims(store, 30, lease=SHORT)
    await clock.tick(PAST)
    sweeps = await asyncio.gather(*(handle.reap(4, LONG, "w") for handle in [store, twin] * 6))
    assert sorted(claim.id for sweep in sweeps for claim in sweep) == sorted(ids)


async def test_a_reaped_job_keeps_its_resource_key_until_it_is_settled(
    store: Store, clock: Ticker
) -> None:
    """I5 key mutex: the key of a lost job is free only after the new claim is settled."""
    stale, heir = await lost(store, clock, resource="r")
    waiting = await put(store, resource="r")
    assert await claimed_ids(store) == []
    assert await store.settle([succeed(stale)]) == [False]
    assert await state_of(store, waiting) is State.BLOCKED
    await settled(store, crash(heir, wait=LONG))
    assert await claimed_ids(store) == [waiting]


async def test_a_cancel_of_a_lost_job_still_counts(store: Store, clock: Ticker) -> None:
    """A cancel that was requested before the worker died takes effect after the reap."""
    claim = await running(store, lease=SHORT)
    await store.amend([claim.id], CancelJob(keep=HOUR))
    await clock.tick(PAST)
    [heir] = await store.reap(10, LONG, "w2")
    assert await store.extend([heir], LONG) == [Held.CANCEL]
    await settled(store, crash(heir))
    after = await look(store, claim.id)
    assert (after.state, after.crashes) == (State.CANCELLED, 1)


async def test_reap_wakes_jobs_that_wait_for_a_free_key(store: Store) -> None:
    """I12 self-heal: if the job that was woken for a key is cancelled, a reap wakes the next
    one."""
    holder = await running(store, resource="r")
    first, second = await put_many(store, 2, resource="r")
    assert await claimed_ids(store) == []
    await settled(store, stop(holder))
    await store.amend([first], CancelJob(keep=HOUR))
    assert await store.reap(10, LONG, "w2") == []
    assert (await claim_one(store, queue=QUEUE)).id == second
