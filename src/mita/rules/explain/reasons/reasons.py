"""Why is this job not running? Pure: evidence in, reasons out, the weightiest first."""

from collections.abc import Iterator
from typing import Any

from mita.model.job import Job, State
from mita.model.outcome import BY_HANDLER, OUTSIDE, TimelineEntry
from mita.model.repeat import RepeatState
from mita.model.time import SECOND, Moment
from mita.rules.judge import first_line

from .evidence import APP, Code, Evidence, Reason, advise
from .limits import runs_past_deadline, slowed, too_late
from .obstacles import clocks, hold, key, key_free, turn, way
from .words import as_datetime, clock, span, times


def explain(evidence: Evidence) -> list[Reason]:
    """The reasons, ordered: first what the job itself waits for, then what stands in its way after
    that."""
    match evidence.job.state:
        case State.RUNNING:
            return [*_running(evidence), *_unique(evidence)]
        case State.SUCCEEDED | State.FAILED | State.CANCELLED:
            return [*_ended(evidence), *_twin(evidence), *_paused_repeat(evidence)]
        case State.BLOCKED:
            waits = [*key(evidence)] or [key_free(evidence)]
            waits = [*too_late(evidence), *waits]
            return [*waits, *way(evidence), *clocks(evidence), *_unique(evidence)]
        case State.QUEUED if evidence.job.due > evidence.now:
            return [
                _due(evidence),
                *slowed(evidence),
                *hold(evidence),
                *way(evidence),
                *clocks(evidence),
                *_unique(evidence),
            ]
        case State.QUEUED:
            obstacles = [*key(evidence), *way(evidence)]
            waits = [*too_late(evidence), *(obstacles or [turn(evidence)])]
            return [*waits, *clocks(evidence), *_unique(evidence)]


# ---------------------------------------------------------------- it runs, or it is over


def _running(evidence: Evidence) -> Iterator[Reason]:
    job, now = evidence.job, evidence.now
    since = f" since {evidence.ago(job.started)}" if job.started is not None else ""
    text = f"it runs right now on {evidence.worker(job.worker)}{since}, attempt {job.attempts + 1}"
    found = {"worker": job.worker, "since": _datetime(job.started), "attempt": job.attempts + 1}
    yield Reason(Code.RUNNING, text, evidence=found)
    if job.lease_until is not None and job.lease_until < now:
        text = (
            f"but its lease ran out {span(now - job.lease_until)} ago: that worker died or "
            "was cut off"
        )
        found = {
            "worker": job.worker,
            "lease_until": _datetime(job.lease_until),
            "live_workers": len(evidence.workers),
        }
        start = advise("no worker is alive to take it over; start one", "worker", APP)
        helps = (
            {"remedy": "any live worker takes it over at its next sweep"}
            if evidence.workers
            else start
        )
        yield Reason(Code.LEASE_OVER, text, evidence=found, **helps)
    yield from _timed_out(evidence)
    yield from runs_past_deadline(evidence)
    if job.asked:
        text = f"it was asked to {job.asked} while it ran; that takes effect when this run ends"
        yield Reason(Code.ASKED, text, evidence={"asked": job.asked})


def _timed_out(evidence: Evidence) -> Iterator[Reason]:
    """A handler that cannot be stopped, or does not stop, keeps its job. The claim began a little
    before the run did."""
    started, timeout = evidence.job.started, evidence.timeout
    if (
        started is not None
        and timeout is not None
        and evidence.now - started > (timeout + 1) * SECOND
    ):
        yield Reason(
            Code.TIMED_OUT,
            f"it is past its timeout of {timeout:g} s, and its handler has not ended yet: the "
            "job keeps its slot and its resource key until it does",
            "let the handler check job.cancelled, or run it with @app.task(executor='process'), "
            "which can be killed",
            {"timeout": timeout, "seconds": (evidence.now - started) / SECOND},
        )


def _ended(evidence: Evidence) -> Iterator[Reason]:
    job = evidence.job
    when = f" at {evidence.ago(job.finished)}" if job.finished is not None else ""
    finished = {"finished": _datetime(job.finished)}
    match job.state:
        case State.SUCCEEDED:
            yield Reason(Code.SUCCEEDED, f"it succeeded{when}", evidence=finished)
        case State.CANCELLED:
            why = _why_cancelled(evidence)
            yield Reason(
                Code.CANCELLED,
                f"it was cancelled{when}{why}",
                evidence=finished,
                **_again(evidence),
            )
        case _:
            error = f"; the last error was {first_line(job.error)}" if job.error else ""
            text = f"it is dead{_after_what(job)}{when}{error}"
            found = {
                **finished,
                "attempts": job.attempts,
                "crashes": job.crashes,
                "error": first_line(job.error or ""),
            }
            yield Reason(
                Code.FAILED, text, evidence=found, **_again(evidence, "correct the cause, then ")
            )


def _again(evidence: Evidence, first: str = "") -> dict[str, Any]:
    """Not while another job has its unique key: it would be refused."""
    return (
        {}
        if evidence.twin is not None
        else advise(f"{first}run it again", "retry", evidence.job.id)
    )


