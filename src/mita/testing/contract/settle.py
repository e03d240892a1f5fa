"""Settling claims: each once, and only by its newest token."""

import asyncio

from msgspec.structs import replace

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
    TimelineKind,
    Verdict,
)
from mita.model.time import HOUR, NOW
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    QUEUE,
    SHORT,
    claimed_ids,
    claims,
    done,
    fail,
    gone,
    job,
    look,
    lost,
    put,
    put_many,
    retry,
    running,
    settled,
    state_of,
    stop,
    succeed,
)


async def test_success_stores_the_result_and_its_retention(store: Store, clock: Ticker) -> None:
    """A succeeded job has its result, the time of its end and the time at which it is pruned."""
    claim = await running(store)
    await clock.tick(SHORT)
    await settled(store, succeed(claim, b"\x00\xffresult", keep=HOUR))
    after = await look(store, claim.id)
    assert (after.state, after.result, after.error) == (State.SUCCEEDED, b"\x00\xffresult", None)
    assert after.finished is not None
    assert after.finished >= claim.at + SHORT
    assert after.expires == after.finished + HOUR
    assert (after.lease_until, after.asked) == (None, None)


async def test_failure_stores_the_error(store: Store) -> None:
    """A failed job has its error text, as it was given."""
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


async def test_a_claim_is_settled_once(store: Store, twin: Store) -> None:
    """I3 one outcome: a second settlement of one claim is refused and changes nothing."""
    claim = await running(store)
    assert await store.settle([retry(claim)]) == [True]
    before = await look(store, claim.id)
    assert await twin.settle([succeed(claim)]) == [False]
    assert await look(store, claim.id) == before


async def test_a_claim_is_settled_once_even_in_one_batch(store: Store) -> None:
    """I3 one outcome: of two settlements of one claim in one call only the first counts."""
    one, two = await running(store), await running(store)
    assert await store.settle([succeed(one, b"1"), succeed(one, b"2")]) == [True, False]
    assert (await look(store, one.id)).result == b"1"
    assert await store.settle([retry(two), succeed(two)]) == [True, False]
    assert await state_of(store, two.id) is State.QUEUED


async def test_of_concurrent_settlements_of_one_claim_one_counts(store: Store, twin: Store) -> None:
    """I3 one outcome: of ten concurrent settlements of one claim exactly one is accepted."""
    claim = await running(store)
    answers = await asyncio.gather(
        *(handle.settle([succeed(claim)]) for handle in [store, twin] * 5)
    )
    assert sum(took for [took] in answers) == 1


async def test_a_stale_claim_is_refused_beside_the_current_one(store: Store, clock: Ticker) -> None:
    """I3 one outcome: in one call the old claim of a job is refused and the current one
    accepted."""
    stale, heir = await lost(store, clock)
    assert await store.settle([succeed(stale, b"late"), succeed(heir, b"mine")]) == [False, True]
    assert (await look(store, heir.id)).result == b"mine"


async def test_a_claim_that_was_never_made_is_refused(store: Store) -> None:
    """I2 no phantom: a settlement with a token that was never given out is refused."""
    claim = await running(store)
    assert await store.settle([succeed(replace(claim, token=claim.token + 1))]) == [False]
    assert await state_of(store, claim.id) is State.RUNNING


async def test_a_claim_of_a_deleted_job_cannot_change_later_jobs(
    store: Store, clock: Ticker
) -> None:
    """I3 one outcome: a store must not reuse what it identifies its rows by."""
    stale, heir = await lost(store, clock)
    await settled(store, succeed(heir, keep=0))
    later = await running(store)
    assert await store.settle([succeed(stale), succeed(heir)]) == [False, False]
    assert await state_of(store, later.id) is State.RUNNING


async def test_each_settlement_of_a_batch_stands_by_itself(store: Store) -> None:
    """I3 one outcome: a refused settlement does not affect the others of its call."""
    good, gone_, other = await running(store), await running(store), await running(store)
    await settled(store, succeed(gone_, keep=0))
    assert await store.settle([succeed(good), retry(gone_), fail(other)]) == [True, False, True]
    assert [await state_of(store, id) for id in (good.id, other.id)] == [
        State.SUCCEEDED,
        State.FAILED,
    ]


async def test_a_job_that_is_not_kept_leaves_nothing(store: Store) -> None:
    """With retention 0 an ended job has no record and no timeline."""
    await put_many(store, 3)
    good, bad, stopped = await claims(store)
    await settled(store, succeed(good, keep=0), fail(bad, keep=0), stop(stopped, keep=0))
    for claim in (good, bad, stopped):
        assert await gone(store, claim.id)
        assert await store.timeline(claim.id) == []
    [view] = await store.queues()
    assert (view.succeeded, view.failed, view.cancelled) == (0, 0, 0)


