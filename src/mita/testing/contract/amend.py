"""What people ask of a job, in whatever state it is."""

from collections.abc import Callable

from mita.model.job import Claim, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Counter,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    Settlement,
)
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Store

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
    gone,
    look,
    put,
    release,
    retry,
    running,
    settled,
    state_of,
    stop,
    succeed,
)


async def blocked(store: Store) -> str:
    """A job that waits for a key which somebody holds for long."""
    await running(store, resource="r")
    id = await put(store, resource="r")
    assert await claimed_ids(store) == []
    assert await state_of(store, id) is State.BLOCKED
    return id


async def test_each_id_gets_its_own_answer(store: Store) -> None:
    ids = [await done(store), "f" * 32, (await running(store)).id, await put(store)]
    answers = await store.amend(ids, CancelJob(keep=HOUR))
    assert answers == [Answer.TOO_LATE, Answer.UNKNOWN, Answer.ASKED, Answer.DONE]


async def test_a_queued_job_moves_both_ways(store: Store) -> None:
    id = await put(store, priority=7)
    assert await store.amend([id], RescheduleJob(When(LONG))) == [Answer.DONE]
    assert await claimed_ids(store) == []
    assert await store.amend([id], RescheduleJob(NOW)) == [Answer.DONE]
    claim = await claim_one(store)
    assert (claim.id, claim.priority, claim.reschedules, claim.attempts) == (id, 7, 2, 0)


async def test_a_moved_job_waits_by_the_stores_clock(store: Store, clock: Ticker) -> None:
    """I8"""
    id = await put(store)
    await clock.tick(PAST)
    now = await store.now()
    await store.amend([id], RescheduleJob(When(SOON)))
    assert (await look(store, id)).due >= now + SOON
    assert await claimed_ids(store) == []
    await clock.tick(PAST_SOON)
    assert await claimed_ids(store) == [id]


async def test_a_blocked_job_moves_out_of_its_line(store: Store) -> None:
    id = await blocked(store)
    assert await store.amend([id], RescheduleJob(When(LONG))) == [Answer.DONE]
    after = await look(store, id)
    assert (after.state, after.reschedules, after.busy) == (State.QUEUED, 1, 1)
    assert [view.waiting for view in await store.resources(key="r")] == [0]


async def test_a_running_job_moves_when_its_run_has_ended(store: Store) -> None:
    """I6: the ending is recorded as it is, but the job goes back at the asked time."""
    claim = await running(store)
    at = claim.at + LONG
    assert await store.amend([claim.id], RescheduleJob(When(at=at))) == [Answer.ASKED]
    assert (await look(store, claim.id)).asked == "reschedule"
    await settled(store, succeed(claim))
    after = await look(store, claim.id)
    assert (after.state, after.due, after.asked) == (State.QUEUED, at, None)
    assert (after.reschedules, after.attempts) == (1, 0)
    assert (after.result, after.finished, after.expires) == (None, None, None)


async def test_the_asked_wait_counts_from_the_asking(store: Store, clock: Ticker) -> None:
    claim = await running(store)
    asked_at = await store.now()
    await store.amend([claim.id], RescheduleJob(When(LONG)))
    await clock.tick(PAST)
    settled_at = await store.now()
    await settled(store, succeed(claim))
    assert asked_at + LONG <= (await look(store, claim.id)).due < settled_at + LONG


async def test_a_failed_run_of_a_moved_job_counts_and_still_moves(store: Store) -> None:
    """I6"""
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


async def test_what_was_asked_holds_for_one_run(store: Store) -> None:
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(NOW))
    await settled(store, succeed(claim))
    await settled(store, succeed(await claim_one(store)))
    assert await state_of(store, claim.id) is State.SUCCEEDED


async def test_the_latest_asked_time_counts(store: Store) -> None:
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(When(at=claim.at + LONG)))
    assert await store.amend([claim.id], RescheduleJob(When(at=claim.at + HOUR))) == [Answer.ASKED]
    await settled(store, release(claim))
    after = await look(store, claim.id)
    assert (after.due, after.reschedules) == (claim.at + HOUR, 2)


async def test_a_job_that_succeeded_cannot_be_moved(store: Store) -> None:
    """I10"""
    id = await done(store)
    before = await look(store, id)
    assert await store.amend([id], RescheduleJob(NOW)) == [Answer.TOO_LATE]
    assert await look(store, id) == before


async def test_a_dead_job_that_is_moved_comes_back_at_that_time(store: Store) -> None:
    """As if it had been revived for then: with its counters at zero, and its error gone."""
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


async def test_a_dead_job_is_not_moved_while_another_has_its_unique_key(store: Store) -> None:
    id = await dead(store, unique="u")
    other = await put(store, unique="u", when=When(LONG))
    before = await look(store, id)
    assert await store.amend([id], RescheduleJob(NOW)) == [Answer.TAKEN]
    assert await look(store, id) == before
    await store.amend([other], CancelJob(keep=HOUR))
    assert await store.amend([id, other], RescheduleJob(NOW)) == [Answer.DONE, Answer.TAKEN]


async def test_a_waiting_job_is_cancelled_at_once(store: Store) -> None:
    for id in (await blocked(store), await put(store), await put(store, when=When(LONG))):
        assert await store.amend([id], CancelJob(keep=LONG, reason="not wanted")) == [Answer.DONE]
        after = await look(store, id)
        assert after.state is State.CANCELLED
        assert after.finished is not None
        assert after.expires == after.finished + LONG
        last = (await store.timeline(id))[-1]
        assert (last.kind, last.note, last.worker) == ("cancelled", "not wanted", None)
    assert await claimed_ids(store) == []
    assert [view.waiting for view in await store.resources(key="r")] == [0]


