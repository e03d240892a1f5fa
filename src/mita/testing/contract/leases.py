"""Extending a lease, and losing it."""

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
    """An extended lease counts from the call, on the clock of the store."""
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


async def test_an_expired_lease_can_be_extended_until_the_job_is_reaped(
    store: Store, clock: Ticker
) -> None:
    """A late heartbeat keeps the job if no other worker has reaped it."""
    claim = await running(store, lease=SHORT)
    await clock.tick(PAST)
    assert await store.extend([claim], LONG) == [Held.HELD]
    assert await store.reap(10, LONG, "w2") == []
    await settled(store, succeed(claim))


async def test_a_lost_claim_cannot_be_extended(store: Store, twin: Store, clock: Ticker) -> None:
    """I3 one outcome: a worker whose job was reaped gets `LOST` and changes nothing."""
    stale, heir = await lost(store, clock)
    before = await look(store, heir.id)
    assert await twin.extend([stale], HOUR) == [Held.LOST]
    assert await look(store, heir.id) == before


async def test_a_settled_claim_cannot_be_extended(store: Store) -> None:
    """I3 one outcome: a heartbeat for a settled claim gets `LOST` and sets no lease."""
    ended, back = await running(store), await running(store)
    await settled(store, succeed(ended), release(back))
    assert await store.extend([ended, back], LONG) == [Held.LOST, Held.LOST]
    assert (await look(store, back.id)).lease_until is None


async def test_a_heartbeat_returns_a_cancel(store: Store, twin: Store) -> None:
    """Each heartbeat of a cancelled job returns `CANCEL` until the run ends."""
    claim = await running(store)
    await twin.amend([claim.id], CancelJob(keep=HOUR))
    assert await store.extend([claim], LONG) == [Held.CANCEL]
    assert await store.extend([claim], LONG) == [Held.CANCEL], "until the run has obeyed"
    assert (await look(store, claim.id)).state is State.RUNNING


async def test_a_reschedule_does_not_stop_a_run(store: Store) -> None:
    """A heartbeat of a job that was rescheduled while it runs returns `HELD`."""
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(NOW))
    assert await store.extend([claim], LONG) == [Held.HELD]


async def test_each_claim_gets_its_own_answer(store: Store, clock: Ticker) -> None:
    """`extend` returns one answer for each claim, in the order of the claims."""
    stale, heir = await lost(store, clock)
    stopping = await running(store)
    await store.amend([stopping.id], CancelJob(keep=HOUR))
    nobody = replace(heir, id="f" * 32, ref=None)
    answers = await store.extend([stale, stopping, heir, nobody], LONG)
    assert answers == [Held.LOST, Held.CANCEL, Held.HELD, Held.LOST]


async def test_extending_one_claim_often_extends_no_other(store: Store) -> None:
    """I4 bounded duplicates: naming one claim ten times does not extend others that were claimed
    with it."""
    await store.enqueue(jobs(10))
    first, *others = await claims(store, 10, lease=LONG)
    before = [await look(store, claim.id) for claim in others]
    assert await store.extend([first] * 10, HOUR) == [Held.HELD] * 10
    assert [await look(store, claim.id) for claim in others] == before


async def test_a_stale_claim_does_not_keep_the_current_one_from_being_extended(
    store: Store, clock: Ticker
) -> None:
    """I4 bounded duplicates: one call may name an old claim of a job and the current one."""
    stale, heir = await lost(store, clock)
    assert await store.extend([stale, heir], HOUR) == [Held.LOST, Held.HELD]
    assert ((await look(store, heir.id)).lease_until or 0) >= heir.at + HOUR
