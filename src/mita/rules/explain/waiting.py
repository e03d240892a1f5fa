"""Why a job that waits does not start: its due time, its queue, the workers and their clocks."""

from collections.abc import Iterator
from typing import Any

from mita.model.outcome import BY_HANDLER, OUTSIDE, TimelineEntry, TimelineKind
from mita.model.time import LATEST, SECOND
from mita.rules.display import as_datetime, clock, span, times
from mita.rules.judge import first_line

from .evidence import APP, Evidence, Reason, ReasonCode, advise, in_brackets
from .keys import queue_limit_reasons

_MORE_THREADS = "32"  # twice the default; a worker does not say how many it has
CLOCK_TOLERANCE_MS = 5 * SECOND  # a larger difference to the store's clock is reported

# ---------------------------------------------------------------- its due time


def due_reason(evidence: Evidence) -> Reason:
    """It is scheduled: when it is due, and why then."""
    job, now = evidence.job, evidence.now
    because, words = cause_of_due_time(evidence)
    if job.due == LATEST:
        text = "it has no due time: it waits for other jobs of its flow, or for a signal"
        return Reason(ReasonCode.DUE, text, evidence={"due": None, "because": because})
    if because == TimelineKind.LOCKED:
        found = {"due": as_datetime(job.due), "because": because}
        remedy = "add the key to the keyring of the app, and restart its workers"
        return Reason(ReasonCode.ENCRYPTED, words, remedy, found)
    text = f"it is due in {span(job.due - now)} ({clock(job.due, now)}): {words}"
    found = {
        "due": as_datetime(job.due),
        "in_seconds": (job.due - now) / SECOND,
        "because": because,
    }
    # no worker could run it, so an earlier time does not help
    serving, knowing = evidence.serving_workers, evidence.knowing_workers
    unknown = job.stranded is not None or (serving and not knowing)
    helps = {} if unknown else advise("make it due now", "reschedule", job.id, "--after", "0")
    return Reason(ReasonCode.DUE, text, evidence=found, **helps)


def cause_of_due_time(evidence: Evidence) -> tuple[str, str]:
    """What set the due time: the newest entry of the timeline that changes it, or else the enqueue.
    Returns a word for programs and words for people."""
    job = evidence.job
    if job.stranded is not None:
        since = clock(job.stranded, evidence.now)
        return (
            "stranded",
            f"no worker that received it has known its task {job.task!r} since {since}",
        )
    for event in reversed(evidence.events):
        if (words := _cause_in_words(evidence, event)) is not None:
            return event.kind, words
    if job.repeat is None:
        return "scheduled", "it was scheduled for then"
    if job.fire_time is None or job.fire_time >= job.due:
        return "repeat", f"repeat {job.repeat!r} fires then"
    nominal = clock(job.fire_time, evidence.now)
    return "repeat", f"repeat {job.repeat!r} fires at {nominal}, and its jitter is added"


def _cause_in_words(evidence: Evidence, event: TimelineEntry) -> str | None:
    job = evidence.job
    match event.kind:
        case "retried":
            error = f" after {first_line(job.error)}" if job.error else ""
            return f"retry {job.attempts} of {evidence.retry.max_retries}{error}"
        case "rescheduled":
            who = OUTSIDE if event.worker is None else BY_HANDLER
            return f"rescheduled {who}{in_brackets(event.note)}"
        case "locked":
            return f"no worker that received it could decrypt its arguments: {event.note}"
        case "crashed":
            in_process = event.note.startswith("ProcessDied")
            who = (
                "the process of its handler died"
                if in_process
                else "its worker died or was cut off"
            )
            return f"{who} ({times(job.crashes, 'crash', 'crashes')} so far)"
        case "unavailable":
            return f"what it needs is not available{in_brackets(event.note)}"
        case "sleeping":
            return "its handler sleeps until then"
        case "waiting":
            return f"its handler waits {event.note}"
        case "debounced":
            return "its debounce waits for newer enqueues until then"
        case "revived":
            return "it was retried by hand, for then"
    return None


# ---------------------------------------------------------------- its queue and the workers


