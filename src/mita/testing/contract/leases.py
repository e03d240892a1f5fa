"""Keeping a claim, and losing it."""

from msgspec.structs import replace

from mita.model.job import State
from mita.model.outcome import CancelJob, Held, RescheduleJob
from mita.model.time import HOUR, NOW
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    SHORT,
    claims,
    exact,
    jobs,
    look,
    lost,
    release,
    running,
    settled,
    succeed,
)


async def test_an_extended_lease_runs_from_now(store: Store, clock: Ticker) -> None:
    claim = await running(store, lease=SHORT)
    before = (await look(store, claim.id)).lease_until
    await clock.tick(SHORT // 2)
    assert await store.extend([claim], LONG) == [Held.HELD]
    after = (await look(store, claim.id)).lease_until
    assert before is not None
    assert after is not None
    assert after == claim.at + SHORT // 2 + LONG if exact(store, clock) else after > before
    await clock.tick(PAST)
    assert await store.reap(10, LONG, "w2") == []


async def test_a_lease_that_ran_out_may_be_kept_while_nobody_took_the_job(
    store: Store, clock: Ticker
) -> None:
    claim = await running(store, lease=SHORT)
    await clock.tick(PAST)
    assert await store.extend([claim], LONG) == [Held.HELD]
    assert await store.reap(10, LONG, "w2") == []
    await settled(store, succeed(claim))


async def test_a_lost_claim_cannot_be_extended(store: Store, twin: Store, clock: Ticker) -> None:
    """I3"""
    stale, heir = await lost(store, clock)
    before = await look(store, heir.id)
    assert await twin.extend([stale], HOUR) == [Held.LOST]
    assert await look(store, heir.id) == before


async def test_a_claim_that_was_put_down_cannot_be_extended(store: Store) -> None:
    """I3"""
    ended, back = await running(store), await running(store)
    await settled(store, succeed(ended), release(back))
    assert await store.extend([ended, back], LONG) == [Held.LOST, Held.LOST]
    assert (await look(store, back.id)).lease_until is None


async def test_a_heartbeat_hears_that_the_job_should_stop(store: Store, twin: Store) -> None:
    claim = await running(store)
    await twin.amend([claim.id], CancelJob(keep=HOUR))
    assert await store.extend([claim], LONG) == [Held.CANCEL]
    assert await store.extend([claim], LONG) == [Held.CANCEL], "until the run has obeyed"
    assert (await look(store, claim.id)).state is State.RUNNING


async def test_a_job_that_was_asked_to_move_runs_on(store: Store) -> None:
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(NOW))
    assert await store.extend([claim], LONG) == [Held.HELD]


async def test_each_claim_gets_its_own_answer(store: Store, clock: Ticker) -> None:
    stale, heir = await lost(store, clock)
    stopping = await running(store)
    await store.amend([stopping.id], CancelJob(keep=HOUR))
    nobody = replace(heir, id="f" * 32, ref=None)
    answers = await store.extend([stale, stopping, heir, nobody], LONG)
    assert answers == [Held.LOST, Held.CANCEL, Held.HELD, Held.LOST]


async def test_a_claim_that_is_named_often_keeps_no_other(store: Store) -> None:
    """I4: of several that were claimed together."""
    await store.enqueue(jobs(10))
    first, *others = await claims(store, 10, lease=LONG)
    before = [await look(store, claim.id) for claim in others]
    assert await store.extend([first] * 10, HOUR) == [Held.HELD] * 10
    assert [await look(store, claim.id) for claim in others] == before