async def test_a_cancelled_job_that_is_not_kept_is_gone(store: Store) -> None:
    id = await put(store)
    assert await store.amend([id], CancelJob(keep=0)) == [Answer.DONE]
    assert await gone(store, id)
    assert await store.amend([id], CancelJob(keep=0)) == [Answer.UNKNOWN]


async def test_a_running_job_ends_as_cancelled_whatever_its_run_says(store: Store) -> None:
    endings: list[Callable[[Claim], Settlement]] = [succeed, retry, fail, stop]
    for n, end in enumerate(endings):
        claim = await running(store)
        assert await store.amend([claim.id], CancelJob(keep=LONG)) == [Answer.ASKED]
        assert await state_of(store, claim.id) is State.RUNNING
        await settled(store, end(claim))
        after = await look(store, claim.id)
        assert (after.state, after.result) == (State.CANCELLED, None), f"ending {n}"
        assert after.finished is not None
        assert after.expires == after.finished + LONG, (
            "as long as the person said, not as the verdict"
        )


async def test_a_running_job_that_is_not_to_be_kept_is_gone_after_its_run(store: Store) -> None:
    claim = await running(store)
    await store.amend([claim.id], CancelJob(keep=0))
    await settled(store, succeed(claim, keep=HOUR))
    assert await gone(store, claim.id)


async def test_a_job_that_shall_stop_cannot_be_moved(store: Store) -> None:
    claim = await running(store)
    await store.amend([claim.id], CancelJob(keep=HOUR))
    before = await look(store, claim.id)
    assert await store.amend([claim.id], RescheduleJob(NOW)) == [Answer.TOO_LATE]
    assert await look(store, claim.id) == before
    await settled(store, succeed(claim))
    assert await state_of(store, claim.id) is State.CANCELLED


async def test_a_job_that_shall_move_can_still_be_stopped(store: Store) -> None:
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(When(LONG)))
    assert await store.amend([claim.id], CancelJob(keep=HOUR)) == [Answer.ASKED]
    await settled(store, succeed(claim))
    assert await state_of(store, claim.id) is State.CANCELLED


async def test_a_dead_job_comes_back_with_its_counters_at_zero(store: Store) -> None:
    claim = await running(store)
    await settled(store, retry(claim))
    await settled(store, fail(await claim_one(store)))
    old = await look(store, claim.id)
    assert await store.amend([claim.id], RetryJob(NOW)) == [Answer.DONE]
    after = await look(store, claim.id)
    assert after.state is State.QUEUED
    assert [getattr(after, name) for name in Counter] == [0] * 5
    emptied = ("error", "result", "finished", "expires", "stranded", "worker", "started")
    assert [getattr(after, name) for name in emptied] == [None] * len(emptied)
    assert (after.token, after.created, after.priority) == (old.token, old.created, old.priority)
    assert [event.kind for event in await store.timeline(claim.id)] == [
        "retried",
        "failed",
        "revived",
    ]
    assert await claimed_ids(store) == [claim.id]


async def test_a_cancelled_job_comes_back_when_asked(store: Store) -> None:
    id = await put(store)
    await store.amend([id], CancelJob(keep=HOUR))
    assert await store.amend([id], RetryJob(When(LONG), "by Ada")) == [Answer.DONE]
    assert await state_of(store, id) is State.QUEUED
    assert await claimed_ids(store) == []
    assert [(event.kind, event.note) for event in await store.timeline(id)][-1] == (
        "revived",
        "by Ada",
    )


async def test_an_old_claim_cannot_touch_a_revived_job(store: Store) -> None:
    """I3"""
    old = await running(store)
    await settled(store, fail(old))
    await store.amend([old.id], RetryJob(NOW))
    new = await claim_one(store)
    assert new.token > old.token
    assert await store.settle([succeed(old), succeed(new)]) == [False, True]


async def test_only_failed_and_cancelled_jobs_can_be_revived(store: Store) -> None:
    """I10"""
    ids = [await blocked(store), await done(store), (await running(store)).id, await put(store)]
    before = await store.find(ids)
    assert await store.amend(ids, RetryJob(NOW)) == [Answer.TOO_LATE] * 4
    assert await store.find(ids) == before


async def test_a_living_job_can_change_its_priority(store: Store) -> None:
    ended = await dead(store, priority=9)
    claim, stuck = await running(store), await blocked(store)
    waiting = await put(store)
    assert await store.amend([waiting, stuck, claim.id], PrioritiseJob(2)) == [Answer.DONE] * 3
    assert [(await look(store, id)).priority for id in (waiting, stuck, claim.id)] == [2, 2, 2]
    await settled(store, retry(claim))
    assert (await look(store, claim.id)).priority == 2, "and it is kept"
    assert await store.amend([ended], PrioritiseJob(2)) == [Answer.TOO_LATE]


async def test_the_other_process_may_ask_too(store: Store, twin: Store) -> None:
    claim = await running(store)
    assert await twin.amend([claim.id], CancelJob(keep=HOUR)) == [Answer.ASKED]
    await settled(store, succeed(claim))
    assert await state_of(twin, claim.id) is State.CANCELLED
