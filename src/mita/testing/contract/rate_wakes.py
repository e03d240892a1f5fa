"""Jobs that wait at a rate: which of them the clock wakes, how many, and when."""

from collections.abc import Awaitable, Callable
from typing import Any

from mita.model.job import State
from mita.model.outcome import CancelJob, RescheduleJob, Settlement, Verdict
from mita.model.time import HOUR, When
from mita.ports.store import Can, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST_SOON,
    QUEUE,
    SOON,
    claimed_ids,
    claims,
    exact,
    job,
    needs,
    put,
    put_many,
    settled,
    state_of,
)
from .rates import SLOW


async def test_a_rate_wakes_as_many_jobs_as_it_has_tokens(store: Store, clock: Ticker) -> None:
    """A token wakes one job, and the others stay blocked."""
    needs(store, Can.KEEP_EXACT_ORDER)
    ids = await put_many(store, 6, gates=SLOW)
    assert await claimed_ids(store) == ids[:1]
    await clock.tick(PAST_SOON)
    await store.pause([QUEUE])
    await store.reap(10, LONG, "w2")  # wakes what may start, although nothing is claimed
    await store.reap(10, LONG, "w2")
    states = [await state_of(store, id) for id in ids[1:]]
    assert states == [State.QUEUED, *[State.BLOCKED] * 4]
    await store.resume([QUEUE])
    assert await claimed_ids(store) == ids[1:2]


async def test_the_first_waiting_job_gets_the_next_token(store: Store, clock: Ticker) -> None:
    """Priority and then age decide which job gets a token."""
    needs(store, Can.KEEP_EXACT_ORDER)
    await put(store, gates=SLOW, priority=9)
    assert len(await claims(store)) == 1
    low, first, high = [await put(store, gates=SLOW, priority=p) for p in (1, 5, 8)]
    assert await claims(store) == []
    assert [await store.ahead(id) for id in (high, first, low)] == [0, 1, 2]
    for expected in (high, first, low):
        await clock.tick(PAST_SOON)
        assert await claimed_ids(store) == [expected]


async def test_a_cancelled_waiter_leaves_its_turn_to_the_next(store: Store, clock: Ticker) -> None:
    """A job that is cancelled while it waits takes no token."""
    _, cancelled, last = await put_many(store, 3, gates=SLOW)
    assert len(await claims(store)) == 1
    await store.amend([cancelled], CancelJob(keep=HOUR))
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [last]


async def test_a_claim_does_not_ask_again_for_a_key_that_no_job_waits_for_any_more(
    store: Store, clock: Ticker
) -> None:
    """The only job that waits for a token is cancelled, is rescheduled, or is moved by a debounce:
    then the clock has nothing to wake. (A store that keeps its own time may ask once in vain.)"""
    needs(store, Can.OBEY_A_FAKE_CLOCK)
    moved = {"unique": "u", "debounce": LONG, "debounce_max": LONG}

    def leaves(id: str) -> list[Callable[[], Awaitable[Any]]]:
        return [
            lambda: store.enqueue([job(gates=SLOW, **moved)]),
            lambda: store.amend([id], RescheduleJob(When(LONG))),
            lambda: store.amend([id], CancelJob(keep=0)),
        ]

    for way in range(3):
        await put(store, gates=SLOW)
        id = await put(store, gates=SLOW, unique="u")
        turn = await store.claim([QUEUE], 5, LONG, "w1")
        assert len(turn.claims) == 1
        assert turn.again is not None
        assert turn.again <= SOON
        await leaves(id)[way]()
        turn = await store.claim([QUEUE], 5, LONG, "w1")
        assert turn.again is None or turn.again > SOON, "not when the rate has its next token"
        await store.amend([id], CancelJob(keep=0))
        await clock.tick(PAST_SOON)


async def test_a_woken_job_that_never_starts_takes_no_token(store: Store, clock: Ticker) -> None:
    """A token is taken at the start and not at the wake-up: if the job that was woken is cancelled
    before it starts, another job has the token."""
    needs(store, Can.KEEP_EXACT_ORDER)
    first, woken = await put_many(store, 2, gates=SLOW)
    assert await claimed_ids(store) == [first]
    await clock.tick(PAST_SOON)
    await store.pause([QUEUE])
    await store.reap(10, LONG, "w2")
    assert await state_of(store, woken) is State.QUEUED
    await store.amend([woken], CancelJob(keep=HOUR))
    await store.resume([QUEUE])
    other = await put(store, gates=SLOW)
    assert await claimed_ids(store) == [other]


async def test_a_claim_asks_again_when_the_next_job_can_be_woken(
    store: Store, clock: Ticker
) -> None:
    """I12 self-heal: a token was used to wake a job that then never started. A claim names the time
    at which the rate wakes the next job, neither "now" nor "never"."""
    needs(store, Can.KEEP_EXACT_ORDER)
    first, woken, last = await put_many(store, 3, gates=SLOW)
    assert await claimed_ids(store) == [first]
    await clock.tick(PAST_SOON)
    await store.pause([QUEUE])
    await store.reap(10, LONG, "w2")
    assert await state_of(store, woken) is State.QUEUED
    await store.amend([woken], CancelJob(keep=HOUR))
    await store.resume([QUEUE])
    turn = await store.claim([QUEUE], 10, LONG, "w1")
    assert turn.claims == []
    assert turn.again is not None
    assert turn.again == SOON if exact(store, clock) else 0 < turn.again <= SOON
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [last]


async def test_a_rate_that_jobs_wait_for_is_not_forgotten(store: Store, clock: Ticker) -> None:
    """`prune` leaves a rate alone that has woken jobs which did not start yet: its token wakes no
    second job."""
    needs(store, Can.KEEP_EXACT_ORDER)
    ids = await put_many(store, 3, gates=SLOW)
    assert await claimed_ids(store) == ids[:1]
    await clock.tick(PAST_SOON)
    await store.pause([QUEUE])
    await store.reap(10, LONG, "w2")
    await store.prune(10, 10)
    await store.reap(10, LONG, "w2")
    states = [await state_of(store, id) for id in ids[1:]]
    assert states == [State.QUEUED, State.BLOCKED]


async def test_a_job_that_ends_unstarted_leaves_its_token_to_the_next(store: Store) -> None:
    """A claimed job that expired gives its token back, and the job that waits for it starts."""
    first, second = await put_many(store, 2, gates=SLOW)
    [claim] = await claims(store)
    assert claim.id == first
    expired = Verdict(state=State.CANCELLED, keep=HOUR, unstarted=True)
    await settled(store, Settlement(claim, expired))
    assert await claimed_ids(store) == [second]