async def test_a_result_belongs_to_a_job_that_succeeded(store: Store) -> None:
    """A verdict of another state stores no result."""
    claim = await running(store)
    await settled(
        store,
        Settlement(claim, Verdict(state=State.FAILED, result=b"half", error="Boom", keep=HOUR)),
    )
    assert (await look(store, claim.id)).result is None


async def test_an_ended_job_stays_as_it_ended(store: Store) -> None:
    """I10 terminal is terminal: no amendment but a retry of a failed or cancelled job changes an
    ended job."""
    claim = await running(store)
    await settled(store, succeed(claim))
    before = await look(store, claim.id)
    for change in (RescheduleJob(NOW), CancelJob(keep=0), PrioritiseJob(9), RetryJob(NOW)):
        assert await store.amend([claim.id], change) == [Answer.TOO_LATE]
    assert await store.enqueue([job(id=claim.id)])
    assert await claimed_ids(store) == []
    assert await store.reap(10, LONG, "w2") == []
    assert await look(store, claim.id) == before


async def test_settle_and_claim_settles_first(store: Store) -> None:
    """A key that a settlement frees can be claimed in the same call."""
    claim = await running(store, resource="r")
    waiting = await put(store, resource="r")
    assert await claimed_ids(store) == []
    turn = await store.settle_and_claim([succeed(claim), succeed(claim)], [QUEUE], 10, LONG, "w1")
    assert turn.took == [True, False]
    assert [held.id for held in turn.claims] == [waiting]


async def test_many_jobs_are_settled_in_one_call(store: Store) -> None:
    """I1 no loss: one call settles 700 jobs and claims the next ones."""
    await store.enqueue([job() for _ in range(1200)])
    first = await store.claim([QUEUE], 700, LONG, "w1")
    turn = await store.settle_and_claim(
        [succeed(claim) for claim in first.claims], [QUEUE], 700, LONG, "w1"
    )
    assert turn.took == [True] * 700
    assert await store.settle([succeed(claim) for claim in turn.claims]) == [True] * 500
    assert (await store.queues())[0].succeeded == 1200


async def test_a_verdict_writes_a_timeline_line_with_the_name_of_the_worker(store: Store) -> None:
    """A verdict with an event writes one line; a plain success writes none."""
    assert await store.timeline(await done(store)) == [], "the happy path writes none"
    claim = await running(store, worker="w9")
    await settled(store, retry(claim, error="Boom"))
    [line] = await store.timeline(claim.id)
    assert line == TimelineEntry(line.at, "retried", "Boom", "w9")
    assert line.at >= claim.at


async def test_a_claim_that_was_not_started_goes_back_as_if_it_had_never_been_made(
    store: Store,
) -> None:
    """An unstarted verdict that returns the job to the queue counts nothing, writes no timeline
    entry and keeps the due time; the job can be claimed again at once."""
    claim = await running(store)
    before = await look(store, claim.id)
    assert await store.settle([Settlement(claim, Verdict(state=State.QUEUED, unstarted=True))]) == [
        True
    ]
    after = await look(store, claim.id)
    assert (after.state, after.due, after.error) == (State.QUEUED, before.due, None)
    assert [getattr(after, counter) for counter in Counter] == [0] * len(Counter)
    assert await store.timeline(claim.id) == []
    assert await claimed_ids(store) == [claim.id]


async def test_a_claim_that_expired_ends_as_cancelled_and_frees_its_keys(store: Store) -> None:
    """An unstarted verdict that ends the job counts nothing, is in the timeline, and frees the
    unique key and the resource key."""
    await put(store, resource="partner", unique="once")
    [claim] = await claims(store)
    waiting = await put(store, resource="partner")
    assert await claims(store) == []
    expired = Verdict(
        state=State.CANCELLED,
        keep=HOUR,
        unstarted=True,
        event=TimelineKind.EXPIRED,
        note="not started in time",
    )
    assert await store.settle([Settlement(claim, expired)]) == [True]
    after = await look(store, claim.id)
    assert (after.state, after.error, after.result) == (State.CANCELLED, None, None)
    assert after.finished is not None
    assert after.expires == after.finished + HOUR
    assert [getattr(after, counter) for counter in Counter] == [0] * len(Counter)
    [line] = await store.timeline(claim.id)
    assert (line.kind, line.note) == ("expired", "not started in time")
    assert await claimed_ids(store) == [waiting]
    await put(store, unique="once")
