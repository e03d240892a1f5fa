"""A resource that is not there for anybody until then."""

from mita.model.job import State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Can, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    QUEUE,
    SHORT,
    SOON,
    claim_one,
    claimed_ids,
    claims,
    exact,
    look,
    needs,
    put,
    put_many,
    refuse,
    running,
    settled,
    state_of,
    succeed,
)

KEY = "partner"


async def test_nobody_with_a_key_on_hold_starts(store: Store, twin: Store) -> None:
    await twin.hold([QUEUE], KEY, When(LONG))
    id, other = await put(store, resource=KEY), await put(store, resource="else")
    assert await claimed_ids(store) == [other]
    after = await look(store, id)
    assert (after.state, after.busy, after.attempts) == (State.BLOCKED, 1, 0)


async def test_a_hold_runs_out_by_itself(store: Store, clock: Ticker) -> None:
    """I12"""
    await store.hold([QUEUE], KEY, When(SOON))
    id = await put(store, resource=KEY)
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert turn.claims == []
    assert turn.again is not None
    assert turn.again == SOON if exact(store, clock) else turn.again <= SOON
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [id]
    assert [view.held_until for view in await store.resources()] == [None]


async def test_a_hold_that_ran_out_wakes_as_many_as_may_run(store: Store, clock: Ticker) -> None:
    """I5 I9"""
    await store.hold([QUEUE], KEY, When(SOON))
    await put_many(store, 3, resource=KEY, limit=2)
    assert await claims(store) == []
    await clock.tick(PAST_SOON)
    assert len(await claims(store)) == 2


async def test_a_sweep_ends_holds_in_every_queue(store: Store, clock: Ticker) -> None:
    """I12"""
    await store.hold([QUEUE], KEY, When(SOON))
    id = await put(store, resource=KEY)
    assert await claims(store) == []
    await clock.tick(PAST_SOON)
    await store.reap(10, LONG, "w2")
    assert await state_of(store, id) is State.QUEUED


async def test_a_hold_can_be_lifted(store: Store) -> None:
    await store.hold([QUEUE], KEY, When(LONG))
    id = await put(store, resource=KEY)
    assert await claims(store) == []
    await store.hold([QUEUE], KEY, NOW)
    assert await state_of(store, id) is State.QUEUED
    assert await claimed_ids(store) == [id]


async def test_a_hold_can_be_made_shorter_and_longer(store: Store, clock: Ticker) -> None:
    await store.hold([QUEUE], KEY, When(LONG))
    await store.hold([QUEUE], KEY, When(SOON))
    id = await put(store, resource=KEY)
    assert await claims(store) == []
    await store.hold([QUEUE], KEY, When(LONG))
    await clock.tick(PAST_SOON)
    assert await claims(store) == []
    await store.hold([QUEUE], KEY, When(SHORT))
    await clock.tick(PAST)
    assert await claimed_ids(store) == [id]


async def test_a_hold_concerns_only_its_queues(store: Store) -> None:
    await store.hold(["a", "b"], KEY, When(LONG))
    ids = [await put(store, resource=KEY, queue=queue) for queue in ("a", "b", "c")]
    assert await claimed_ids(store, queues=["a", "b", "c"]) == [ids[2]]


async def test_a_hold_does_not_touch_who_runs_already(store: Store) -> None:
    claim = await running(store, resource=KEY)
    await store.hold([QUEUE], KEY, When(LONG))
    waiting = await put(store, resource=KEY)
    assert await claims(store) == []
    await settled(store, succeed(claim))
    assert await state_of(store, waiting) is State.BLOCKED, "and its end wakes nobody"


async def test_a_refused_run_puts_its_whole_key_on_hold(store: Store, clock: Ticker) -> None:
    """I6"""
    claim = await running(store, resource=KEY)
    other = await put(store, resource=KEY)
    assert await claims(store) == []
    await settled(store, refuse(claim, SOON))
    after = await look(store, claim.id)
    assert (after.state, after.busy, after.attempts) == (State.BLOCKED, 1, 0)
    assert (after.worker, after.lease_until) == (None, None)
    third = await put(store, resource=KEY)
    assert await claims(store) == []
    assert [await state_of(store, id) for id in (other, third)] == [State.BLOCKED] * 2
    await clock.tick(PAST_SOON)
    started = []
    for _ in range(3):
        claim = await claim_one(store)
        started.append(claim.id)
        await settled(store, succeed(claim))
    assert sorted(started) == sorted([after.id, other, third])


async def test_a_job_that_was_asked_to_stop_still_puts_its_key_on_hold(store: Store) -> None:
    claim = await running(store, resource=KEY)
    verdict = Verdict(state=State.CANCELLED, hold=When(LONG), keep=HOUR)
    await settled(store, Settlement(claim, verdict))
    await put(store, resource=KEY)
    assert await claims(store) == []


async def test_a_hold_that_is_over_before_it_begins_stops_nobody(store: Store) -> None:
    needs(store, Can.KEEP_EXACT_ORDER)
    claim = await running(store, resource=KEY)
    waiting = await put_many(store, 2, resource=KEY)
    assert await claims(store) == []
    await settled(store, refuse(claim, 0))
    states = [await state_of(store, id) for id in (claim.id, *waiting)]
    assert sorted(states) == [State.BLOCKED, State.BLOCKED, State.QUEUED]
    assert await claimed_ids(store) == [claim.id]


async def test_a_hold_is_shown_until_it_ends(store: Store, clock: Ticker) -> None:
    now = await store.now()
    await store.hold([QUEUE], KEY, When(at=now + SOON))
    [view] = await store.resources()
    assert (view.queue, view.key, view.holders, view.waiting) == (QUEUE, KEY, (), 0)
    assert view.held_until == now + SOON
    await clock.tick(PAST_SOON)
    assert await store.resources() == []


async def test_a_sleeper_is_told_only_of_holds_that_somebody_waits_for(store: Store) -> None:
    """I14"""
    await store.hold([QUEUE], KEY, When(LONG))
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert turn.again is None
