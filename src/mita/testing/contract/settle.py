"""Putting jobs down: once, by whoever holds the newest token."""

import asyncio

from msgspec.structs import asdict, replace

from mita.model.job import State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Counter,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    Settlement,
    TimelineEntry,
    Verdict,
)
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Store

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
    done,
    exact,
    fail,
    gone,
    job,
    look,
    lost,
    move,
    put,
    put_many,
    release,
    retry,
    running,
    settled,
    state_of,
    stop,
    succeed,
)


async def test_success_keeps_the_result_for_as_long_as_it_says(store: Store, clock: Ticker) -> None:
    claim = await running(store)
    await clock.tick(SHORT)
    await settled(store, succeed(claim, b"\x00\xffresult", keep=HOUR))
    after = await look(store, claim.id)
    assert (after.state, after.result, after.error) == (State.SUCCEEDED, b"\x00\xffresult", None)
    assert after.finished is not None
    assert after.finished >= claim.at + SHORT
    assert after.expires == after.finished + HOUR
    assert (after.lease_until, after.asked) == (None, None)


async def test_failure_keeps_the_error(store: Store) -> None:
    claim = await running(store)
    await settled(store, fail(claim, "Boom: naïve\n  at line 3", keep=LONG))
    after = await look(store, claim.id)
    assert (after.state, after.error, after.attempts) == (
        State.FAILED,
        "Boom: naïve\n  at line 3",
        1,
    )
    assert after.finished is not None
    assert after.expires == after.finished + LONG
    assert after.result is None


async def test_a_claim_is_put_down_once(store: Store, twin: Store) -> None:
    """I3"""
    claim = await running(store)
    assert await store.settle([retry(claim)]) == [True]
    before = await look(store, claim.id)
    assert await twin.settle([succeed(claim)]) == [False]
    assert await look(store, claim.id) == before


async def test_a_claim_is_put_down_once_even_in_one_batch(store: Store) -> None:
    """I3"""
    one, two = await running(store), await running(store)
    assert await store.settle([succeed(one, b"1"), succeed(one, b"2")]) == [True, False]
    assert (await look(store, one.id)).result == b"1"
    assert await store.settle([retry(two), succeed(two)]) == [True, False]
    assert await state_of(store, two.id) is State.QUEUED


async def test_of_many_who_settle_at_once_one_succeeds(store: Store, twin: Store) -> None:
    """I3"""
    claim = await running(store)
    answers = await asyncio.gather(
        *(handle.settle([succeed(claim)]) for handle in [store, twin] * 5)
    )
    assert sum(took for [took] in answers) == 1


async def test_a_stale_claim_is_refused_beside_the_one_that_holds(
    store: Store, clock: Ticker
) -> None:
    """I3"""
    stale, heir = await lost(store, clock)
    assert await store.settle([succeed(stale, b"late"), succeed(heir, b"mine")]) == [False, True]
    assert (await look(store, heir.id)).result == b"mine"


async def test_a_claim_nobody_made_is_refused(store: Store) -> None:
    """I2"""
    claim = await running(store)
    assert await store.settle([succeed(replace(claim, token=claim.token + 1))]) == [False]
    assert await state_of(store, claim.id) is State.RUNNING


async def test_a_claim_of_a_forgotten_job_cannot_touch_those_that_came_after(
    store: Store, clock: Ticker
) -> None:
    """I3: whatever a store calls its rows by must not be used twice."""
    stale, heir = await lost(store, clock)
    await settled(store, succeed(heir, keep=0))
    later = await running(store)
    assert await store.settle([succeed(stale), succeed(heir)]) == [False, False]
    assert await state_of(store, later.id) is State.RUNNING


async def test_each_item_of_a_batch_stands_by_itself(store: Store) -> None:
    """I3"""
    good, gone_, other = await running(store), await running(store), await running(store)
    await settled(store, succeed(gone_, keep=0))
    assert await store.settle([succeed(good), retry(gone_), fail(other)]) == [True, False, True]
    assert [await state_of(store, id) for id in (good.id, other.id)] == [
        State.SUCCEEDED,
        State.FAILED,
    ]


async def test_a_retry_waits_and_counts_an_attempt(store: Store, clock: Ticker) -> None:
    """I6 I8"""
    claim = await running(store)
    await clock.tick(SHORT)
    await settled(store, retry(claim, wait=SOON, error="Boom"))
    after = await look(store, claim.id)
    assert (after.state, after.attempts, after.error) == (State.QUEUED, 1, "Boom")
    assert (after.worker, after.lease_until, after.finished) == (None, None, None)
    assert after.due >= claim.at + SHORT + SOON, (
        "the wait counts from the settling, on the store's clock"
    )
    assert await claimed_ids(store) == []
    await clock.tick(PAST_SOON)
    again = await claim_one(store)
    assert (again.id, again.attempts) == (claim.id, 1)


async def test_a_wait_is_counted_by_the_store_and_not_by_the_caller(
    store: Store, clock: Ticker
) -> None:
    """I8: the claim is old when its verdict arrives."""
    claim = await running(store)
    await clock.tick(PAST)
    await settled(store, retry(claim, wait=SHORT))
    due = (await look(store, claim.id)).due
    assert due == claim.at + PAST + SHORT if exact(store, clock) else due >= claim.at + PAST + SHORT


