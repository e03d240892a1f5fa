"""What stands between a job and its start: its resource key, its queue, the workers and their clocks."""

from collections.abc import Iterator

from mita.model.job import State
from mita.model.time import SECOND

from .evidence import Code, Evidence, Reason
from .show import as_datetime, clock, span, times

CLOCK_TOLERANCE = 5 * SECOND  # a worker's clock this far from the store's deserves a word

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
    found = {"key": job.resource, "holders": [holder.id for holder in view.holders], "ahead": _ahead(evidence)}
    yield Reason(
        Code.KEY_HELD,
        f"key {job.resource!r} is held by job {first.id} on {evidence.worker(first.worker)}{held}{more}{_in_line(evidence)}",
        f"it goes on when that job ends (`why {first.id}`); a higher limit= lets more jobs hold the key at once",
        {**found, "worker": first.worker, "since": None if first.since is None else as_datetime(first.since)},
    )


def hold(evidence: Evidence) -> Iterator[Reason]:
    job, view, now = evidence.job, evidence.resource, evidence.now
    until = view.held_until if view is not None else None
    if until is not None and until > max(now, job.due):
        text = f"key {job.resource!r} is on hold until {clock(until, now)}, in {span(until - now)}{_in_line(evidence)}"
        found = {"key": job.resource, "until": as_datetime(until), "ahead": _ahead(evidence)}
        yield Reason(Code.KEY_UNAVAILABLE, text, f"`unhold {job.resource}` lets it go earlier", found)


def key_free(evidence: Evidence) -> Reason:
    key = evidence.job.resource
    remedy = "nothing to do, with a live worker" if evidence.workers else "start a worker"
    return Reason(Code.KEY_FREE, f"key {key!r} is free again: the next sweep of a worker wakes it", remedy, {"key": key})


def _ahead(evidence: Evidence) -> int:
    """Who waits for the key before it: of a job that nobody has met yet, all that wait."""
    if evidence.job.state is State.BLOCKED:
        return evidence.ahead or 0
    return evidence.resource.waiting if evidence.resource is not None else 0


def _in_line(evidence: Evidence) -> str:
    ahead = _ahead(evidence)
    return f"; {ahead} ahead of it" if ahead else "; it is the next in line"


# ---------------------------------------------------------------- what stands in the way of any job of this queue


def way(evidence: Evidence) -> Iterator[Reason]:
    job, paused, serving = evidence.job, evidence.paused, evidence.serving
    if paused is not None:
        text = f"queue {job.queue!r} is paused since {evidence.ago(paused)}"
        yield Reason(Code.PAUSED, text, f"`resume {job.queue}`", {"queue": job.queue, "since": as_datetime(paused)})
    if not evidence.workers:
        yield Reason(Code.NO_WORKER, "no worker is alive", "start one", {"queue": job.queue, "served": []})
    elif not serving:
        others = sorted({queue for worker in evidence.workers for queue in worker.queues})
        text = f"no live worker serves queue {job.queue!r} (they serve {', '.join(others)})"
        yield Reason(Code.NO_WORKER, text, f"start one for {job.queue!r}", {"queue": job.queue, "served": others})
    elif not any(job.task in worker.tasks for worker in serving):
        text = f"no live worker of queue {job.queue!r} knows the task {job.task!r}"
        found = {"task": job.task, "workers": [worker.name for worker in serving]}
        yield Reason(Code.TASK_UNKNOWN, text, "deploy the code that defines it, or mend the task's name", found)


def turn(evidence: Evidence) -> Reason:
    """Nothing is wrong: it is due, and waits for its turn."""
    slots = sum(worker.slots for worker in evidence.serving)
    line = f"{evidence.ahead} jobs ahead of it{_estimate(evidence)}" if evidence.ahead else "it is the next in line"
    found = {"ahead": evidence.ahead or 0, "slots": slots, "rate": _rate(evidence), "since": as_datetime(evidence.job.due)}
    if evidence.full:
        remedy = "more workers or a higher concurrency; a higher priority lets it go first"
        return Reason(Code.BUSY, f"{_full(evidence, slots)}; {line}", remedy, found)
    text = f"it is ready since {evidence.ago(evidence.job.due)}; {line}; a worker has room for it"
    return Reason(Code.NEXT, text, evidence=found)


def _full(evidence: Evidence, slots: int) -> str:
    running = max(sum(view.running for view in evidence.queues), sum(worker.running for worker in evidence.serving))
    if running >= slots:
        return f"all {slots} slots of its workers are busy"
    return f"its workers are full: plain functions take all their threads, with {running} of {slots} slots busy"


def _rate(evidence: Evidence) -> float:
    """Of this queue since the last beats; of everything just before them, where nothing of this queue ended since."""
    queue = evidence.job.queue
    return sum(worker.rates.get(queue) or worker.rate for worker in evidence.serving)


def _estimate(evidence: Evidence) -> str:
    rate = _rate(evidence)
    return f", about {span(round((evidence.ahead or 0) / rate * SECOND))} at the present rate" if rate > 0 else ""


def clocks(evidence: Evidence) -> Iterator[Reason]:
    for worker in evidence.serving:
        if abs(worker.offset) >= CLOCK_TOLERANCE:
            way = "ahead of" if worker.offset > 0 else "behind"
            text = f"the clock of worker {worker.name} is {span(worker.offset)} {way} the store's, which decides"
            found = {"worker": worker.name, "host": worker.host, "offset_seconds": worker.offset / SECOND}
            yield Reason(Code.CLOCK, text, "synchronise that machine's clock", found)
