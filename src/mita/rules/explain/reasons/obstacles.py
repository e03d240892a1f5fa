"""What stands between a job and its start: its resource key, its queue, the workers and their
clocks."""

from collections.abc import Iterator
from typing import Any

from mita.model.job import State
from mita.model.time import SECOND

from .evidence import APP, Code, Evidence, Reason, advise
from .words import as_datetime, clock, span, times

_MORE_THREADS = "32"  # twice the default; a worker does not say how many it has
CLOCK_TOLERANCE_MS = 5 * SECOND  # a worker's clock this far from the store's deserves a word

# ---------------------------------------------------------------- its resource key


def key(evidence: Evidence) -> Iterator[Reason]:
    """Its resource key: on hold, or held by as many jobs as may hold it."""
    job, view, now = evidence.job, evidence.resource, evidence.now
    yield from hold(evidence)
    if view is None or len(view.holders) < job.limit:
        return
    first = min(view.holders, key=lambda holder: holder.since or now)
    held = f" for {span(now - first.since)}" if first.since is not None else ""
    more = f" and {times(len(view.holders) - 1, 'other job')}" if len(view.holders) > 1 else ""
    found = {
        "key": job.resource,
        "holders": [holder.id for holder in view.holders],
        "ahead": _ahead(evidence),
    }
    yield Reason(
        Code.KEY_HELD,
        f"key {job.resource!r} is held by job {first.id} on "
        f"{evidence.worker(first.worker)}{held}{more}{_in_line(evidence)}",
        evidence={
            **found,
            "worker": first.worker,
            "since": None if first.since is None else as_datetime(first.since),
        },
        **advise(
            "it starts when that job ends (or give the task a higher limit=); ask about that job",
            "why",
            first.id,
        ),
    )


def hold(evidence: Evidence) -> Iterator[Reason]:
    job, view, now = evidence.job, evidence.resource, evidence.now
    until = view.held_until if view is not None else None
    if until is not None and until > max(now, job.due):
        text = (
            f"key {job.resource!r} is on hold until {clock(until, now)}, in "
            f"{span(until - now)}{_in_line(evidence)}"
        )
        found = {"key": job.resource, "until": as_datetime(until), "ahead": _ahead(evidence)}
        helps = advise("end the hold now", "unhold", job.resource or "", "--queue", job.queue)
        yield Reason(Code.KEY_UNAVAILABLE, text, evidence=found, **helps)


def key_free(evidence: Evidence) -> Reason:
    key = evidence.job.resource
    helps = {} if evidence.workers else advise("start a worker", "worker", APP)
    text = f"key {key!r} is free again: the next sweep of a worker wakes it"
    return Reason(Code.KEY_FREE, text, evidence={"key": key}, **helps)


def _ahead(evidence: Evidence) -> int:
    """Who waits for the key before it: of a job that nobody has met yet, all that wait."""
    if evidence.job.state is State.BLOCKED:
        return evidence.ahead or 0
    return evidence.resource.waiting if evidence.resource is not None else 0


def _in_line(evidence: Evidence) -> str:
    ahead = _ahead(evidence)
    return f"; {ahead} ahead of it" if ahead else "; it is the next in line"


# -------------------------------------------------- what stands in the way of any job of this queue


def way(evidence: Evidence) -> Iterator[Reason]:
    job, paused, serving = evidence.job, evidence.paused, evidence.serving
    if paused is not None:
        text = f"queue {job.queue!r} has been paused since {evidence.ago(paused)}"
        found = {"queue": job.queue, "since": as_datetime(paused)}
        yield Reason(
            Code.PAUSED, text, evidence=found, **advise("let it go on", "resume", job.queue)
        )
    if not evidence.workers:
        found = {"queue": job.queue, "served": []}
        yield Reason(
            Code.NO_WORKER,
            "no worker is alive",
            evidence=found,
            **advise("start one", "worker", APP),
        )
    elif not serving:
        others = sorted({queue for worker in evidence.workers for queue in worker.queues})
        text = f"no live worker serves queue {job.queue!r} (they serve {', '.join(others)})"
        helps = advise(f"start one for {job.queue!r}", "worker", APP, "--queues", job.queue)
        yield Reason(Code.NO_WORKER, text, evidence={"queue": job.queue, "served": others}, **helps)
    elif not evidence.knowing:
        text = f"no live worker of queue {job.queue!r} knows the task {job.task!r}"
        knows = {"task": job.task, "workers": [worker.name for worker in serving]}
        remedy = (
            "deploy the code that defines it and restart the workers, or correct the task's name"
        )
        yield Reason(Code.TASK_UNKNOWN, text, remedy, knows)


def turn(evidence: Evidence) -> Reason:
    """Nothing is wrong: it is due, and waits for its turn."""
    slots = sum(worker.slots for worker in evidence.serving)
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
    if evidence.full:
        text, helps = _full(evidence, slots)
        return Reason(Code.BUSY, f"{text}; {line}", evidence=found, **helps)
    text = (
        f"it has been ready since {evidence.ago(evidence.job.due)}; {line}; a worker has room "
        "for it"
    )
    return Reason(Code.NEXT, text, evidence=found)


def _full(evidence: Evidence, slots: int) -> tuple[str, dict[str, Any]]:
    """What is used up, and how there can be more of it."""
    running = max(
        sum(view.running for view in evidence.queues),
        sum(worker.running for worker in evidence.serving),
    )
    if running >= slots:
        text = (
            "the only slot of its worker is busy"
            if slots == 1
            else f"all {slots} slots of its workers are busy"
        )
        more = str(2 * max(worker.slots for worker in evidence.serving))
        return text, advise(
            "start another worker, or each with more slots", "worker", APP, "--concurrency", more
        )
    text = (
        f"its workers are full: plain functions take all their threads, with {running} of "
        f"{slots} slots busy"
    )
    return text, advise(
        "start another worker, or each with more threads", "worker", APP, "--threads", _MORE_THREADS
    )


def _rate(evidence: Evidence) -> float:
    """Of this queue since the last beats; of everything just before them, where nothing of this
    queue ended since."""
    queue = evidence.job.queue
    return sum(worker.rates.get(queue) or worker.rate for worker in evidence.serving)


def _estimate(evidence: Evidence) -> str:
    rate = _rate(evidence)
    return (
        f", about {span(round((evidence.ahead or 0) / rate * SECOND))} at the present rate"
        if rate > 0
        else ""
    )


def clocks(evidence: Evidence) -> Iterator[Reason]:
    for worker in evidence.serving:
        if abs(worker.offset) >= CLOCK_TOLERANCE_MS:
            way = "ahead of" if worker.offset > 0 else "behind"
            text = (
                f"the clock of worker {worker.name} is {span(worker.offset)} {way} the "
                "store's, which decides"
            )
            found = {
                "worker": worker.name,
                "host": worker.host,
                "offset_seconds": worker.offset / SECOND,
            }
            yield Reason(Code.CLOCK, text, "synchronise that machine's clock", found)
