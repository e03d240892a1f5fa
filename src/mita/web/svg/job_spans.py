"""Where the time of a job went: stretches of waiting, running, sleeping, and what happened between
them.

A timeline has a line for what is out of the ordinary, at its time. A run that failed, and the last
one, have both a start and an end. A run that ended in another way (a handler that sleeps, for
instance) has only its end; its start is not known, so it is part of the stretch before it, and only
marked."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from mita.flows.ended import is_step
from mita.model.outcome import TimelineKind
from mita.model.record import DisplayState, JobRecord, TimelineLine

from .shapes import SLEEPING

WAITING, SCHEDULED = DisplayState.WAITING.value, DisplayState.SCHEDULED.value
READY, BLOCKED = DisplayState.READY.value, DisplayState.BLOCKED.value
RUNNING = DisplayState.RUNNING.value
_ENDED = ""  # no stretch: the job has ended

# what a job does after a line of this kind, until the next line or run
_AFTER = {
    "created": READY,
    TimelineKind.BLOCKED.value: BLOCKED,
    TimelineKind.CANCELLED.value: _ENDED,
    TimelineKind.CRASHED.value: SCHEDULED,
    TimelineKind.EXPIRED.value: _ENDED,
    TimelineKind.FAILED.value: _ENDED,
    TimelineKind.INTERRUPTED.value: READY,
    TimelineKind.LOCKED.value: SCHEDULED,
    TimelineKind.QUEUED.value: READY,
    TimelineKind.RESCHEDULED.value: SCHEDULED,
    TimelineKind.RETRIED.value: SCHEDULED,
    TimelineKind.REVIVED.value: READY,
    TimelineKind.SIGNALLED.value: READY,
    TimelineKind.SLEEPING.value: SLEEPING,
    TimelineKind.SUCCEEDED.value: _ENDED,
    TimelineKind.UNAVAILABLE.value: SCHEDULED,
    TimelineKind.WAITING.value: WAITING,
}
_NEVER_DUE_YEARS = 9999  # a job that waits for others, or for a signal, has no due time
_ENDS_RUN = (
    *(TimelineKind.RETRIED, TimelineKind.CRASHED, TimelineKind.RESCHEDULED),
    *(TimelineKind.SLEEPING, TimelineKind.WAITING, TimelineKind.INTERRUPTED),
    *(TimelineKind.UNAVAILABLE, TimelineKind.LOCKED),
)
_UNMARKED = ("created", "started", "succeeded")


class JobSpan(Struct, frozen=True):
    """A stretch of time in which a job did one thing. `attempt` is the number of a run (0 if it is
    not known), `how` is how it ended, and `is_open` says that it is not over. `hides_run`: a run
    is in it whose start is not known."""

    kind: str
    start: datetime
    end: datetime
    attempt: int = 0
    how: str = ""
    worker: str = ""
    is_open: bool = False
    hides_run: bool = False


class JobMark(Struct, frozen=True):
    """Something that happened at one time."""

    at: datetime
    kind: str
    note: str = ""


def spans_of(job: JobRecord, now: datetime) -> list[JobSpan]:
    """The stretches from its creation until its end, or until `now`; a scheduled job has one more,
    until it is due. They follow each other without gaps, except after an end that was taken back
    (`revived`)."""
    runs = _runs(job, now)
    found: list[JobSpan] = []
    end = job.finished or max([now, job.created, *(run.end for run in runs)])
    points = _points(job, runs, end)
    hidden = set(_ends(job)) - {run.end for run in runs}
    for (start, kind), (stop, _) in pairwise([*points, (end, _ENDED)]):
        if kind and stop > start:
            one = JobSpan(kind, start, stop, hides_run=stop in hidden)
            found += _split(job, one, points[-1][0] == start)
    if job.finished is None and job.state is DisplayState.SCHEDULED and job.due > end:
        last = found[-1].kind if found else SCHEDULED
        kind = SLEEPING if last == SLEEPING else SCHEDULED
        found.append(JobSpan(kind, end, job.due, is_open=True))
    return sorted([*runs, *found], key=lambda one: (one.start, one.end))


def marks_of(job: JobRecord) -> list[JobMark]:
    """What happened, except for what the stretches say already."""
    return [
        JobMark(line.at, line.kind, line.note)
        for line in job.timeline
        if line.kind not in _UNMARKED
    ]


def _runs(job: JobRecord, now: datetime) -> list[JobSpan]:
    runs = [
        JobSpan(RUNNING, one.started, max(one.ended, one.started), 0, one.kind, one.worker or "")
        for one in job.failures
        if one.started is not None
    ]
    starts = {run.start for run in runs}
    if job.started is not None and job.started not in starts:
        is_open = job.state is DisplayState.RUNNING
        end = now if is_open else job.finished or _end_of_last_run(job, job.started)
        how = "" if is_open else job.state.value if job.finished else "ended"
        runs.append(
            JobSpan(RUNNING, job.started, max(end, job.started), 0, how, job.worker or "", is_open)
        )
    if any(line.kind == TimelineKind.FOLDED for line in job.timeline):
        return sorted(runs, key=lambda run: run.start)  # how many there were before is not known
    return [
        replace(one, attempt=1 + sum(end <= one.start for end in _ends(job)))
        for one in sorted(runs, key=lambda run: run.start)
    ]


def _ends(job: JobRecord) -> list[datetime]:
    """When runs ended after which the job went on. Their lines name the worker."""
    return [line.at for line in job.timeline if line.worker and line.kind in _ENDS_RUN]


def _end_of_last_run(job: JobRecord, started: datetime) -> datetime:
    """When a run ended after which the job goes on: at the first line after its start."""
    return min((line.at for line in job.timeline if line.at > started), default=started)


def _points(job: JobRecord, runs: Sequence[JobSpan], end: datetime) -> list[tuple[datetime, str]]:
    """What the job does from each time on, outside of runs. Within a run it does nothing else."""
    changes = [
        (line.at, _AFTER[line.kind])
        for line in _outside(job.timeline, runs)
        if line.kind in _AFTER and line.at <= end
    ]
    changes += [(run.start, _ENDED) for run in runs]
    changes += [(run.end, _after(run, job.timeline)) for run in runs]
    return sorted(changes, key=lambda change: change[0])


def _outside(lines: Iterable[TimelineLine], runs: Sequence[JobSpan]) -> list[TimelineLine]:
    return [
        line
        for line in lines
        if line.kind != "started" and not any(run.start < line.at <= run.end for run in runs)
    ]


def _after(run: JobSpan, lines: Sequence[TimelineLine]) -> str:
    at_end = [line.kind for line in lines if line.at == run.end and line.kind in _AFTER]
    return _AFTER[at_end[-1]] if at_end and not run.is_open else _ENDED


def _split(job: JobRecord, one: JobSpan, is_last: bool) -> list[JobSpan]:
    """A queued stretch is scheduled until the job is due, and ready from then on. Only the due time
    of the last one is known."""
    if not is_last and (one.end != job.started or job.due > one.end):
        return [one]
    if one.kind not in (READY, SCHEDULED) or not one.start < job.due < one.end:
        is_early = one.kind == READY and job.due >= one.end
        kind = WAITING if job.due.year == _NEVER_DUE_YEARS else SCHEDULED
        return [replace(one, kind=kind)] if is_early else [one]
    waited = is_step(job.id) and one.start == job.created  # for the steps before it
    kind = WAITING if waited else SCHEDULED
    return [
        replace(one, kind=kind, end=job.due, hides_run=False),
        replace(one, kind=READY, start=job.due),
    ]