async def test_a_job_can_put_itself_off_to_a_named_moment(store: Store) -> None:
    """I6 I8"""
    claim = await running(store)
    at = claim.at + LONG
    await settled(store, move(claim, When(at=at)))
    after = await look(store, claim.id)
    assert (after.state, after.due) == (State.QUEUED, at)
    assert (after.reschedules, after.attempts, after.error) == (1, 0, None)
    assert await claimed_ids(store) == []


async def test_a_moment_that_has_passed_means_now_for_a_moved_job_too(store: Store) -> None:
    claim = await running(store)
    await settled(store, move(claim, When(at=claim.at - LONG)))
    assert (await look(store, claim.id)).due >= claim.at
    assert await claimed_ids(store) == [claim.id]


async def test_each_thing_that_happens_has_its_own_counter(store: Store) -> None:
    """I6"""
    await put(store)
    expected = dict.fromkeys(Counter, 0)
    for n, counter in enumerate(Counter, start=1):
        for _ in range(n):
            claim = await claim_one(store)
            assert {name: asdict(claim)[name] for name in Counter} == expected, (
                "the claim tells it to the run"
            )
            await settled(store, Settlement(claim, Verdict(state=State.QUEUED, counts=counter)))
            expected[counter] += 1
    after = asdict(await look(store, (await claim_one(store)).id))
    assert {name: after[name] for name in Counter} == expected


async def test_a_released_job_is_as_it_was(store: Store) -> None:
    """I6"""
    id = await put(store)
    before = await look(store, id)
    claim = await claim_one(store)
    await settled(store, release(claim))
    after = await look(store, id)
    assert after == replace(before, token=claim.token, started=claim.at)
    assert await store.timeline(id) == []
    assert await claimed_ids(store) == [id]


async def test_the_last_error_stays_until_there_is_another(store: Store) -> None:
    claim = await running(store)
    await settled(store, retry(claim, error="first"))
    await settled(store, move(await claim_one(store)))
    assert (await look(store, claim.id)).error == "first"
    await settled(store, retry(await claim_one(store), error="second"))
    await settled(store, succeed(await claim_one(store)))
    after = await look(store, claim.id)
    assert (after.state, after.error) == (State.SUCCEEDED, "second")


async def test_a_job_that_is_not_kept_leaves_nothing(store: Store) -> None:
    await put_many(store, 3)
    good, bad, stopped = await claims(store)
    await settled(store, succeed(good, keep=0), fail(bad, keep=0), stop(stopped, keep=0))
    for claim in (good, bad, stopped):
        assert await gone(store, claim.id)
        assert await store.timeline(claim.id) == []
    [view] = await store.queues()
    assert (view.succeeded, view.failed, view.cancelled) == (0, 0, 0)


async def test_a_result_belongs_to_a_job_that_succeeded(store: Store) -> None:
    claim = await running(store)
    await settled(
        store,
        Settlement(claim, Verdict(state=State.FAILED, result=b"half", error="Boom", keep=HOUR)),
    )
    assert (await look(store, claim.id)).result is None


async def test_a_job_nobody_knows_is_marked_since_when(store: Store, clock: Ticker) -> None:
    stranded = Verdict(state=State.QUEUED, when=NOW, stranded=True)
    claim = await running(store)
    await settled(store, Settlement(claim, stranded))
    since = (await look(store, claim.id)).stranded
    assert since is not None
    await clock.tick(SHORT)
    claim = await claim_one(store)
    assert claim.stranded == since
    await settled(store, Settlement(claim, stranded))
    assert (await look(store, claim.id)).stranded == since, "since the first time"
    await settled(store, retry(await claim_one(store)))
    assert (await look(store, claim.id)).stranded is None, "somebody knew it"


async def test_an_ended_job_stays_as_it_ended(store: Store) -> None:
    """I10"""
    claim = await running(store)
    await settled(store, succeed(claim))
    before = await look(store, claim.id)
    for change in (RescheduleJob(NOW), CancelJob(keep=0), PrioritiseJob(9), RetryJob(NOW)):
        assert await store.amend([claim.id], change) == [Answer.TOO_LATE]
    assert await store.enqueue([job(id=claim.id)])
    assert await claimed_ids(store) == []
    assert await store.reap(10, LONG, "w2") == []
    assert await look(store, claim.id) == before


async def test_a_turn_settles_before_it_claims(store: Store) -> None:
    claim = await running(store, resource="r")
    waiting = await put(store, resource="r")
    assert await claimed_ids(store) == []
    turn = await store.settle_and_claim([succeed(claim), succeed(claim)], [QUEUE], 10, LONG, "w1")
    assert turn.took == [True, False]
    assert [held.id for held in turn.claims] == [waiting]


async def test_many_jobs_are_put_down_in_one_turn(store: Store) -> None:
    """I1"""
    await store.enqueue([job() for _ in range(1200)])
    first = await store.claim([QUEUE], 700, LONG, "w1")
    turn = await store.settle_and_claim(
        [succeed(claim) for claim in first.claims], [QUEUE], 700, LONG, "w1"
    )
    assert turn.took == [True] * 700
    assert await store.settle([succeed(claim) for claim in turn.claims]) == [True] * 500
    assert (await store.queues())[0].succeeded == 1200


async def test_a_verdict_writes_its_line_with_the_workers_name(store: Store) -> None:
    assert await store.timeline(await done(store)) == [], "the happy path writes none"
    claim = await running(store, worker="w9")
    await settled(store, retry(claim, error="Boom"))
    [line] = await store.timeline(claim.id)
    assert line == TimelineEntry(line.at, "retried", "Boom", "w9")
    assert line.at >= claim.at
