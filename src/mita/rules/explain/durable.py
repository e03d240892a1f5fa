"""Why a durable handler does not go on: it sleeps, or it waits for a signal."""

from mita.model.outcome import TimelineKind
from mita.model.time import LATEST
from mita.rules.display import as_datetime, clock, span
from mita.rules.durable import PendingWait, pending_waits
from mita.rules.flow import CHILD, child_of_signal

from .evidence import Evidence, Reason, ReasonCode, advise
from .flow import step_reasons
from .waiting import cause_of_due_time, due_reason

VALUE = "JSON"  # in a command: the value of a signal, which the user has to choose


def due_reasons(evidence: Evidence) -> list[Reason]:
    """Why a queued job is not due yet: the steps that it waits for, or one reason for each signal
    that it waits for, or one for its sleep, or else what `due_reason` says."""
    if evidence.flow is not None:
        return [*step_reasons(evidence, evidence.flow)]
    because, _ = cause_of_due_time(evidence)
    if because == TimelineKind.SLEEPING:
        return [_sleeps(evidence)]
    waits = pending_waits(evidence.values) if because == TimelineKind.WAITING else []
    return [_waits(evidence, wait) for wait in waits] or [due_reason(evidence)]


def _sleeps(evidence: Evidence) -> Reason:
    job, now = evidence.job, evidence.now
    return Reason(
        ReasonCode.SLEEPS,
        f"it sleeps until {clock(job.due, now)}, in {span(job.due - now)}",
        "its handler goes on by itself then; no command ends a sleep",
        {"until": as_datetime(job.due)},
    )


def _waits(evidence: Evidence, wait: PendingWait) -> Reason:
    """A wait without a time-out ends at the deadline of the job, if it has one."""
    job, now = evidence.job, evidence.now
    if wait.name.startswith(CHILD):
        return _waits_for_child(evidence, child_of_signal(wait.name))
    end = wait.end or (job.due if job.due < LATEST else None)
    until = "without a time-out" if end is None else f"until {clock(end, now)}"
    return Reason(
        ReasonCode.WAITS_FOR_SIGNAL,
        f"it waits for the signal {wait.name!r} ({until})",
        evidence={"signal": wait.name, "until": None if end is None else as_datetime(end)},
        **advise("send it", "signal", job.id, wait.name, VALUE),
    )


def _waits_for_child(evidence: Evidence, id: str) -> Reason:
    """It waits for a child: why that does not run, and what helps it."""
    why = evidence.children.get(id)
    text = f"it waits for its child, job {id}"
    found = {"child": id, "because": None if why is None else why.code.value}
    if why is not None and why.command:
        return Reason(
            ReasonCode.WAITS_FOR_CHILD, f"{text}: {why.text}", why.remedy, found, why.command
        )
    return Reason(
        ReasonCode.WAITS_FOR_CHILD,
        text if why is None else f"{text}: {why.text}",
        evidence=found,
        **advise("it goes on when that job has ended; ask about that job", "why", id),
    )
