"""Debounce and throttle: what an enqueue does that meets a job with its unique key."""

import asyncio
from typing import Any

from mita.model.job import NewJob, Receipt, State
from mita.model.outcome import CancelJob
from mita.model.time import HOUR, NOW, When
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
    done,
    job,
    look,
    put,
    retry,
    running,
    settled,
    state_of,
    succeed,
)

KEY = "doc:7"


def debounced(wait: int = LONG, most: int = 0, **more: object) -> NewJob:
    """An enqueue with a debounce."""
    first = {"unique": KEY, "when": When(wait), "debounce": wait, "debounce_max": most}
    return job(**{**first, **more})


async def test_a_debounce_moves_the_waiting_job(store: Store) -> None:
    """A second enqueue moves the job to its own due time; the receipt names that job."""
    first, second = debounced(SOON), debounced(LONG)
    assert await store.enqueue([first]) == [Receipt(first.id)]
    before = await look(store, first.id)
    assert await store.enqueue([second]) == [Receipt(first.id, created=False)]
    after = await look(store, first.id)
    assert after.due >= before.due + LONG - SOON
    assert after.created == before.created
    assert await store.find([second.id]) == [None]


async def test_a_debounce_replaces_the_arguments(store: Store) -> None:
    """The job that runs has the arguments, options and headers of the newest enqueue."""
    newest: dict[str, Any] = {"payload": b"new", "options": b"\x80", "headers": b"\x81\xa1h\x01"}
    first, second = debounced(payload=b"old"), debounced(**newest)
    await store.enqueue([first])
    await store.enqueue([second])
    found = await look(store, first.id)
    assert {name: getattr(found, name) for name in newest} == newest
    assert [line.kind for line in await store.timeline(first.id)] == ["debounced"]


async def test_a_debounce_ends_at_its_longest_wait(store: Store) -> None:
    """A job is never moved past its first enqueue plus `debounce_max`."""
    first = debounced(SOON, most=LONG)
    await store.enqueue([first])
    created = (await look(store, first.id)).created
    await store.enqueue([debounced(2 * LONG, most=LONG)])
    assert (await look(store, first.id)).due == created + LONG


async def test_debounced_jobs_run_once(store: Store, clock: Ticker) -> None:
    """Many enqueues in a row lead to one run, with the newest arguments."""
    ids = []
    for n in range(5):
        [receipt] = await store.enqueue([debounced(SHORT, payload=bytes([n]))])
        ids.append(receipt.id)
    assert len(set(ids)) == 1
    await clock.tick(PAST)
    [claim] = await claims(store)
    assert (claim.id, claim.payload) == (ids[0], bytes([4]))


async def test_concurrent_debounces_make_one_job(store: Store, twin: Store) -> None:
    """One act: there is no window in which two jobs with one key wait."""
    found = await asyncio.gather(
        *(one.enqueue([debounced()]) for one in (store, twin) for _ in range(8))
    )
    assert sum(receipt.created for [receipt] in found) == 1
    assert len({receipt.id for [receipt] in found}) == 1


async def test_a_debounce_in_one_batch(store: Store) -> None:
    """Jobs of one enqueue act on each other in their order."""
    first, second = debounced(payload=b"1"), debounced(payload=b"2")
    assert await store.enqueue([first, second]) == [
        Receipt(first.id),
        Receipt(first.id, created=False),
    ]
    assert (await look(store, first.id)).payload == b"2"


async def test_a_debounce_while_the_job_runs_makes_a_new_job(store: Store, clock: Ticker) -> None:
    """The newest arguments are never lost: a run that has begun with older ones is followed by
    another. The key then belongs to the new job."""
    claim = await running(store, unique=KEY)
    new = debounced(SHORT, payload=b"new")
    assert await store.enqueue([new]) == [Receipt(new.id)]
    third = debounced(SHORT, payload=b"newer")
    assert await store.enqueue([third]) == [Receipt(new.id, created=False)]
    await settled(store, succeed(claim))
    assert await store.enqueue([debounced(SHORT)]) == [Receipt(new.id, created=False)]
    await clock.tick(PAST)
    assert await claimed_ids(store) == [new.id]


async def test_a_run_that_is_retried_leaves_the_key_to_the_new_job(store: Store) -> None:
    """A job that lost its key and goes back to the queue does not take it again."""
    claim = await running(store, unique=KEY)
    new = debounced()
    await store.enqueue([new])
    await settled(store, retry(claim))
    assert await store.enqueue([debounced()]) == [Receipt(new.id, created=False)]
    again = await claims(store)
    assert [one.id for one in again] == [claim.id]
    await settled(store, *map(succeed, again))
    assert await store.enqueue([debounced()]) == [Receipt(new.id, created=False)]


