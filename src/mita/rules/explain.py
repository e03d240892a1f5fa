"""Why is this job not running? Pure: evidence in, reasons out, the weightiest first."""

from collections.abc import Iterator

from mita.model.job import Job, State
from mita.model.outcome import BY_HANDLER, OUTSIDE, Event
from mita.model.time import SECOND, Moment

from .evidence import Code, Evidence, Reason
from .judge import first_line
from .show import as_datetime, clock, span

CLOCK_TOLERANCE = 5 * SECOND  # a worker's clock this far from the store's deserves a word


def explain(evidence: Evidence) -> list[Reason]:
    """The reasons, ordered: first what the job itself waits for, then what stands in its way after that."""
    match evidence.job.state:
        case State.RUNNING:
            return [*_running(evidence), *_unique(evidence)]
        case State.SUCCEEDED | State.FAILED | State.CANCELLED:
            return [*_ended(evidence), *_twin(evidence)]
        case State.BLOCKED:
            waits = [*_key(evidence)] or [_key_free(evidence)]
            return [*waits, *_way(evidence), *_clocks(evidence), *_unique(evidence)]
        case State.QUEUED if evidence.job.due > evidence.now:
            return [_due(evidence), *_hold(evidence), *_way(evidence), *_clocks(evidence), *_unique(evidence)]
        case State.QUEUED:
            obstacles = [*_key(evidence), *_way(evidence)]
            return [*(obstacles or [_turn(evidence)]), *_clocks(evidence), *_unique(evidence)]


# ---------------------------------------------------------------- it runs, or it is over


def _running(evidence: Evidence) -> Iterator[Reason]:
    job, now = evidence.job, evidence.now
    since = f" since {evidence.ago(job.started)}" if job.started is not None else ""
    text = f"it runs right now on {evidence.worker(job.worker)}{since}, attempt {job.attempts + 1}"
    found = {"worker": job.worker, "since": _datetime(job.started), "attempt": job.attempts + 1}
    yield Reason(Code.RUNNING, text, evidence=found)
    if job.lease_until is not None and job.lease_until < now:
        yield Reason(
            Code.LEASE_OVER,
            f"but its lease ran out {span(now - job.lease_until)} ago: that worker died or was cut off",
            "any live worker takes it over at its next sweep"
            if evidence.workers
            else "no worker is alive to take it over: start one",
            {"worker": job.worker, "lease_until": _datetime(job.lease_until), "live_workers": len(evidence.workers)},
        )
    if job.asked:
        text = f"it was asked to {job.asked} while it ran; that takes effect when this run ends"
        yield Reason(Code.ASKED, text, evidence={"asked": job.asked})


def _ended(evidence: Evidence) -> Iterator[Reason]:
    job = evidence.job
    when = f" at {evidence.ago(job.finished)}" if job.finished is not None else ""
    finished = {"finished": _datetime(job.finished)}
    match job.state:
        case State.SUCCEEDED:
            yield Reason(Code.SUCCEEDED, f"it succeeded{when}", evidence=finished)
        case State.CANCELLED:
            why = _why_cancelled(evidence)
            yield Reason(Code.CANCELLED, f"it was cancelled{when}{why}", "`retry` runs it again", finished)
        case _:
            error = f"; the last error was {first_line(job.error)}" if job.error else ""
            text = f"it is dead{_after_what(job)}{when}{error}"
            found = {**finished, "attempts": job.attempts, "crashes": job.crashes, "error": first_line(job.error or "")}
            yield Reason(Code.FAILED, text, "mend the cause, then `retry` runs it again", found)


def _twin(evidence: Evidence) -> Iterator[Reason]:
    """An ended job and its unique key: another has it, or this one keeps it for a while longer."""
    job = evidence.job
    if evidence.twin is not None:
        text = f"its unique key {job.unique!r} now belongs to job {evidence.twin}"
        remedy = "look at that one; this one cannot be retried before it has ended"
        yield Reason(Code.TWIN, text, remedy, {"unique": job.unique, "job": evidence.twin})
    elif job.unique is not None and job.finished is not None and job.finished + job.unique_for > evidence.now:
        until = job.finished + job.unique_for
        text = (
            f"it keeps the unique key {job.unique!r} until {clock(until, evidence.now)}: an enqueue with that key before "
            "then gives this job and makes no new one"
        )
        found = {"unique": job.unique, "job": job.id, "until": as_datetime(until)}
        yield Reason(Code.TWIN, text, "wait until then, choose another unique key, or a shorter unique_for", found)


def _unique(evidence: Evidence) -> Iterator[Reason]:
    job = evidence.job
    if job.unique is not None:
        text = f"it has the unique key {job.unique!r}: every enqueue with that key gives this job until it has ended"
        yield Reason(Code.TWIN, text, "for a job beside it choose another unique key", {"unique": job.unique, "job": job.id})


# ---------------------------------------------------------------- what the job itself waits for


def _due(evidence: Evidence) -> Reason:
    job, now = evidence.job, evidence.now
    because, words = _why_then(evidence)
    text = f"it is due in {span(job.due - now)} ({clock(job.due, now)}): {words}"
    found = {"due": as_datetime(job.due), "in_seconds": (job.due - now) / SECOND, "because": because}
    return Reason(Code.DUE, text, "`reschedule` with after=0 runs it now", found)