def _twin(evidence: Evidence) -> Iterator[Reason]:
    """An ended job and its unique key: another has it, or this one keeps it for a while longer."""
    job = evidence.job
    if evidence.twin is not None:
        text = f"its unique key {job.unique!r} now belongs to job {evidence.twin}"
        helps = advise(
            "this one cannot be retried before that one has ended; look at that one",
            "show",
            evidence.twin,
        )
        yield Reason(
            Code.TWIN, text, evidence={"unique": job.unique, "job": evidence.twin}, **helps
        )
    elif (
        job.unique is not None
        and job.finished is not None
        and job.finished + job.unique_for > evidence.now
    ):
        until = job.finished + job.unique_for
        text = (
            f"it keeps the unique key {job.unique!r} until {clock(until, evidence.now)}: an "
            "enqueue with that key before then gives this job and makes no new one"
        )
        found = {"unique": job.unique, "job": job.id, "until": as_datetime(until)}
        yield Reason(
            Code.TWIN,
            text,
            "wait until then, choose another unique key, or a shorter unique_for",
            found,
        )


def _unique(evidence: Evidence) -> Iterator[Reason]:
    job = evidence.job
    if job.unique is not None:
        text = (
            f"it has the unique key {job.unique!r}: every enqueue with that key gives this "
            "job until it has ended"
        )
        yield Reason(
            Code.TWIN,
            text,
            "for a job beside it choose another unique key",
            {"unique": job.unique, "job": job.id},
        )


# ---------------------------------------------------------------- what the job itself waits for


def _due(evidence: Evidence) -> Reason:
    job, now = evidence.job, evidence.now
    because, words = _why_then(evidence)
    text = f"it is due in {span(job.due - now)} ({clock(job.due, now)}): {words}"
    found = {
        "due": as_datetime(job.due),
        "in_seconds": (job.due - now) / SECOND,
        "because": because,
    }
    # now or later, none could run it
    unknown = job.stranded is not None or (evidence.serving and not evidence.knowing)
    helps = {} if unknown else advise("make it due now", "reschedule", job.id, "--after", "0")
    return Reason(Code.DUE, text, evidence=found, **helps)


def _paused_repeat(evidence: Evidence) -> Iterator[Reason]:
    """Why there is no newer job of its repeat."""
    repeat = evidence.repeat
    if repeat is not None and repeat.state is RepeatState.PAUSED:
        why = f": {repeat.pause_reason}" if repeat.pause_reason else ""
        yield Reason(
            Code.REPEAT_PAUSED,
            f"its repeat {repeat.key!r} is paused and makes no more jobs{why}",
            evidence={"repeat": repeat.key, "failures": repeat.failures},
            **advise("let it go on", "repeats", "resume", repeat.key),
        )


def _why_then(evidence: Evidence) -> tuple[str, str]:
    """What set the present due time: the newest event that moves a job in time, else the
    enqueue."""
    job = evidence.job
    if job.stranded is not None:
        since = clock(job.stranded, evidence.now)
        return "stranded", f"no worker that met it has known its task {job.task!r} since {since}"
    for event in reversed(evidence.events):
        if (words := _moved_by(evidence, event)) is not None:
            return event.kind, words
    if job.repeat is None:
        return "scheduled", "it was scheduled for then"
    if job.fire_time is None or job.fire_time >= job.due:
        return "repeat", f"repeat {job.repeat!r} fires then"
    nominal = clock(job.fire_time, evidence.now)
    return "repeat", f"repeat {job.repeat!r} fires at {nominal}, and its jitter is added"


def _moved_by(evidence: Evidence, event: TimelineEntry) -> str | None:
    job = evidence.job
    match event.kind:
        case "retried":
            error = f" after {first_line(job.error)}" if job.error else ""
            return f"retry {job.attempts} of {evidence.retry.max_retries}{error}"
        case "rescheduled":
            who = OUTSIDE if event.worker is None else BY_HANDLER
            return f"rescheduled {who}{_reason(event.note)}"
        case "crashed":
            in_process = event.note.startswith("ProcessDied")
            who = (
                "the process of its handler died"
                if in_process
                else "its worker died or was cut off"
            )
            return f"{who} ({times(job.crashes, 'crash', 'crashes')} so far)"
        case "unavailable":
            return f"what it needs is not available{_reason(event.note)}"
        case "revived":
            return "it was brought back for then"
    return None


# ---------------------------------------------------------------- words


def _why_cancelled(evidence: Evidence) -> str:
    """By a person, or because its key was taken and it was told not to wait."""
    last = evidence.events[-1] if evidence.events else None
    if last is not None and last.kind in ("skipped", "replaced", "expired"):
        return f": {last.kind}{_reason(last.note)}"
    since = max(
        (i for i, event in enumerate(evidence.events) if event.kind == "revived"), default=-1
    )
    return _reason(
        "; ".join(
            event.note
            for event in evidence.events[since + 1 :]
            if event.kind == "cancelled" and event.note
        )
    )


def _reason(note: str) -> str:
    return f" ({note})" if note and note not in (BY_HANDLER, OUTSIDE) else ""


def _after_what(job: Job) -> str:
    failed = [times(job.attempts, "failed run")] if job.attempts else []
    crashed = [times(job.crashes, "crash", "crashes")] if job.crashes else []
    return f" after {' and '.join(failed + crashed)}" if failed or crashed else ""


def _datetime(moment: Moment | None) -> object:
    return None if moment is None else as_datetime(moment)
