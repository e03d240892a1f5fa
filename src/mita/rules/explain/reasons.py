"""Why a job is not running: from evidence to reasons, the most important first."""

from collections.abc import Iterator
from typing import Any

from mita.model.job import Job, State
from mita.model.repeat import RepeatState
from mita.model.time import SECOND, Moment
from mita.rules.display import as_datetime, clock, span, times
from mita.rules.flow import FLOW_TASKS, GATHER_TASK
from mita.rules.judge import first_line

from .durable import due_reasons
from .evidence import APP, Evidence, Reason, ReasonCode, advise, in_brackets
from .flow import cancelled_because, failed_steps, step_reasons
from .keys import hold_reasons, key_free, key_reasons
from .limits import runs_past_deadline, slowed, too_late
from .waiting import clock_reasons, queue_reasons, turn_reason


def explain(evidence: Evidence) -> list[Reason]:
    """Return the reasons: first what the job itself waits for, then what would keep it from running
    after that."""
    if evidence.flow is not None and evidence.job.task in FLOW_TASKS - {GATHER_TASK}:
        return [*step_reasons(evidence, evidence.flow)]
    match evidence.job.state:
        case State.RUNNING:
            return [*_running(evidence), *_unique(evidence)]
        case State.SUCCEEDED | State.FAILED | State.CANCELLED:
            return [*_ended(evidence), *_twin(evidence), *_paused_repeat(evidence)]
        case State.BLOCKED:
            waits = [*key_reasons(evidence)] or [key_free(evidence)]
            waits = [*too_late(evidence), *waits, *queue_reasons(evidence)]
        case State.QUEUED if evidence.job.due > evidence.now:
            waits = [*due_reasons(evidence), *slowed(evidence), *hold_reasons(evidence)]
            said = {reason.code for reason in waits}  # also of the steps that it waits for
            waits += [reason for reason in queue_reasons(evidence) if reason.code not in said]
        case State.QUEUED:
            waits = [*key_reasons(evidence), *queue_reasons(evidence)]
            waits = [*too_late(evidence), *(waits or [turn_reason(evidence)])]
    return [*waits, *clock_reasons(evidence), *_unique(evidence)]


# ---------------------------------------------------------------- it runs, or it is over


