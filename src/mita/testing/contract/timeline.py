"""What happened to a job, unless it simply succeeded."""

from typing import Any

from msgspec.structs import replace

from mita.model.job import Claim, State
from mita.model.outcome import (
    CancelJob,
    Counter,
    RescheduleJob,
    RetryJob,
    Settlement,
    TimelineKind,
    Verdict,
)
from mita.model.time import HOUR, NOW, When
from mita.ports.store import Store
from mita.rules.timeline import TIMELINE_LINES

from .clocks import Ticker
from .given import (
    LONG,
    SHORT,
    claim_one,
    claims,
    crash,
    done,
    fail,
    lost,
    move,
    put,
    refuse,
    retry,
    running,
    settled,
    succeed,
)


async def kinds(store: Store, id: str) -> list[str]:
    """The kinds of the entries of a timeline, oldest first."""
    return [event.kind for event in await store.timeline(id)]


async def test_a_job_that_simply_succeeded_has_no_timeline(store: Store) -> None:
    """I14 bounded: a job that succeeded at once writes no line, and an unknown job has none."""
    assert await store.timeline(await done(store)) == []
    assert await store.timeline("f" * 32) == []


async def test_timeline_lines_come_in_order_with_their_times(store: Store, clock: Ticker) -> None:
    """The lines of a timeline are in the order in which they happened, on the clock of the
    store."""
    id = await put(store)
    await settled(store, retry(await claim_one(store), error="Boom"))
    await clock.tick(SHORT)
    await settled(store, move(await claim_one(store)))
    await clock.tick(SHORT)
    await store.amend([id], RescheduleJob(NOW))
    await settled(store, fail(await claim_one(store), "Bang"))
    await store.amend([id], RetryJob(NOW))
    await store.amend([id], CancelJob(keep=HOUR, reason="enough"))
    events = await store.timeline(id)
    assert [event.kind for event in events] == [
        "retried",
        "rescheduled",
        "rescheduled",
        "failed",
        "revived",
        "cancelled",
    ]
    assert [event.note for event in events][:4] == [
        "Boom",
        "by its handler",
        "from outside",
        "Bang",
    ]
    assert events[-1].note == "enough"
    moments = [event.at for event in events]
    assert moments == sorted(moments)
    assert moments[1] >= moments[0] + SHORT


async def test_a_timeline_line_names_its_worker_if_there_is_one(
    store: Store, clock: Ticker
) -> None:
    """A line of a run has the name of its worker, a line of an amendment has none."""
    _, heir = await lost(store, clock, worker="w1", resource="r")
    await store.amend([heir.id], RescheduleJob(When(LONG)))
    await settled(store, crash(heir))
    await store.amend([heir.id], RescheduleJob(NOW))
    lines = [(event.kind, event.worker) for event in await store.timeline(heir.id)]
    assert lines == [("rescheduled", None), ("crashed", "heir"), ("rescheduled", None)]


async def test_the_note_of_a_reschedule_is_kept(store: Store) -> None:
    """The note of a reschedule is in the timeline, whether the job waited or ran."""
    waits, runs = await put(store, when=When(LONG)), await running(store)
    await store.amend([waits], RescheduleJob(When(LONG), "by Ada: not yet"))
    await store.amend([runs.id], RescheduleJob(When(LONG), "by Bo"))
    for id, note in ((waits, "by Ada: not yet"), (runs.id, "by Bo")):
        [event] = await store.timeline(id)
        assert (event.kind, event.note, event.worker) == ("rescheduled", note, None)


async def test_waiting_for_a_key_is_in_the_timeline(store: Store) -> None:
    """A job that met a busy key has a line for it."""
    holder = await running(store, resource="r")
    id = await put(store, resource="r")
    assert await claims(store) == []
    await settled(store, refuse(holder, 0))
    assert await kinds(store, id) == ["blocked"]
    assert await kinds(store, holder.id) == ["unavailable"]


async def test_an_amended_run_writes_its_end_even_if_it_succeeded(
    store: Store,
) -> None:
    """The end of a run that was cancelled or rescheduled meanwhile is in the timeline."""
    moved, stopped = await running(store), await running(store)
    await store.amend([moved.id], RescheduleJob(NOW))
    await store.amend([stopped.id], CancelJob(keep=HOUR, reason="not wanted"))
    await settled(store, succeed(moved), succeed(stopped))
    assert await kinds(store, moved.id) == ["rescheduled", "succeeded"]
    assert await kinds(store, stopped.id) == ["cancelled", "succeeded"]


