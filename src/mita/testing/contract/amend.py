"""What people can ask of a job in each of its states."""

from collections.abc import Callable

from msgspec.structs import replace

from mita.model.job import Claim, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    Counter,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    Settlement,
)
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Store

from .given import (
    LONG,
    claim_one,
    claimed_ids,
    dead,
    done,
    fail,
    gone,
    look,
    put,
    retry,
    running,
    settled,
    state_of,
    stop,
    succeed,
)


async def blocked(store: Store) -> str:
    """A job that waits for a key which a running job holds."""
    await running(store, resource="r")
    id = await put(store, resource="r")
    assert await claimed_ids(store) == []
    assert await state_of(store, id) is State.BLOCKED
    return id


async def test_each_id_gets_its_own_answer(store: Store) -> None:
    """`amend` returns one answer for each id, in the order of the ids."""
    ids = [await done(store), "f" * 32, (await running(store)).id, await put(store)]
    answers = await store.amend(ids, CancelJob(keep=HOUR))
    assert answers == [Answer.TOO_LATE, Answer.UNKNOWN, Answer.ASKED, Answer.DONE]


async def test_a_waiting_job_is_cancelled_at_once(store: Store) -> None:
    """A queued, scheduled or blocked job is cancelled by the call itself."""
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
    """With retention 0 a cancelled job is deleted at once."""
    id = await put(store)
    assert await store.amend([id], CancelJob(keep=0)) == [Answer.DONE]
    assert await gone(store, id)
    assert await store.amend([id], CancelJob(keep=0)) == [Answer.UNKNOWN]


async def test_a_running_job_that_was_cancelled_ends_as_cancelled(store: Store) -> None:
    """However its run ends, the job is cancelled."""
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


async def test_a_running_job_cancelled_with_retention_0_is_gone_after_its_run(store: Store) -> None:
    """The retention of the cancel counts, not that of the verdict."""
    claim = await running(store)
    await store.amend([claim.id], CancelJob(keep=0))
    await settled(store, succeed(claim, keep=HOUR))
    assert await gone(store, claim.id)


async def test_what_is_asked_of_a_job_that_has_told_its_success_comes_too_late(
    store: Store,
) -> None:
    """The jobs that wait for it know that it succeeded. So it has, whatever was asked."""
    changes: list[Change] = [CancelJob(LONG), CancelJob(0), RescheduleJob(When(LONG))]
    for keep in (HOUR, 0):
        for key in (None, "r"):
            for change in changes:
                claim = await running(store, resource=key)
                assert await store.amend([claim.id], change) == [Answer.ASKED]
                told = succeed(claim, b"x", keep=keep)
                await settled(store, replace(told, verdict=replace(told.verdict, told=True)))
                if not keep:
                    assert await gone(store, claim.id)
                    continue
                after = await look(store, claim.id)
                assert (after.state, after.result, after.asked) == (State.SUCCEEDED, b"x", None)
                assert after.finished is not None
                assert after.expires == after.finished + HOUR
                assert (await store.timeline(claim.id))[-1].kind == "succeeded"


async def test_told_and_other_successes_of_one_call(store: Store) -> None:
    """Only those that were told stand against a cancel."""
    claims = [await running(store) for _ in range(4)]
    await store.amend([claim.id for claim in claims[:2]], CancelJob(keep=LONG))
    endings = [succeed(claim, keep=HOUR) for claim in claims]
    for at in (1, 3):
        verdict = replace(endings[at].verdict, told=True)
        endings[at] = replace(endings[at], verdict=verdict)
    await settled(store, *endings)
    states = [await state_of(store, claim.id) for claim in claims]
    assert states == [State.CANCELLED, *[State.SUCCEEDED] * 3]


async def test_a_job_that_was_cancelled_while_running_cannot_be_rescheduled(store: Store) -> None:
    """A cancel comes before a reschedule: the answer is `TOO_LATE`."""
    claim = await running(store)
    await store.amend([claim.id], CancelJob(keep=HOUR))
    before = await look(store, claim.id)
    assert await store.amend([claim.id], RescheduleJob(NOW)) == [Answer.TOO_LATE]
    assert await look(store, claim.id) == before
    await settled(store, succeed(claim))
    assert await state_of(store, claim.id) is State.CANCELLED


