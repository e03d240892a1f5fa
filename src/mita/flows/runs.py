"""The runs of a flow's steps: what happens before a run, before it is settled, and after that."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mita.errors import Rejected
from mita.events import Emit
from mita.events.signals import Amended, ignore_signal
from mita.model.ending import Ending, Raised, Returned, Suspended, Unreadable
from mita.model.flow import FlowPlace
from mita.model.job import Claim, State
from mita.model.outcome import Answer, Busy, Settlement
from mita.model.time import HOUR, SECOND, Wait, When
from mita.ports.store import Can, Store
from mita.rules.durable import ARRIVAL
from mita.rules.flow import UNREADABLE_VALUE, read_told, together
from mita.rules.judge import LOCKED_WAIT_MS, Retention, first_line, judge
from mita.rules.readable import unreadable
from mita.rules.sealed import is_locked
from mita.rules.states import TERMINAL
from mita.tasks.placeholders import fill_in

from .additions import store_added
from .arrivals import arrive
from .cancels import cancel_children
from .delivery import (
    arrivals_with_settlement,
    conclude_and_wake,
    counter_arrivals,
    success_arrivals,
    tell_parents,
    tell_retried,
    told_before,
)
from .ended import EndedJob, ended_job, is_step, place_of
from .told_here import ToldHere

# Until a step looks again that was started too early. The last arrival may come while it is being
# put back, and would not wake it.
TOO_EARLY_WAIT: Wait = 30 * SECOND


# A step that succeeded is kept so long at least: longer than the longest time between two patrols
# of a flow.
STEP_RETENTION: Wait = HOUR


class ReadyStep(Struct, frozen=True):
    """A step that can run: its claim, with the results of its predecessors as arguments, and the
    spans of their runs, as far as they are known."""

    claim: Claim
    after: tuple[bytes, ...] = ()


async def prepared(
    store: Store, claim: Claim, place: FlowPlace, here: ToldHere | None = None
) -> ReadyStep | Ending:
    """Get a step ready to run. Returns an ending if the step must not run now: its predecessors
    have not told it, or an earlier run has told its dependants that it succeeded. `here` is what
    this process has told."""
    if claim.crashes or claim.interruptions:
        returned = await told_before(store, claim, place)
        if returned is not None:
            return returned
    if not place.needs:
        return ReadyStep(claim)
    if here is not None and (known := told_here(claim, place, here)) is not None:
        return known
    return _with_told(claim, place, await store.once_values(claim.id))


def told_here(claim: Claim, place: FlowPlace, here: ToldHere) -> ReadyStep | Ending | None:
    """`prepared`, for a step that was told in this process all that it waits for; None if it was
    not, or if that is not known any more."""
    known = here.take(claim.id) if place.needs == 1 else None
    return None if known is None else _with_told(claim, place, {ARRIVAL: known})


def _with_told(claim: Claim, place: FlowPlace, values: Mapping[str, bytes]) -> ReadyStep | Ending:
    """A step with what it was told. `values` are its once values."""
    try:
        told_to_me = [
            read_told(value) for name, value in values.items() if name.startswith(ARRIVAL)
        ]
    except UNREADABLE_VALUE as error:
        if any(map(is_locked, values.values())):  # a worker that has the key may run it
            return Suspended(When(LOCKED_WAIT_MS))
        return Unreadable(unreadable(f"what its predecessors told it cannot be read: {error}"))
    if len(told_to_me) < place.needs:  # a person has moved it
        return Suspended(When(TOO_EARLY_WAIT))
    told = together(told_to_me)
    try:
        payload = fill_in(claim.payload, told.results)
    except UNREADABLE_VALUE as error:
        return Unreadable(unreadable(f"its arguments cannot be read: {error}"))
    return ReadyStep(replace(claim, payload=payload), told.spans)


def with_added(settlement: Settlement, ending: Ending) -> Settlement:
    """The settlement of a run, with the steps that it has added."""
    added = ending.added if isinstance(ending, Returned) else None
    return settlement if added is None else replace(settlement, added=added)


async def tell_before_settling(
    store: Store,
    settlements: Sequence[Settlement],
    keep: Retention,
    emit: Emit = ignore_signal,
    here: ToldHere | None = None,
) -> list[Settlement]:
    """Store the steps that successful runs have added, and tell their dependants. Returns the
    settlements; a step whose result or added steps a store does not take fails instead. What was
    told is added to `here`."""
    settlements = [
        one if one.added is None else await store_added(store, one, one.added, keep, emit)
        for one in settlements
    ]
    settlements = [_as_told(one) for one in settlements]
    ended = [_ended(one) for one in settlements]
    jobs = [job for job in ended if job is not None and job.state is State.SUCCEEDED]
    try:
        await _tell(store, jobs, here)
        await tell_parents(store, jobs)
    except Rejected as error:
        if len(settlements) > 1:
            return [
                one
                for settlement in settlements
                for one in await tell_before_settling(store, [settlement], keep, emit, here)
            ]
        return [_too_large(settlements[0], error, keep)]
    return list(settlements)


def told_with_settlement(settlement: Settlement) -> Settlement | None:
    """The settlement of a step that succeeded, with what it tells others in the operation that
    settles it. None if more than arrivals is needed: it has added steps, or it is a child job. None
    too if it was cancelled: it tells nothing before it is settled."""
    claim, verdict = settlement.claim, settlement.verdict
    place = place_of(claim)
    if place is None or place.counter is None or place.parent is not None:
        return None
    if settlement.added is not None or settlement.was_cancelled:
        return None
    job = EndedJob(claim.id, place, claim.task, verdict.state, verdict.result, span=settlement.span)
    keep = max(verdict.keep, STEP_RETENTION)
    return replace(
        settlement,
        verdict=replace(verdict, keep=keep, told=True),
        arrivals=arrivals_with_settlement(job),
    )


async def _tell(store: Store, jobs: Sequence[EndedJob], here: ToldHere | None) -> None:
    """Tell the dependants of jobs that are about to succeed. A job that has dependants tells its
    counter in the same call: if its worker dies before it is settled, its next run finds that it
    has succeeded."""
    arrivals = [arrival for job in jobs for arrival in success_arrivals(job)]
    counted = [
        (job.id, arrival)
        for job in jobs
        if here is not None and Can.TELL_AT_ONCE in store.can and _is_counted_early(job)
        for arrival in await counter_arrivals(store, job)
    ]
    answers = await arrive(store, [*arrivals, *(arrival for _, arrival in counted)])
    if here is None:
        return
    for arrival, answer in zip(arrivals, answers, strict=False):
        if answer is Answer.DONE:
            here.remember(arrival)
    for (id, arrival), answer in zip(counted, answers[len(arrivals) :], strict=True):
        here.counted[id] = answer is Answer.DONE
        if answer is Answer.DONE:
            here.remember(arrival)


def _is_counted_early(job: EndedJob) -> bool:
    """Whether a job tells its counter before it is settled: it has dependants, which keep its
    result, and all of them and the counter are in one queue."""
    counter, told = job.place.counter, job.place.dependants
    if counter is None or not told or job.addition is not None:
        return False
    return all(to.queue == counter.queue for to in told)


def _as_told(settlement: Settlement) -> Settlement:
    """The settlement of a step that tells that it succeeded. From then on it has succeeded, and a
    cancel comes too late. It is kept until its flow has surely looked after it, so that it does not
    pass for one that was deleted."""
    verdict = settlement.verdict
    if verdict.state is not State.SUCCEEDED or settlement.was_cancelled:
        return settlement
    if place_of(settlement.claim) is None:
        return settlement
    keep = max(verdict.keep, STEP_RETENTION)
    return replace(settlement, verdict=replace(verdict, keep=keep, told=True))


async def recovered(
    store: Store, settlements: Sequence[Settlement], keep: Retention
) -> list[Settlement]:
    """The settlements of lost runs. A step that has told its dependants before its worker died has
    succeeded."""
    return [await _recovered(store, one, keep) for one in settlements]


async def _recovered(store: Store, settlement: Settlement, keep: Retention) -> Settlement:
    claim, place = settlement.claim, place_of(settlement.claim)
    if place is None or settlement.verdict.state is not State.FAILED:
        return settlement
    returned = await told_before(store, claim, place)
    if returned is None:
        return settlement
    return with_added(Settlement(claim, judge(claim, returned, keep, 0.0)), returned)


async def conclude_settled(
    store: Store,
    settlements: Sequence[Settlement],
    took: Sequence[bool],
    keep: Retention,
    here: ToldHere | None = None,
) -> list[Amended]:
    """Tell what follows from the settlements that were written. Returns what was cancelled. `here`
    is given if successes have gone through `tell_before_settling` in this process."""
    written = [
        job
        for one, took_it in zip(settlements, took, strict=True)
        if took_it
        and not (here is not None and here.has_ended(one))
        and (job := _ended(one)) is not None
    ]
    ended = [job for job in written if job.state in TERMINAL]
    # a person may have asked for their end while they ran
    ended += await _ended_now(store, [job.id for job in written if job.state not in TERMINAL])
    known = {} if here is None else {job.id: here.counted.pop(job.id, None) for job in ended}
    again = [job for job in ended if known.get(job.id) is False]
    if again:
        await tell_retried(store, again)
    cancelled: list[Amended] = []
    if rest := [job for job in ended if known.get(job.id) is None]:
        cancelled = await conclude_and_wake(store, rest, keep.failed, here)
    for one, took_it in zip(settlements, took, strict=True):
        # only a job that was put back has waited for a child
        if took_it and one.was_cancelled and one.claim.reschedules:
            cancelled += await cancel_children(store, [one.claim.id], keep.failed)
    return cancelled


async def conclude_skipped(store: Store, busy: Sequence[Busy], keep: Wait) -> list[Amended]:
    """Tell what follows from the end of steps that a claim has cancelled, because their key was
    busy. Returns what was cancelled."""
    ids = [one.id for one in busy if one.ended and is_step(one.id)]
    return await conclude_and_wake(store, await _ended_now(store, ids), keep) if ids else []


async def _ended_now(store: Store, ids: Sequence[str]) -> list[EndedJob]:
    """These jobs of flows, without the jobs that have not ended."""
    if not ids:
        return []
    found = [job for job in await store.find(ids) if job is not None]
    return [one for one in map(ended_job, found) if one is not None]


def _ended(settlement: Settlement) -> EndedJob | None:
    claim, verdict = settlement.claim, settlement.verdict
    place = place_of(claim)
    if place is None:
        return None
    state = State.CANCELLED if settlement.was_cancelled else verdict.state
    error = first_line(verdict.error or "")
    addition = None if settlement.added is None else settlement.added.addition
    span = settlement.span
    return EndedJob(claim.id, place, claim.task, state, verdict.result, error, addition, span)


def _too_large(settlement: Settlement, error: Rejected, keep: Retention) -> Settlement:
    claim = settlement.claim
    text = (
        f"Rejected: the store did not take the result for the next steps of the flow ({error}); "
        "store it elsewhere and return its name"
    )
    return replace(settlement, verdict=judge(claim, Raised(text, final=True), keep, 0.0))
