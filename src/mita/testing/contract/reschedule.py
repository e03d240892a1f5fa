"""Rescheduling a job in each of its states."""

from mita.model.job import State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Counter,
    RescheduleJob,
)
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Store

from .amend import blocked
from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    SOON,
    claim_one,
    claimed_ids,
    dead,
    done,
    fail,
    look,
    put,
    release,
    running,
    settled,
    state_of,
    stop,
    succeed,
)


async def test_a_queued_job_can_be_rescheduled_to_later_and_to_now(store: Store) -> None:
    """A queued job can be rescheduled to later and back to now; it counts the reschedules."""
    id = await put(store, priority=7)
    assert await store.amend([id], RescheduleJob(When(LONG))) == [Answer.DONE]
    assert await claimed_ids(store) == []
    assert await store.amend([id], RescheduleJob(NOW)) == [Answer.DONE]
    claim = await claim_one(store)
    assert (claim.id, claim.priority, claim.reschedules, claim.attempts) == (id, 7, 2, 0)


async def test_a_rescheduled_job_waits_by_the_clock_of_the_store(
    store: Store, clock: Ticker
) -> None:
    """I8 not early: the delay of a reschedule counts from the time of the store."""
    id = await put(store)
    await clock.tick(PAST)
    now = await store.now()
    await store.amend([id], RescheduleJob(When(SOON)))
    assert (await look(store, id)).due >= now + SOON
    assert await claimed_ids(store) == []
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [id]


async def test_a_rescheduled_job_no_longer_waits_for_its_key(store: Store) -> None:
    """A blocked job that is rescheduled becomes queued and no longer waits for its key."""
    id = await blocked(store)
    assert await store.amend([id], RescheduleJob(When(LONG))) == [Answer.DONE]
    after = await look(store, id)
    assert (after.state, after.reschedules, after.busy) == (State.QUEUED, 1, 1)
    assert [view.waiting for view in await store.resources(key="r")] == [0]


async def test_a_running_job_is_rescheduled_when_its_run_ends(store: Store) -> None:
    """I6 attempts: the end of the run is recorded, but the job goes back to its queue for the
    requested time."""
    claim = await running(store)
    at = claim.at + LONG
    assert await store.amend([claim.id], RescheduleJob(When(at=at))) == [Answer.ASKED]
    assert (await look(store, claim.id)).asked == "reschedule"
    await settled(store, succeed(claim))
    after = await look(store, claim.id)
    assert (after.state, after.due, after.asked) == (State.QUEUED, at, None)
    assert (after.reschedules, after.attempts) == (1, 0)
    assert (after.result, after.finished, after.expires) == (None, None, None)


async def test_a_requested_delay_counts_from_the_request(store: Store, clock: Ticker) -> None:
    """A delay for a running job counts from the request, not from the end of the run."""
    claim = await running(store)
    asked_at = await store.now()
    await store.amend([claim.id], RescheduleJob(When(LONG)))
    await clock.tick(PAST)
    settled_at = await store.now()
    await settled(store, succeed(claim))
    assert asked_at + LONG <= (await look(store, claim.id)).due < settled_at + LONG


async def test_a_failed_run_of_a_rescheduled_job_counts(store: Store) -> None:
    """I6 attempts: if the run fails, the attempt is counted and the job is still rescheduled."""
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(When(LONG)))
    await settled(store, fail(claim, "Boom"))
    after = await look(store, claim.id)
    assert (after.state, after.attempts, after.reschedules, after.error) == (
        State.QUEUED,
        1,
        1,
        "Boom",
    )
    assert await claimed_ids(store) == []


async def test_a_request_holds_for_one_run(store: Store) -> None:
    """A reschedule of a running job takes effect once, not after the next run again."""
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(NOW))
    await settled(store, succeed(claim))
    await settled(store, succeed(await claim_one(store)))
    assert await state_of(store, claim.id) is State.SUCCEEDED


async def test_the_latest_requested_time_counts(store: Store) -> None:
    """Of two reschedules during one run the later request counts."""
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(When(at=claim.at + LONG)))
    assert await store.amend([claim.id], RescheduleJob(When(at=claim.at + HOUR))) == [Answer.ASKED]
    await settled(store, release(claim))
    after = await look(store, claim.id)
    assert (after.due, after.reschedules) == (claim.at + HOUR, 2)


async def test_a_job_that_succeeded_cannot_be_rescheduled(store: Store) -> None:
    """I10 terminal is terminal: rescheduling a job that succeeded returns `TOO_LATE` and changes
    nothing."""
    id = await done(store)
    before = await look(store, id)
    assert await store.amend([id], RescheduleJob(NOW)) == [Answer.TOO_LATE]
    assert await look(store, id) == before


async def test_rescheduling_a_failed_job_retries_it_at_that_time(store: Store) -> None:
    """A failed or cancelled job is retried at the given time, with its counters at zero and without
    its error."""
    claim = await running(store)
    await settled(store, stop(claim))
    waiting = await put(store, when=When(LONG))
    ids = [claim.id, await dead(store), waiting, "f" * 32, await done(store)]
    now = await store.now()
    moved, late = [Answer.DONE] * 3, Answer.TOO_LATE
    assert await store.amend(ids, RescheduleJob(When(LONG), "by Ada")) == [
        *moved,
        Answer.UNKNOWN,
        late,
    ]
    for id in ids[:2]:
        after = await look(store, id)
        assert (after.state, after.error, after.finished, after.expires) == (
            State.QUEUED,
            None,
            None,
            None,
        )
        assert [getattr(after, name) for name in Counter] == [0] * 5
        assert after.due >= now + LONG
        last = (await store.timeline(id))[-1]
        assert (last.kind, last.note, last.worker) == ("revived", "by Ada", None)
    assert (await look(store, waiting)).reschedules == 1
    assert await claimed_ids(store) == []
    assert await store.amend(ids[:2], RescheduleJob(NOW)) == [Answer.DONE] * 2
    assert sorted(await claimed_ids(store)) == sorted(ids[:2])


async def test_a_failed_job_is_not_rescheduled_while_another_has_its_unique_key(
    store: Store,
) -> None:
    """The answer is `TAKEN`, and the job stays as it was."""
    id = await dead(store, unique="u")
    other = await put(store, unique="u", when=When(LONG))
    before = await look(store, id)
    assert await store.amend([id], RescheduleJob(NOW)) == [Answer.TAKEN]
    assert await look(store, id) == before
    await store.amend([other], CancelJob(keep=HOUR))
    assert await store.amend([id, other], RescheduleJob(NOW)) == [Answer.DONE, Answer.TAKEN]


async def test_a_failed_job_that_is_named_twice_is_retried_and_then_rescheduled(
    store: Store,
) -> None:
    """Each id of a call finds the job as the id before it left the job."""
    id = await dead(store)
    assert await store.amend([id, id], RescheduleJob(When(LONG))) == [Answer.DONE] * 2
    after = await look(store, id)
    assert (after.state, after.attempts, after.reschedules) == (State.QUEUED, 0, 1)