async def test_a_running_job_that_was_rescheduled_can_still_be_cancelled(store: Store) -> None:
    """A cancel replaces a reschedule that was requested before it."""
    claim = await running(store)
    await store.amend([claim.id], RescheduleJob(When(LONG)))
    assert await store.amend([claim.id], CancelJob(keep=HOUR)) == [Answer.ASKED]
    await settled(store, succeed(claim))
    assert await state_of(store, claim.id) is State.CANCELLED


async def test_a_retried_job_has_its_counters_at_zero(store: Store) -> None:
    """Retrying a failed job makes it queued, with all counters at zero."""
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


async def test_a_cancelled_job_can_be_retried(store: Store) -> None:
    """Retrying a cancelled job makes it queued for the given time and writes a line in its
    timeline."""
    id = await put(store)
    await store.amend([id], CancelJob(keep=HOUR))
    assert await store.amend([id], RetryJob(When(LONG), "by Ada")) == [Answer.DONE]
    assert await state_of(store, id) is State.QUEUED
    assert await claimed_ids(store) == []
    assert [(event.kind, event.note) for event in await store.timeline(id)][-1] == (
        "revived",
        "by Ada",
    )


async def test_an_old_claim_cannot_change_a_retried_job(store: Store) -> None:
    """I3 one outcome: a claim from before the retry can settle nothing."""
    old = await running(store)
    await settled(store, fail(old))
    await store.amend([old.id], RetryJob(NOW))
    new = await claim_one(store)
    assert new.token > old.token
    assert await store.settle([succeed(old), succeed(new)]) == [False, True]


async def test_only_failed_and_cancelled_jobs_can_be_retried(store: Store) -> None:
    """I10 terminal is terminal: retrying any other job returns `TOO_LATE` and changes nothing."""
    ids = [await blocked(store), await done(store), (await running(store)).id, await put(store)]
    before = await store.find(ids)
    assert await store.amend(ids, RetryJob(NOW)) == [Answer.TOO_LATE] * 4
    assert await store.find(ids) == before


async def test_a_job_that_has_not_ended_can_change_its_priority(store: Store) -> None:
    """Queued, blocked and running jobs take a new priority; ended ones do not."""
    ended = await dead(store, priority=9)
    claim, stuck = await running(store), await blocked(store)
    waiting = await put(store)
    assert await store.amend([waiting, stuck, claim.id], PrioritiseJob(2)) == [Answer.DONE] * 3
    assert [(await look(store, id)).priority for id in (waiting, stuck, claim.id)] == [2, 2, 2]
    await settled(store, retry(claim))
    assert (await look(store, claim.id)).priority == 2, "and it is kept"
    assert await store.amend([ended], PrioritiseJob(2)) == [Answer.TOO_LATE]


async def test_another_process_can_amend_a_running_job(store: Store, twin: Store) -> None:
    """A cancel from another process reaches the running job."""
    claim = await running(store)
    assert await twin.amend([claim.id], CancelJob(keep=HOUR)) == [Answer.ASKED]
    await settled(store, succeed(claim))
    assert await state_of(twin, claim.id) is State.CANCELLED


async def test_many_jobs_are_retried_in_one_call(store: Store) -> None:
    """Each gets its own answer. Of two that had one unique key, the first gets it back; a job that
    keeps its key after its end gets it before another."""
    shared = [await dead(store, unique="shared") for _ in range(2)]
    first = await dead(store, unique="kept")
    keeper = await dead(store, unique="kept", unique_for=HOUR)
    plain = [await dead(store) for _ in range(3)]
    alive = await put(store, unique="taken")
    other = await put(store)
    ids = [plain[2], *shared, plain[0], first, keeper, alive, "f" * 32, plain[1], other]
    assert await store.amend(ids, RetryJob(NOW, "again")) == [
        Answer.DONE,
        Answer.DONE,
        Answer.TAKEN,
        Answer.DONE,
        Answer.TAKEN,
        Answer.DONE,
        Answer.TOO_LATE,
        Answer.UNKNOWN,
        Answer.DONE,
        Answer.TOO_LATE,
    ]
    assert set(await claimed_ids(store)) == {*plain, shared[0], keeper, alive, other}
    assert (await store.timeline(keeper))[-1].note == "again"
