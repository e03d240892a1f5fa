"""What `top` shows at one moment: queues, workers, and the jobs that run."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from mita.model.record import JobRecord, Shown
from mita.model.view import QueueView, WorkerView
from mita.rules.obstacles import CLOCK_TOLERANCE
from mita.rules.show import span

from .desk import Desk, shown
from .look import job_data
from .queues import NO_QUEUES, NO_WORKERS, oldest, paused, queue_data, rate, seen, served, worker_data
from .screen import Report
from .table import Column, Table
from .words import bar, brief, counted, progress

BAR = 20
WAITING = (Shown.READY, Shown.SCHEDULED, Shown.BLOCKED)


class Frame(Struct, frozen=True):
    place: str
    now: datetime
    queues: list[QueueView]
    workers: list[WorkerView]
    jobs: tuple[JobRecord, ...]

    @property
    def running(self) -> int:
        return sum(view.running for view in self.queues)

    def rate(self, queue: str) -> float:
        """Of all workers together."""
        return sum(worker.rates.get(queue, 0.0) for worker in self.workers)


async def look(desk: Desk) -> Frame:
    """Five questions; the longest-running jobs come last in a page, but a page has enough of them for any screen."""
    store = await desk.store()
    page = await desk.app.jobs(state=Shown.RUNNING, limit=desk.options.jobs)
    jobs = sorted(page.jobs, key=lambda job: job.started or job.created)
    return Frame(shown(desk.app.url), await desk.now(), await store.queues(), await store.workers(), tuple(jobs))


# ---------------------------------------------------------------- for people


def report(frame: Frame, height: int | None = None) -> Report:
    """`height`: as many lines as there is room for; jobs give way first."""
    parts: list[str | Table] = [_head(frame), ""]
    parts.append(_queues(frame) if frame.queues else NO_QUEUES)
    parts += ["", _workers(frame) if frame.workers else NO_WORKERS]
    used = 6 + len(frame.queues) + len(frame.workers)
    room = len(frame.jobs) if height is None else max(height - used - 2, 0)
    if frame.jobs and room:
        parts += ["", _jobs(frame, frame.jobs[:room])]
    more = frame.running - min(room, len(frame.jobs))
    if more > 0:
        parts.append(f"and {counted(more, 'more job')} running")
    return Report(data(frame), *parts)


def _head(frame: Frame) -> str:
    slots, runs = sum(worker.slots for worker in frame.workers), sum(worker.rate for worker in frame.workers)
    waiting = sum(_depth(view) for view in frame.queues)
    return (
        f"mita top · {frame.place} · {frame.now:%H:%M:%S} UTC · {counted(waiting, 'job')} waiting, "
        f"{frame.running:,} running, {counted(len(frame.workers), 'worker')} with {counted(slots, 'slot')}, "
        f"{runs:,.1f} runs/s"
    )


def _depth(view: QueueView) -> int:
    return sum(getattr(view, state) for state in WAITING)


def _queues(frame: Frame) -> Table:
    states = [*WAITING, Shown.RUNNING, Shown.FAILED]
    numbers = [Column(name, right=True) for name in ("depth", *states, "rate", "oldest")]
    rows = [
        (
            view.name,
            _depth(view),
            *(getattr(view, state) for state in states),
            f"{frame.rate(view.name):,.1f}/s",
            oldest(view),
            paused(view),
        )
        for view in frame.queues
    ]
    return Table((Column("queue", gives=1), *numbers, Column("")), rows)


def _workers(frame: Frame) -> Table:
    columns = (
        Column("worker", gives=1),
        Column("pid", right=True, gives=5),
        Column("busy", right=True),
        Column("slots", right=True),
        Column("rate", right=True),
        Column("clock"),
        Column("version", gives=4),
        Column("seen", gives=3),
        Column("queues", gives=2),
    )
    rows = [
        (
            worker.name,
            str(worker.pid),
            worker.running,
            worker.slots,
            rate(worker),
            _clock(worker),
            worker.version,
            seen(worker, frame.now),
            served(worker),
        )
        for worker in frame.workers
    ]
    return Table(columns, rows)


def _clock(worker: WorkerView) -> str:
    """`ok`, or how far it is from the store's."""
    if abs(worker.offset) < CLOCK_TOLERANCE:
        return "ok"
    return f"{span(worker.offset)} {'ahead' if worker.offset > 0 else 'behind'}"


def _jobs(frame: Frame, jobs: tuple[JobRecord, ...]) -> Table:
    columns = (
        Column("running", gives=5),
        Column("task", gives=2),
        Column("queue", gives=4),
        Column("for", right=True),
        Column("attempt", right=True, gives=3),
        Column("progress"),
        Column("", gives=1),
    )
    rows = [
        (job.id, job.task, job.queue, _since(job, frame.now), job.attempts + 1, bar(job, BAR), progress(job)) for job in jobs
    ]
    return Table(columns, rows)


def _since(job: JobRecord, now: datetime) -> str:
    return "" if job.started is None else brief(now - job.started)


# ---------------------------------------------------------------- for programs


def data(frame: Frame) -> dict[str, Any]:
    return {
        "now": frame.now,
        "queues": [{**queue_data(view), "depth": _depth(view), "rate": frame.rate(view.name)} for view in frame.queues],
        "workers": [worker_data(worker) for worker in frame.workers],
        "jobs": [job_data(job) for job in frame.jobs],
    }