async def test_a_long_timeline_is_folded_into_counts(store: Store) -> None:
    """I14 bounded: lines beyond the limit are counted by kind, the most frequent first."""
    claim = await running(store)
    await store.amend([claim.id], CancelJob(keep=HOUR, reason="at first"))
    await settled(store, retry(claim, 0))
    await store.amend([claim.id], RetryJob(When(LONG)))
    id = claim.id
    for _ in range(TIMELINE_LINES - 3):
        await store.amend([id], RescheduleJob(When(LONG)))
    whole = ["cancelled", "retried", "revived", *["rescheduled"] * (TIMELINE_LINES - 3)]
    assert await kinds(store, id) == whole, "a timeline of this length is kept whole"
    for _ in range(3):
        await store.amend([id], RescheduleJob(When(LONG)))
    await store.amend([id], CancelJob(keep=HOUR, reason="the newest"))
    events = await store.timeline(id)
    assert len(events) == TIMELINE_LINES
    note = "5 earlier: 2 rescheduled, 1 cancelled, 1 retried, 1 revived"
    assert (events[0].kind, events[0].note, events[0].worker) == ("folded", note, None)
    assert events[0].at <= events[1].at
    assert events[-1].note == "the newest"


async def test_a_long_timeline_is_folded_in_a_batch_too(store: Store) -> None:
    """One settle of several jobs folds the long timeline of one of them."""
    old = await put(store)
    for n in range(TIMELINE_LINES + 2):
        young = await put(store)
        held = {claim.id: claim for claim in await claims(store)}
        await settled(store, retry(held[old], 0), fail(held[young]))
        if n == 0:
            assert await kinds(store, young) == ["failed"]
    events = await store.timeline(old)
    assert len(events) == TIMELINE_LINES
    assert events[0].note == "3 earlier: 3 retried"


async def test_a_failed_run_leaves_its_error_and_its_start_time(
    store: Store, clock: Ticker
) -> None:
    """The line of a failed run has the error and the time of its start."""
    given: list[dict[str, Any]] = [{}, {"resource": "r"}, {"unique": "u"}]
    for more in given:
        claim = await running(store, worker="w9", **more)
        await clock.tick(SHORT)
        await settled(store, _failed(claim, State.QUEUED, "shop.Boom: naïve\n  at line 3"))
        claim = await claim_one(store, worker="w7")
        await settled(store, _failed(claim, State.FAILED, "shop.Boom: once more"))
        first, last = await store.timeline(claim.id)
        assert (first.error, first.worker, first.kind) == (
            "shop.Boom: naïve\n  at line 3",
            "w9",
            "queued",
        )
        assert first.started is not None
        assert first.started + SHORT <= first.at
        assert (last.error, last.worker, last.started) == ("shop.Boom: once more", "w7", claim.at)


async def test_failed_runs_of_one_batch_leave_their_errors(store: Store) -> None:
    """So have the lines of runs that are settled in one call."""
    given = [await running(store) for _ in range(3)]
    await settled(
        store, *[_failed(claim, State.QUEUED, f"Boom: {n}") for n, claim in enumerate(given)]
    )
    for n, claim in enumerate(given):
        [line] = await store.timeline(claim.id)
        assert (line.error, line.started) == (f"Boom: {n}", claim.at)


async def test_other_lines_have_no_error(store: Store) -> None:
    """The line of a reschedule has neither an error nor a start time."""
    claim = await running(store)
    await settled(store, move(claim))
    [line] = await store.timeline(claim.id)
    assert (line.error, line.started) == ("", None)


async def test_errors_are_kept_as_long_as_their_lines(store: Store) -> None:
    """I14 bounded: when old lines are folded into counts their errors go too."""
    await put(store)
    for n in range(TIMELINE_LINES + 2):
        claim = await claim_one(store)
        await settled(store, _failed(claim, State.QUEUED, f"Boom: {n}"))
    folded, *kept = await store.timeline(claim.id)
    assert (folded.kind, folded.error, folded.started) == ("folded", "", None)
    assert [line.error for line in kept] == [f"Boom: {n}" for n in range(3, TIMELINE_LINES + 2)]


async def test_a_lost_run_names_the_worker_that_lost_it(store: Store, clock: Ticker) -> None:
    """A reaped claim and its line in the timeline name the worker that was lost."""
    stale, heir = await lost(store, clock, worker="w1")
    assert (stale.lost, heir.lost) == (None, "w1")
    keyed, other = await lost(store, clock, worker="w2", resource="r")
    for claim in (heir, other):
        settlement = _failed(claim, State.FAILED, "WorkerLost: gone")
        await settled(store, Settlement(claim, replace(settlement.verdict, worker=claim.lost)))
    [first], [second] = await store.timeline(stale.id), await store.timeline(keyed.id)
    assert [(line.worker, line.started) for line in (first, second)] == [
        ("w1", stale.at),
        ("w2", keyed.at),
    ]


def _failed(claim: Claim, state: State, error: str) -> Settlement:
    verdict = Verdict(
        state=state,
        when=NOW,
        counts=Counter.ATTEMPTS,
        error=error,
        keep=HOUR,
        event=TimelineKind(state),
        note="n",
        failure=error,
    )
    return Settlement(claim, verdict)
