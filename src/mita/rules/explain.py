"""Why is this job not running? Pure: evidence in, reasons out, the weightiest first."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from mita.model.job import Job, State
from mita.model.outcome import Event
from mita.model.policy import Retry
from mita.model.time import SECOND, Moment
from mita.model.view import QueueView, ResourceView, WorkerView

from .judge import first_line
from .show import clock, span

CLOCK_TOLERANCE = 5 * SECOND  # a worker's clock this far from the store's deserves a word


class Code(StrEnum):
    """What kind of reason it is, for programs."""

    RUNNING = "running"
    ASKED = "asked"
    LEASE_OVER = "lease over"
    DUE = "due"
    KEY_HELD = "key held"
    KEY_UNAVAILABLE = "key unavailable"
    KEY_FREE = "key free"
    PAUSED = "queue paused"
    NO_WORKER = "no worker"
    TASK_UNKNOWN = "task unknown"
    BUSY = "workers busy"
    NEXT = "next"
    CLOCK = "clock"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TWIN = "twin"


class Reason(Struct, frozen=True):
    """One reason, in words, and what can be done about it (empty: nothing needs to be)."""

    code: Code
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.remedy})" if self.remedy else self.text


class Evidence(Struct, frozen=True, kw_only=True):
    """What a store knows that bears on one job. `twin` is another job that has this one's unique key now."""

    job: Job
    now: Moment
    events: tuple[Event, ...] = ()
    retry: Retry = Retry()
    queue: QueueView | None = None
    ahead: int | None = None
    resource: ResourceView | None = None
    workers: tuple[WorkerView, ...] = ()
    twin: str | None = None

    @property
    def serving(self) -> list[WorkerView]:
        """Workers of this queue; one that names no queue serves them all."""
        return [worker for worker in self.workers if not worker.queues or self.job.queue in worker.queues]

    def ago(self, moment: Moment) -> str:
        return f"{clock(moment, self.now)}, {span(self.now - moment)} ago"


def explain(evidence: Evidence) -> list[Reason]:
    """The reasons, ordered: first what the job itself waits for, then what stands in its way after that."""
    match evidence.job.state:
        case State.RUNNING:
            return [*_running(evidence)]
        case State.SUCCEEDED | State.FAILED | State.CANCELLED:
            return [*_ended(evidence)]
        case State.BLOCKED:
            return [*_key(evidence), *_way(evidence), *_clocks(evidence)]
        case State.QUEUED if evidence.job.due > evidence.now:
            return [_due(evidence), *_way(evidence), *_clocks(evidence)]
        case State.QUEUED:
            obstacles = [*_way(evidence)]
            return [*obstacles, *([] if obstacles else [_turn(evidence)]), *_clocks(evidence)]


# ---------------------------------------------------------------- it runs, or it is over


def _running(evidence: Evidence) -> Iterator[Reason]:
    job, now = evidence.job, evidence.now
    since = f" since {evidence.ago(job.started)}" if job.started is not None else ""
    yield Reason(Code.RUNNING, f"it runs right now on {_worker(evidence, job.worker)}{since}, attempt {job.attempts + 1}")
    if job.lease_until is not None and job.lease_until < now:
        yield Reason(
            Code.LEASE_OVER,
            f"but its lease ran out {span(now - job.lease_until)} ago: that worker died or was cut off",
            "any live worker takes it over at its next sweep"
            if evidence.workers
            else "no worker is alive to take it over: start one",
        )
    if job.asked:
        yield Reason(Code.ASKED, f"it was asked to {job.asked} while it ran; that takes effect when this run ends")


def _ended(evidence: Evidence) -> Iterator[Reason]:
    job = evidence.job
    when = f" at {evidence.ago(job.finished)}" if job.finished is not None else ""
    match job.state:
        case State.SUCCEEDED:
            yield Reason(Code.SUCCEEDED, f"it succeeded{when}")
        case State.CANCELLED:
            note = _last_note(evidence, "cancelled")
            yield Reason(Code.CANCELLED, f"it was cancelled{when}{note}", "`retry` runs it again")
        case _:
            error = f"; the last error was {first_line(job.error)}" if job.error else ""
            text = f"it is dead{_after_what(job)}{when}{error}"
            yield Reason(Code.FAILED, text, "mend the cause, then `retry` runs it again")
    if evidence.twin is not None:
        yield Reason(
            Code.TWIN,
            f"its unique key {job.unique!r} now belongs to job {evidence.twin}",
            "it cannot be retried before that one has ended",
        )


# ---------------------------------------------------------------- what the job itself waits for


def _due(evidence: Evidence) -> Reason:
    job = evidence.job
    text = f"it is due in {span(job.due - evidence.now)} ({clock(job.due, evidence.now)}): {_why_then(evidence)}"
    return Reason(Code.DUE, text, "`reschedule` with after=0 runs it now")