def queue_reasons(evidence: Evidence) -> Iterator[Reason]:
    """Why no job of this queue and task starts: a pause, a limit, no worker, or no worker with the
    task."""
    job, paused, serving = evidence.job, evidence.paused, evidence.serving_workers
    yield from queue_limit_reasons(evidence)
    if paused is not None:
        text = f"queue {job.queue!r} has been paused since {evidence.ago(paused)}"
        found = {"queue": job.queue, "since": as_datetime(paused)}
        yield Reason(
            ReasonCode.PAUSED, text, evidence=found, **advise("resume it", "resume", job.queue)
        )
    if not evidence.workers:
        found = {"queue": job.queue, "served": []}
        yield Reason(
            ReasonCode.NO_WORKER,
            "no worker is alive",
            evidence=found,
            **advise("start one", "worker", APP),
        )
    elif not serving:
        others = sorted({queue for worker in evidence.workers for queue in worker.queues})
        text = f"no live worker serves queue {job.queue!r} (they serve {', '.join(others)})"
        helps = advise(f"start one for {job.queue!r}", "worker", APP, "--queues", job.queue)
        yield Reason(
            ReasonCode.NO_WORKER, text, evidence={"queue": job.queue, "served": others}, **helps
        )
    elif not evidence.knowing_workers:
        text = f"no live worker of queue {job.queue!r} knows the task {job.task!r}"
        knows = {"task": job.task, "workers": [worker.name for worker in serving]}
        remedy = (
            "deploy the code that defines it and restart the workers, or correct the task's name"
        )
        yield Reason(ReasonCode.TASK_UNKNOWN, text, remedy, knows)


def turn_reason(evidence: Evidence) -> Reason:
    """Nothing is wrong: it is ready, and other jobs go first."""
    slots = sum(worker.slots for worker in evidence.serving_workers)
    ahead = times(evidence.ahead or 0, "job")
    line = (
        f"{ahead} ahead of it{_estimate(evidence)}" if evidence.ahead else "it is the next in line"
    )
    found = {
        "ahead": evidence.ahead or 0,
        "slots": slots,
        "rate": _rate(evidence),
        "since": as_datetime(evidence.job.due),
    }
    if evidence.job.fair is not None:
        line += f"; its group {evidence.job.fair!r} takes turns with others"
        found["fair"] = evidence.job.fair
    if evidence.full:
        text, helps = _full(evidence, slots)
        return Reason(ReasonCode.BUSY, f"{text}; {line}", evidence=found, **helps)
    text = (
        f"it has been ready since {evidence.ago(evidence.job.due)}; {line}; a worker has room "
        "for it"
    )
    return Reason(ReasonCode.NEXT, text, evidence=found)


def _full(evidence: Evidence, slots: int) -> tuple[str, dict[str, Any]]:
    """What its workers have no more of, slots or threads, and how to get more."""
    running = max(
        sum(view.running for view in evidence.queues),
        sum(worker.running for worker in evidence.serving_workers),
    )
    if running >= slots:
        text = (
            "the only slot of its worker is busy"
            if slots == 1
            else f"all {slots} slots of its workers are busy"
        )
        more = str(2 * max(worker.slots for worker in evidence.serving_workers))
        return text, advise(
            "start another worker, or each with more slots", "worker", APP, "--concurrency", more
        )
    text = (
        f"its workers are full: sync functions use all their threads, with {running} of "
        f"{slots} slots busy"
    )
    return text, advise(
        "start another worker, or each with more threads", "worker", APP, "--threads", _MORE_THREADS
    )


def _rate(evidence: Evidence) -> float:
    """Runs per second of its workers in this queue; of all queues for a worker that has ended no
    run of this queue lately."""
    queue = evidence.job.queue
    return sum(worker.rates.get(queue) or worker.rate for worker in evidence.serving_workers)


def _estimate(evidence: Evidence) -> str:
    rate = _rate(evidence)
    return (
        f", about {span(round((evidence.ahead or 0) / rate * SECOND))} at the present rate"
        if rate > 0
        else ""
    )


def clock_reasons(evidence: Evidence) -> Iterator[Reason]:
    """A worker whose clock differs from the store's."""
    for worker in evidence.serving_workers:
        if abs(worker.offset) >= CLOCK_TOLERANCE_MS:
            direction = "ahead of" if worker.offset > 0 else "behind"
            text = (
                f"the clock of worker {worker.name} is {span(worker.offset)} {direction} the "
                "store's, which decides"
            )
            found = {
                "worker": worker.name,
                "host": worker.host,
                "offset_seconds": worker.offset / SECOND,
            }
            yield Reason(ReasonCode.CLOCK, text, "synchronise that machine's clock", found)
