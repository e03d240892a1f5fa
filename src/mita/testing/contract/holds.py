"""A resource key on hold: no job of the key starts before the hold ends."""

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


async def test_no_job_of_a_held_key_starts(store: Store, twin: Store) -> None:
    """A job whose key is on hold becomes blocked, and no attempt is counted."""
    await twin.hold([QUEUE], KEY, When(LONG))
    id, other = await put(store, resource=KEY), await put(store, resource="else")
    assert await claimed_ids(store) == [other]
    after = await look(store, id)
    assert (after.state, after.busy, after.attempts) == (State.BLOCKED, 1, 0)


async def test_a_hold_ends_by_itself(store: Store, clock: Ticker) -> None:
    """I12 self-heal: when the time of a hold is over its jobs can be claimed, and a claim says when
    that will be."""
    await store.hold([QUEUE], KEY, When(SOON))
    id = await put(store, resource=KEY)
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert turn.claims == []
    assert turn.again is not None
    assert turn.again == SOON if exact(store, clock) else turn.again <= SOON
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [id]
    assert [view.held_until for view in await store.resources()] == [None]


async def test_the_end_of_a_hold_wakes_as_many_jobs_as_may_run(store: Store, clock: Ticker) -> None:
    """I5 key mutex, I9 no starvation: after a hold as many jobs run as the limit of the key
    allows."""
    await store.hold([QUEUE], KEY, When(SOON))
    await put_many(store, 3, resource=KEY, limit=2)
    assert await claims(store) == []
    await clock.tick(PAST_SOON)
    assert len(await claims(store)) == 2


async def test_reap_ends_expired_holds_in_every_queue(store: Store, clock: Ticker) -> None:
    """I12 self-heal: a reap makes the jobs of an expired hold ready, whether or not their queue is
    claimed from."""
    await store.hold([QUEUE], KEY, When(SOON))
    id = await put(store, resource=KEY)
    assert await claims(store) == []
    await clock.tick(PAST_SOON)
    await store.reap(10, LONG, "w2")
    assert await state_of(store, id) is State.QUEUED


async def test_a_hold_can_be_lifted(store: Store) -> None:
    """A hold until now makes its jobs ready at once."""
    await store.hold([QUEUE], KEY, When(LONG))
    id = await put(store, resource=KEY)
    assert await claims(store) == []
    await store.hold([QUEUE], KEY, NOW)
    assert await state_of(store, id) is State.QUEUED
    assert await claimed_ids(store) == [id]


async def test_a_hold_can_be_made_shorter_and_longer(store: Store, clock: Ticker) -> None:
    """A new hold replaces the old one."""
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
    """A hold of a key in some queues does not affect the key in others."""
    await store.hold(["a", "b"], KEY, When(LONG))
    ids = [await put(store, resource=KEY, queue=queue) for queue in ("a", "b", "c")]
    assert await claimed_ids(store, queues=["a", "b", "c"]) == [ids[2]]


async def test_a_hold_does_not_stop_running_jobs(store: Store) -> None:
    """A job that runs goes on; its end wakes no job of the held key."""
    claim = await running(store, resource=KEY)
    await store.hold([QUEUE], KEY, When(LONG))
    waiting = await put(store, resource=KEY)
    assert await claims(store) == []
    await settled(store, succeed(claim))
    assert await state_of(store, waiting) is State.BLOCKED, "its end wakes no job of the key"


async def test_an_unavailable_resource_puts_its_key_on_hold(store: Store, clock: Ticker) -> None:
    """I6 attempts: a run that finds its resource unavailable makes every job of the key wait, and
    none of them counts an attempt."""
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


async def test_a_cancelled_run_still_puts_its_key_on_hold(store: Store) -> None:
    """The hold of a verdict counts even if the job ends as cancelled."""
    claim = await running(store, resource=KEY)
    verdict = Verdict(state=State.CANCELLED, hold=When(LONG), keep=HOUR)
    await settled(store, Settlement(claim, verdict))
    await put(store, resource=KEY)
    assert await claims(store) == []


async def test_a_hold_of_no_length_stops_no_job(store: Store) -> None:
    """After a hold that ends at once the next job of the key is ready."""
    needs(store, Can.KEEP_EXACT_ORDER)
    claim = await running(store, resource=KEY)
    waiting = await put_many(store, 2, resource=KEY)
    assert await claims(store) == []
    await settled(store, refuse(claim, 0))
    states = [await state_of(store, id) for id in (claim.id, *waiting)]
    assert sorted(states) == [State.BLOCKED, State.BLOCKED, State.QUEUED]
    assert await claimed_ids(store) == [claim.id]


async def test_a_hold_is_shown_until_it_ends(store: Store, clock: Ticker) -> None:
    """`resources` lists a held key with the end of the hold, and not afterwards."""
    now = await store.now()
    await store.hold([QUEUE], KEY, When(at=now + SOON))
    [view] = await store.resources()
    assert (view.queue, view.key, view.holders, view.waiting) == (QUEUE, KEY, (), 0)
    assert view.held_until == now + SOON
    await clock.tick(PAST_SOON)
    assert await store.resources() == []


async def test_a_claim_returns_the_end_of_a_hold_only_if_a_job_waits_for_it(store: Store) -> None:
    """I14 bounded: a hold that no job waits for does not make workers claim again."""
    await store.hold([QUEUE], KEY, When(LONG))
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert turn.again is None