async def test_a_debounce_after_the_end_makes_a_new_job(store: Store) -> None:
    """A job that has ended is not moved."""
    await done(store, unique=KEY)
    new = debounced()
    assert await store.enqueue([new]) == [Receipt(new.id)]


async def test_a_debounce_moves_a_blocked_job(store: Store, clock: Ticker) -> None:
    """A job that waits for a key is moved too, and waits no longer for the key meanwhile."""
    holder = await running(store, resource="k")
    id = await put(store, unique=KEY, resource="k")
    assert await claimed_ids(store) == []
    assert await state_of(store, id) is State.BLOCKED
    await store.enqueue([debounced(SHORT, resource="k")])
    assert await state_of(store, id) is State.QUEUED
    await settled(store, succeed(holder))
    await clock.tick(PAST)
    assert await claimed_ids(store) == [id]


async def test_a_debounce_notifies(store: Store, twin: Store) -> None:
    """A worker that sleeps until the old due time hears of an earlier one."""
    await store.enqueue([debounced(LONG)])
    await twin.claim([QUEUE], 1, LONG, "w2")
    await twin.wait([QUEUE], 0.2)
    waiting = asyncio.ensure_future(twin.wait([QUEUE], notify.WAKE_UP_TIMEOUT_S))
    await asyncio.sleep(0.05)
    await store.enqueue([debounced(SHORT)])
    assert QUEUE in await waiting


def throttled(wait: int = SOON, **more: object) -> NewJob:
    """An enqueue with a throttle."""
    return job(**{"unique": KEY, "throttle": wait, **more})


async def test_a_throttle_lets_one_job_in(store: Store, clock: Ticker) -> None:
    """In the time of a throttle every further enqueue gets the first job, even after its end."""
    first = throttled()
    assert await store.enqueue([first]) == [Receipt(first.id)]
    [claim] = await claims(store)
    assert await store.enqueue([throttled()]) == [Receipt(first.id, created=False)]
    await settled(store, succeed(claim))
    assert await store.enqueue([throttled()]) == [Receipt(first.id, created=False)]
    await clock.tick(PAST_SOON)
    second = throttled()
    assert await store.enqueue([second]) == [Receipt(second.id)]


async def test_a_throttle_counts_from_the_enqueue(store: Store, clock: Ticker) -> None:
    """After its time the next job is let in, even if the first one still waits or runs."""
    first = throttled(SHORT)
    await store.enqueue([first])
    [claim] = await claims(store)
    await clock.tick(PAST)
    second = throttled(LONG)
    assert await store.enqueue([second]) == [Receipt(second.id)]
    await settled(store, succeed(claim))
    assert await store.enqueue([throttled()]) == [Receipt(second.id, created=False)], (
        "the end of the first job does not free the key of the second"
    )


async def test_a_throttle_outlives_its_job(store: Store) -> None:
    """A job that is deleted at its end leaves the key taken until the throttle is over."""
    first = throttled(LONG)
    await store.enqueue([first])
    [claim] = await claims(store)
    await settled(store, succeed(claim, keep=0))
    assert await store.enqueue([throttled(LONG)]) == [Receipt(first.id, created=False)]


async def test_a_throttled_job_that_is_cancelled_keeps_the_key(store: Store) -> None:
    """Cancelling does not reset a throttle."""
    first = throttled(LONG, when=When(LONG))
    await store.enqueue([first])
    await store.amend([first.id], CancelJob(keep=HOUR))
    assert await store.enqueue([throttled(LONG, when=NOW)]) == [Receipt(first.id, created=False)]


async def test_pruning_frees_a_throttle_that_is_over(store: Store, clock: Ticker) -> None:
    """`prune` forgets keys whose throttle is over, and no others."""
    first, other = throttled(SHORT), throttled(LONG, unique="doc:8")
    await store.enqueue([first, other])
    await clock.tick(PAST)
    await store.prune(100, 100)
    again = throttled(SHORT)
    assert await store.enqueue([again]) == [Receipt(again.id)]
    assert await store.enqueue([throttled(LONG, unique="doc:8")]) == [
        Receipt(other.id, created=False)
    ]


async def test_a_debounce_after_its_longest_wait_makes_the_job_due_now(
    store: Store, clock: Ticker
) -> None:
    """A job that waited longer than the `debounce_max` of a new enqueue is due at once, and not in
    the past."""
    first = debounced(LONG)
    await store.enqueue([first])
    await clock.tick(PAST)
    before = await store.now()
    await store.enqueue([debounced(SHORT, most=SHORT)])
    assert before <= (await look(store, first.id)).due <= await store.now()
    assert await claimed_ids(store) == [first.id]
