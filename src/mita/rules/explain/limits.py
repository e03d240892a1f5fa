"""What the job's own limits say: it expired, its deadline is over, or it was slowed."""

from collections.abc import Iterator

from mita.model.outcome import TimelineKind
from mita.model.time import SECOND
from mita.rules.display import as_datetime, span
from mita.rules.expiry import deadline_of, expiry_of
from mita.rules.moves import SLOWED
from mita.rules.options import options_of

from .evidence import Evidence, Reason, ReasonCode, advise

_OVERRUN_MS = SECOND  # the claim begins a little before the run does


def too_late(evidence: Evidence) -> Iterator[Reason]:
    """A job that waits although it must not start any more. It ends when a worker claims it, which
    may be long after: while its queue is paused, or its key is taken."""
    job, now = evidence.job, evidence.now
    helps = advise("to run it anyway, give it a new due time", "reschedule", job.id, "--after", "0")
    end = expiry_of(job)
    if end is not None and now > end:
        expires = options_of(job.options).expires
        text = (
            f"it expired {span(now - end)} ago, {expires:g} s after its due time; it ends as soon "
            "as a worker looks at it"
        )
        found = {"expires": expires, "expired": as_datetime(end)}
        yield Reason(ReasonCode.EXPIRED, text, evidence=found, **helps)
        return
    end = deadline_of(job)
    if end is not None and now >= end:
        deadline = options_of(job.options).deadline
        text = (
            f"its deadline of {deadline:g} s was over {span(now - end)} ago; it fails as soon as a "
            "worker looks at it"
        )
        found = {"deadline": deadline, "over": as_datetime(end)}
        yield Reason(ReasonCode.PAST_DEADLINE, text, evidence=found, **helps)


def runs_past_deadline(evidence: Evidence) -> Iterator[Reason]:
    """A run whose handler cannot be stopped, or does not stop, at its deadline."""
    end = deadline_of(evidence.job)
    if end is not None and evidence.now > end + _OVERRUN_MS:
        deadline = options_of(evidence.job.options).deadline
        yield Reason(
            ReasonCode.PAST_DEADLINE,
            f"it is past its deadline of {deadline:g} s, and its handler has not ended yet: the "
            "job keeps its slot and its resource key until it does, and then fails",
            "let the handler check job.cancelled, or run it with @app.task(executor='process'), "
            "which can be killed",
            {"deadline": deadline, "over": as_datetime(end)},
        )


def slowed(evidence: Evidence) -> Iterator[Reason]:
    """A job that rescheduled itself without a delay too often."""
    last = evidence.events[-1] if evidence.events else None
    if (
        last is not None
        and last.kind == TimelineKind.RESCHEDULED
        and last.worker is not None
        and last.note.startswith(SLOWED)
    ):
        moves = evidence.job.reschedules
        yield Reason(
            ReasonCode.SLOWED,
            f"it was {SLOWED}: it has been rescheduled {moves} times, and its handler asks for no "
            "delay",
            "let the handler give a delay, Reschedule(after=…), or limit it with "
            "@app.task(max_reschedules=…)",
            {"reschedules": moves},
        )