def _why_then(evidence: Evidence) -> str:
    """What set the present due time: the newest event that moves a job in time, else the enqueue."""
    job = evidence.job
    if job.stranded is not None:
        return f"no worker that met it has known its task {job.task!r} since {clock(job.stranded, evidence.now)}"
    for event in reversed(evidence.events):
        match event.kind:
            case "retried":
                error = f" after {first_line(job.error)}" if job.error else ""
                return f"retry {job.attempts} of {evidence.retry.max_retries}{error}"
            case "rescheduled":
                outside = event.note == "from outside"
                return "rescheduled from outside" if outside else f"rescheduled by its handler{_reason(event.note)}"
            case "crashed":
                return f"its worker died or was cut off ({_times(job.crashes, 'crash', 'crashes')} so far)"
            case "unavailable":
                return f"what it needs is not available{_reason(event.note)}"
            case "revived":
                return "it was brought back for then"
    return f"repeat {job.repeat!r} fires then" if job.repeat else "it was scheduled for then"


def _key(evidence: Evidence) -> list[Reason]:
    key, view, now = evidence.job.resource, evidence.resource, evidence.now
    in_line = f"; {evidence.ahead} ahead of it" if evidence.ahead else "; it is the next in line"
    found = []
    if view is not None and view.held_until is not None and view.held_until > now:
        text = f"key {key!r} is on hold until {clock(view.held_until, now)}, in {span(view.held_until - now)}{in_line}"
        found.append(Reason(Code.KEY_UNAVAILABLE, text, f"`unhold {key}` lets it go earlier"))
    for holder in view.holders if view is not None else ():
        held = f" for {span(now - holder.since)}" if holder.since is not None else ""
        who = f"job {holder.id} on {_worker(evidence, holder.worker)}"
        found.append(Reason(Code.KEY_HELD, f"key {key!r} is held by {who}{held}{in_line}"))
    return found or [Reason(Code.KEY_FREE, f"key {key!r} is free again: the next sweep of a worker wakes it")]


# ---------------------------------------------------------------- what stands in the way of any job of this queue


def _way(evidence: Evidence) -> Iterator[Reason]:
    job = evidence.job
    if evidence.queue is not None and evidence.queue.paused is not None:
        since = evidence.ago(evidence.queue.paused)
        yield Reason(Code.PAUSED, f"queue {job.queue!r} is paused since {since}", f"`resume {job.queue}`")
    if not evidence.workers:
        yield Reason(Code.NO_WORKER, "no worker is alive", "start one")
    elif not evidence.serving:
        others = ", ".join(sorted({queue for worker in evidence.workers for queue in worker.queues}))
        text = f"no live worker serves queue {job.queue!r} (they serve {others})"
        yield Reason(Code.NO_WORKER, text, f"start one for {job.queue!r}")
    elif not any(job.task in worker.tasks for worker in evidence.serving):
        text = f"no live worker of queue {job.queue!r} knows the task {job.task!r}"
        yield Reason(Code.TASK_UNKNOWN, text, "deploy the code that defines it, or mend the task's name")


def _turn(evidence: Evidence) -> Reason:
    """Nothing is wrong: it is due, and waits for its turn."""
    slots = sum(worker.slots for worker in evidence.serving)
    running = sum(worker.running for worker in evidence.serving)
    line = f"{evidence.ahead} jobs ahead of it{_estimate(evidence)}" if evidence.ahead else "it is the next in line"
    if running >= slots:
        remedy = "more workers or a higher concurrency; a higher priority lets it go first"
        return Reason(Code.BUSY, f"all {slots} slots of its workers are busy; {line}", remedy)
    return Reason(Code.NEXT, f"it is ready since {evidence.ago(evidence.job.due)}; {line}; a worker has room for it")


def _estimate(evidence: Evidence) -> str:
    rate = sum(worker.rate for worker in evidence.serving)
    return f", about {span(round((evidence.ahead or 0) / rate * SECOND))} at the present rate" if rate > 0 else ""


def _clocks(evidence: Evidence) -> Iterator[Reason]:
    for worker in evidence.serving:
        if abs(worker.offset) >= CLOCK_TOLERANCE:
            way = "ahead of" if worker.offset > 0 else "behind"
            text = f"the clock of worker {worker.name} is {span(worker.offset)} {way} the store's, which decides"
            yield Reason(Code.CLOCK, text, "synchronise that machine's clock")


# ---------------------------------------------------------------- words


def _worker(evidence: Evidence, id: str | None) -> str:
    named = [f"{worker.name} (pid {worker.pid} on {worker.host})" for worker in evidence.workers if worker.id == id]
    return f"worker {named[0] if named else id or 'unknown'}"


def _last_note(evidence: Evidence, kind: str) -> str:
    notes = [event.note for event in evidence.events if event.kind == kind and event.note]
    return _reason(notes[-1]) if notes else ""


def _reason(note: str) -> str:
    return f" ({note})" if note and note != "by its handler" else ""


def _times(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _after_what(job: Job) -> str:
    failed = [_times(job.attempts, "failed run")] if job.attempts else []
    crashed = [_times(job.crashes, "crash", "crashes")] if job.crashes else []
    return f" after {' and '.join(failed + crashed)}" if failed or crashed else ""