def _running(evidence: Evidence) -> Iterator[Reason]:
    job, now = evidence.job, evidence.now
    since = f" since {evidence.ago(job.started)}" if job.started is not None else ""
    text = f"it is running on {evidence.worker(job.worker)}{since}, attempt {job.attempts + 1}"
    found = {"worker": job.worker, "since": _datetime(job.started), "attempt": job.attempts + 1}
    yield Reason(ReasonCode.RUNNING, text, evidence=found)
    if job.lease_until is not None and job.lease_until < now:
        text = (
            f"but its lease expired {span(now - job.lease_until)} ago: that worker died or "
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
        yield Reason(ReasonCode.LEASE_OVER, text, evidence=found, **helps)
    yield from _timed_out(evidence)
    yield from runs_past_deadline(evidence)
    if job.asked:
        text = f"it was asked to {job.asked} while it ran; that takes effect when this run ends"
        yield Reason(ReasonCode.ASKED, text, evidence={"asked": job.asked})


def _timed_out(evidence: Evidence) -> Iterator[Reason]:
    """A handler that does not stop after its timeout keeps its job. One second is added, because
    the claim is a little older than the run."""
    started, timeout = evidence.job.started, evidence.timeout
    if (
        started is not None
        and timeout is not None
        and evidence.now - started > (timeout + 1) * SECOND
    ):
        yield Reason(
            ReasonCode.TIMED_OUT,
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
            yield Reason(ReasonCode.SUCCEEDED, f"it succeeded{when}", evidence=finished)
        case State.CANCELLED if evidence.causes:
            yield cancelled_because(evidence.causes[0], when, finished)
        case State.CANCELLED:
            why = _why_cancelled(evidence)
            yield Reason(
                ReasonCode.CANCELLED,
                f"it was cancelled{when}{why}",
                evidence=finished,
                **_retry_advice(evidence),
            )
        case _:
            error = f"; the last error was {first_line(job.error)}" if job.error else ""
            text = f"it failed{_after_what(job)}{when}{error}"
            found = {
                **finished,
                "attempts": job.attempts,
                "crashes": job.crashes,
                "error": first_line(job.error or ""),
            }
            yield Reason(
                ReasonCode.FAILED,
                text,
                evidence=found,
                **_retry_advice(evidence, "correct the cause, then "),
            )
            yield from failed_steps(evidence.causes)


def _retry_advice(evidence: Evidence, first: str = "") -> dict[str, Any]:
    """The advice to retry it; none while another job has its unique key, which would refuse it."""
    return (
        {}
        if evidence.twin is not None
        else advise(f"{first}run it again", "retry", evidence.job.id)
    )


def _twin(evidence: Evidence) -> Iterator[Reason]:
    """The unique key of an ended job: another job has it, or this one still keeps it."""
    job = evidence.job
    if evidence.twin is not None:
        text = f"its unique key {job.unique!r} now belongs to job {evidence.twin}"
        helps = advise(
            "this job cannot be retried before that job has ended; show that job",
            "show",
            evidence.twin,
        )
        yield Reason(
            ReasonCode.TWIN, text, evidence={"unique": job.unique, "job": evidence.twin}, **helps
        )
    elif (
        job.unique is not None
        and job.finished is not None
        and job.finished + job.unique_for > evidence.now
    ):
        until = job.finished + job.unique_for
        text = (
            f"it keeps the unique key {job.unique!r} until {clock(until, evidence.now)}: an "
            "enqueue with that key before then returns this job and makes no new one"
        )
        found = {"unique": job.unique, "job": job.id, "until": as_datetime(until)}
        yield Reason(
            ReasonCode.TWIN,
            text,
            "wait until then, choose another unique key, or a shorter unique_for",
            found,
        )


def _unique(evidence: Evidence) -> Iterator[Reason]:
    job = evidence.job
    if job.unique is not None:
        text = (
            f"it has the unique key {job.unique!r}: every enqueue with that key returns this "
            "job until it has ended"
        )
        yield Reason(
            ReasonCode.TWIN,
            text,
            "to enqueue another job, choose another unique key",
            {"unique": job.unique, "job": job.id},
        )


def _paused_repeat(evidence: Evidence) -> Iterator[Reason]:
    """Why there is no newer job of its repeat."""
    repeat = evidence.repeat
    if repeat is not None and repeat.state is RepeatState.PAUSED:
        why = f": {repeat.pause_reason}" if repeat.pause_reason else ""
        yield Reason(
            ReasonCode.REPEAT_PAUSED,
            f"its repeat {repeat.key!r} is paused and makes no more jobs{why}",
            evidence={"repeat": repeat.key, "failures": repeat.failures},
            **advise("let it go on", "repeats", "resume", repeat.key),
        )


# ---------------------------------------------------------------- words


def _why_cancelled(evidence: Evidence) -> str:
    """The reason: of the user, or that its resource key was busy and its policy is not to wait."""
    last = evidence.events[-1] if evidence.events else None
    if last is not None and last.kind in ("skipped", "replaced", "expired"):
        return f": {last.kind}{in_brackets(last.note)}"
    since = max(
        (i for i, event in enumerate(evidence.events) if event.kind == "revived"), default=-1
    )
    return in_brackets(
        "; ".join(
            event.note
            for event in evidence.events[since + 1 :]
            if event.kind == "cancelled" and event.note
        )
    )


def _after_what(job: Job) -> str:
    failed = [times(job.attempts, "failed run")] if job.attempts else []
    crashed = [times(job.crashes, "crash", "crashes")] if job.crashes else []
    return f" after {' and '.join(failed + crashed)}" if failed or crashed else ""


def _datetime(moment: Moment | None) -> object:
    return None if moment is None else as_datetime(moment)