def _why_then(evidence: Evidence) -> tuple[str, str]:
    """What set the present due time: the newest event that moves a job in time, else the enqueue."""
    job = evidence.job
    if job.stranded is not None:
        since = clock(job.stranded, evidence.now)
        return "stranded", f"no worker that met it has known its task {job.task!r} since {since}"
    for event in reversed(evidence.events):
        if (words := _moved_by(evidence, event)) is not None:
            return event.kind, words
    return ("repeat", f"repeat {job.repeat!r} fires then") if job.repeat else ("scheduled", "it was scheduled for then")


def _moved_by(evidence: Evidence, event: Event) -> str | None:
    job = evidence.job
    match event.kind:
        case "retried":
            error = f" after {first_line(job.error)}" if job.error else ""
            return f"retry {job.attempts} of {evidence.retry.max_retries}{error}"
        case "rescheduled":
            who = OUTSIDE if event.worker is None else BY_HANDLER
            return f"rescheduled {who}{_reason(event.note)}"
        case "crashed":
            return f"its worker died or was cut off ({_times(job.crashes, 'crash', 'crashes')} so far)"
        case "unavailable":
            return f"what it needs is not available{_reason(event.note)}"
        case "revived":
            return "it was brought back for then"
    return None


def _key(evidence: Evidence) -> Iterator[Reason]:
    """Its resource key: on hold, or held by as many jobs as may hold it."""
    job, view, now = evidence.job, evidence.resource, evidence.now
    yield from _hold(evidence)
    if view is None or len(view.holders) < (1 if job.state is State.BLOCKED else job.limit):
        return
    first = min(view.holders, key=lambda holder: holder.since or now)
    held = f" for {span(now - first.since)}" if first.since is not None else ""
    more = f" and {_times(len(view.holders) - 1, 'other job')}" if len(view.holders) > 1 else ""
    found = {"key": job.resource, "holders": [holder.id for holder in view.holders], "ahead": _ahead(evidence)}
    yield Reason(
        Code.KEY_HELD,
        f"key {job.resource!r} is held by job {first.id} on {evidence.worker(first.worker)}{held}{more}{_in_line(evidence)}",
        f"it goes on when that job ends (`why {first.id}`); a higher limit= lets more jobs hold the key at once",
        {**found, "worker": first.worker, "since": _datetime(first.since)},
    )


def _hold(evidence: Evidence) -> Iterator[Reason]:
    job, view, now = evidence.job, evidence.resource, evidence.now
    until = view.held_until if view is not None else None
    if until is not None and until > max(now, job.due):
        text = f"key {job.resource!r} is on hold until {clock(until, now)}, in {span(until - now)}{_in_line(evidence)}"
        found = {"key": job.resource, "until": as_datetime(until), "ahead": _ahead(evidence)}
        yield Reason(Code.KEY_UNAVAILABLE, text, f"`unhold {job.resource}` lets it go earlier", found)


def _key_free(evidence: Evidence) -> Reason:
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


def _way(evidence: Evidence) -> Iterator[Reason]:
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


def _turn(evidence: Evidence) -> Reason:
    """Nothing is wrong: it is due, and waits for its turn."""
    slots = sum(worker.slots for worker in evidence.serving)
    line = f"{evidence.ahead} jobs ahead of it{_estimate(evidence)}" if evidence.ahead else "it is the next in line"
    found = {"ahead": evidence.ahead or 0, "slots": slots, "rate": _rate(evidence), "since": as_datetime(evidence.job.due)}
    if evidence.full:
        remedy = "more workers or a higher concurrency; a higher priority lets it go first"
        return Reason(Code.BUSY, f"all {slots} slots of its workers are busy; {line}", remedy, found)
    text = f"it is ready since {evidence.ago(evidence.job.due)}; {line}; a worker has room for it"
    return Reason(Code.NEXT, text, evidence=found)


def _rate(evidence: Evidence) -> float:
    return sum(worker.rate for worker in evidence.serving)


def _estimate(evidence: Evidence) -> str:
    rate = _rate(evidence)
    return f", about {span(round((evidence.ahead or 0) / rate * SECOND))} at the present rate" if rate > 0 else ""


def _clocks(evidence: Evidence) -> Iterator[Reason]:
    for worker in evidence.serving:
        if abs(worker.offset) >= CLOCK_TOLERANCE:
            way = "ahead of" if worker.offset > 0 else "behind"
            text = f"the clock of worker {worker.name} is {span(worker.offset)} {way} the store's, which decides"
            found = {"worker": worker.name, "host": worker.host, "offset_seconds": worker.offset / SECOND}
            yield Reason(Code.CLOCK, text, "synchronise that machine's clock", found)


# ---------------------------------------------------------------- words


def _why_cancelled(evidence: Evidence) -> str:
    """By a person, or because its key was taken and it was told not to wait."""
    last = evidence.events[-1] if evidence.events else None
    if last is not None and last.kind in ("skipped", "replaced"):
        return f": {last.kind}{_reason(last.note)}"
    since = max((i for i, event in enumerate(evidence.events) if event.kind == "revived"), default=-1)
    return _reason(
        "; ".join(event.note for event in evidence.events[since + 1 :] if event.kind == "cancelled" and event.note)
    )


def _reason(note: str) -> str:
    return f" ({note})" if note and note not in (BY_HANDLER, OUTSIDE) else ""


def _times(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _after_what(job: Job) -> str:
    failed = [_times(job.attempts, "failed run")] if job.attempts else []
    crashed = [_times(job.crashes, "crash", "crashes")] if job.crashes else []
    return f" after {' and '.join(failed + crashed)}" if failed or crashed else ""


def _datetime(moment: Moment | None) -> object:
    return None if moment is None else as_datetime(moment)
