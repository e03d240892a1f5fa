"""From a signal to its event batches: each has the ids and times of events that are otherwise
alike."""

from typing import TypeAlias

from mita.model.event import EventBatch, Kind, MoveReason
from mita.model.job import Claim, State
from mita.model.outcome import (
    Answer,
    Busy,
    CancelJob,
    Counter,
    RescheduleJob,
    RetryJob,
    Settlement,
    SignalJob,
    TimelineKind,
)
from mita.model.time import SECOND, Moment
from mita.rules.flow import FLOW_TASK, FLOW_TASKS

from .flow_events import flow_cancelled, flow_started, flows_ended
from .new_jobs import dropped_batches, enqueued_batches
from .signals import (
    Amended,
    Batched,
    BusyJobs,
    Enqueued,
    Fired,
    FlowStarted,
    Locked,
    RepeatPaused,
    RunsSettled,
    RunsStarted,
    SettlingSoon,
    Signal,
    StartedRun,
    StoreCalled,
    StoreFailed,
)

SUCCEEDED = State.SUCCEEDED
# kind, task, queue, runs that failed before, reason
_Alike: TypeAlias = tuple[Kind, str, str, int, str]
_Columns: TypeAlias = tuple[list[str], list[float], list[float]]  # ids, seconds, waits


_BACK = {
    Counter.ATTEMPTS: (Kind.RETRIED, ""),
    Counter.RESCHEDULES: (Kind.RESCHEDULED, MoveReason.HANDLER),
    Counter.BUSY: (Kind.RESCHEDULED, MoveReason.UNAVAILABLE),
    Counter.INTERRUPTIONS: (Kind.RESCHEDULED, MoveReason.SHUTDOWN),
    Counter.CRASHES: (Kind.CRASHED, ""),
}
_SUSPENDED = {
    TimelineKind.SLEEPING: (Kind.RESCHEDULED, MoveReason.SLEEP),
    TimelineKind.WAITING: (Kind.RESCHEDULED, MoveReason.SIGNAL),
}
_ENDS = {
    State.SUCCEEDED: Kind.SUCCEEDED,
    State.FAILED: Kind.FAILED,
    State.CANCELLED: Kind.CANCELLED,
}


def run_event(settlement: Settlement) -> tuple[Kind, str] | None:
    """Returns the kind of event that a settled run makes, and why its job was moved; None for a
    claim that was returned unchanged."""
    verdict = settlement.verdict
    if settlement.was_cancelled:
        return Kind.CANCELLED, ""
    if (kind := _ENDS.get(verdict.state)) is not None:
        return Kind.EXPIRED if verdict.event is TimelineKind.EXPIRED else kind, ""
    if verdict.counts is None:
        return None
    return _SUSPENDED.get(verdict.event) or _BACK[verdict.counts]


def amend_event(signal: Amended) -> tuple[Kind, str] | None:
    """Returns the kind of event that an amend makes, and the reason; None if it makes none. A
    running job that is cancelled makes its event when it ends."""
    match signal.change, signal.answer:
        case RescheduleJob(), Answer.DONE | Answer.ASKED:
            return Kind.RESCHEDULED, MoveReason.API
        case CancelJob(), Answer.DONE:
            return Kind.CANCELLED, ""
        case RetryJob(), Answer.DONE:
            return Kind.REVIVED, ""
        case SignalJob(), Answer.DONE:
            return Kind.SIGNALLED, ""
    return None


def seconds_waited(claim: Claim, in_worker: float) -> float:
    """Returns the seconds from a job's due time to its start; `in_worker` of them it waited for a
    slot."""
    return max(0, claim.at - claim.due) / SECOND + in_worker


def batches_of(signal: Signal) -> list[EventBatch]:
    """Returns the batches of a signal, in the order in which things happened. The batches of a run
    signal are made once and kept there."""
    match signal:
        case RunsStarted() | RunsSettled():
            if signal.batched is None:
                signal.batched = (
                    _started(signal) if isinstance(signal, RunsStarted) else _settled(signal)
                )
            return signal.batched
        case Batched(batches):
            return batches
        case Enqueued(jobs, receipts, at):
            return enqueued_batches(
                (job for job, receipt in zip(jobs, receipts, strict=True) if receipt.created), at
            )
        case Fired(firings, won, at):
            mine = [firing for firing, mine in zip(firings, won, strict=True) if mine]
            return [
                *enqueued_batches((job for firing in mine for job in firing.jobs), at),
                *dropped_batches(mine, at),
            ]
        case BusyJobs():
            return _busy(signal)
        case Amended():
            return _amended(signal)
        case FlowStarted():
            return [flow_started(signal)]
        case RepeatPaused(key, task, queue, failures, at):
            return [EventBatch(Kind.PAUSED, task, queue, at, ids=[key], count=failures)]
        case SettlingSoon(soon):
            batches_of(soon)
            return []
        case StoreCalled() | Locked() | StoreFailed():
            return []


def _amended(signal: Amended) -> list[EventBatch]:
    means = amend_event(signal)
    if means is None or (signal.task in FLOW_TASKS and signal.task != FLOW_TASK):
        return []
    if signal.flow is not None and means[0] is Kind.CANCELLED:
        return [flow_cancelled(signal, signal.flow)]
    return [
        EventBatch(means[0], signal.task, signal.queue, signal.at, reason=means[1], ids=[signal.id])
    ]


def _started(signal: RunsStarted) -> list[EventBatch]:
    groups: dict[_Alike, _Columns] = {}
    for run in signal.runs:
        _add_start(groups, run.claim, run.waited)
    signal.timed = [run for run in signal.runs if _is_timed(run.claim)]
    return _as_batches(groups, signal.at, signal.worker)


def _settled(signal: RunsSettled) -> list[EventBatch]:
    """Nearly all events come from here, and nearly all are of runs that started and succeeded since
    the last signal, so this is written for speed. Runs that started together share their `start`,
    and runs with the same result their `verdict`; neighbours are mostly due at the same time. So
    each value is looked up once for many runs."""
    if not all(signal.took):
        return _others(signal, [*zip(signal.settlements, signal.took, strict=True)])
    wholes: dict[_Alike, _Columns] = {}
    others: list[tuple[Settlement, bool]] = []
    timed: list[StartedRun] = []
    same_start = same_verdict = same_due = same_at = None
    here = wait = 0.0
    for settlement in signal.settlements:
        start = settlement.start
        if start is not same_start or settlement.verdict is not same_verdict:
            if start is None or settlement.verdict.state is not SUCCEEDED:
                others.append((settlement, True))
                continue
            same_verdict = settlement.verdict
            if start is not same_start:
                same_start, same_due, here = start, None, start.waited
                alike = (Kind.SUCCEEDED, start.task, start.queue, start.attempts, "")
                ids, seconds, waits = wholes.setdefault(alike, ([], [], []))
        claim = settlement.claim
        ids.append(claim.id)
        seconds.append(settlement.seconds)
        due = claim.due
        if due != same_due or claim.at is not same_at:
            same_due, same_at = due, claim.at
            wait = seconds_waited(claim, here)
        waits.append(wait)
        if due > claim.created or claim.fire_time is not None or claim.busy:
            timed.append(StartedRun(claim, here))
    signal.timed = timed
    return _as_batches(wholes, signal.at, signal.worker, whole=True) + (
        _others(signal, others) if others else []
    )


def _others(signal: RunsSettled, others: list[tuple[Settlement, bool]]) -> list[EventBatch]:
    """The batches of runs that did not succeed, or whose start was reported before. All starts come
    before all ends."""
    starts: dict[_Alike, _Columns] = {}
    ends: dict[_Alike, _Columns] = {}
    begun = [StartedRun(one.claim, one.start.waited) for one, _ in others if one.start is not None]
    for run in begun:
        _add_start(starts, run.claim, run.waited)
    for settlement, took in others:
        _add_end(ends, settlement, took)
    signal.timed = [*signal.timed, *(run for run in begun if _is_timed(run.claim))]
    of_flows: list[EventBatch] = []
    if own := [alike for alike in ends if alike[1] in FLOW_TASKS]:
        for alike in own:  # Mita's own jobs: only the end of a flow is an event
            del ends[alike]
        written = [settlement for settlement, took in others if took]
        of_flows = flows_ended(written, signal.at, signal.worker)
    return [
        *_as_batches(starts, signal.at, signal.worker),
        *_as_batches(ends, signal.at, signal.worker),
        *of_flows,
    ]


def _add_start(groups: dict[_Alike, _Columns], claim: Claim, here: float) -> None:
    ids, _, waits = groups.setdefault(
        (Kind.STARTED, claim.task, claim.queue, claim.attempts, ""), ([], [], [])
    )
    ids.append(claim.id)
    waits.append(seconds_waited(claim, here))


def _add_end(groups: dict[_Alike, _Columns], settlement: Settlement, took: bool) -> None:
    means = run_event(settlement) if took else (Kind.STALE, "")
    if means is None:
        return
    claim, when = settlement.claim, settlement.verdict.when
    kind, reason = means
    ids, seconds, waits = groups.setdefault(
        (kind, claim.task, claim.queue, claim.attempts, reason), ([], [], [])
    )
    ids.append(claim.id)
    seconds.append(settlement.seconds)
    if kind is Kind.RETRIED:
        waits.append(0.0 if when is None else when.wait / SECOND)


def _is_timed(claim: Claim) -> bool:
    """Whether the job was given a time, was made by a repeat, or waited at a key or a rate."""
    return claim.due > claim.created or claim.fire_time is not None or claim.busy > 0


def _as_batches(
    groups: dict[_Alike, _Columns], at: Moment, worker: str, *, whole: bool = False
) -> list[EventBatch]:
    return [
        EventBatch(kind, task, queue, at, worker, attempts + 1, reason, *columns, whole=whole)
        for (kind, task, queue, attempts, reason), columns in groups.items()
    ]


def _busy(signal: BusyJobs) -> list[EventBatch]:
    groups: dict[tuple[str, str, bool, MoveReason], list[str]] = {}
    for job in signal.jobs:
        group = job.task, job.queue, job.ended, busy_reason(job)
        groups.setdefault(group, []).append(job.id)
    return [
        EventBatch(Kind.CANCELLED, task, queue, signal.at, ids=ids)
        if ended
        else EventBatch(Kind.RESCHEDULED, task, queue, signal.at, reason=reason, ids=ids)
        for (task, queue, ended, reason), ids in groups.items()
    ]


def busy_reason(busy: Busy) -> MoveReason:
    """Why a job that could not pass its gates was rescheduled."""
    return MoveReason.RATE_LIMITED if busy.at_rate else MoveReason.RESOURCE_BUSY
