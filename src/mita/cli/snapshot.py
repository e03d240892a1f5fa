"""What `top` shows at one point in time: queues, workers, and running jobs."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from mita.model.record import DisplayState, JobRecord
from mita.model.view import QueueView, WorkerView
from mita.rules.explain.reasons.obstacles import CLOCK_TOLERANCE_MS
from mita.rules.explain.reasons.words import span

from .context import Desk, shown
from .format import bar, brief, counted, per_second, progress
from .inspect import job_data
from .queues import (
    NAMED,
    NO_QUEUES,
    NO_WORKERS,
    busy_now,
    oldest,
    paused,
    queue_data,
    rate,
    seen,
    served,
    worker_data,
)
from .screen import Report
from .table import Column, Table

BAR_COLUMNS = 20
_NEIGHBOUR_JOBS = 50  # jobs to look at for the shortest ids
# of a queue's numbers, on a narrow terminal
_GIVES = {"blocked": 5, "scheduled": 4, "ready": 3, "rate": 2}
WAITING = (DisplayState.READY, DisplayState.SCHEDULED, DisplayState.BLOCKED)


class Frame(Struct, frozen=True):
    place: str
    now: datetime
    queues: list[QueueView]
    workers: list[WorkerView]
    jobs: tuple[JobRecord, ...]
    short: dict[str, str]  # their ids, as far as people need them

    @property
    def running(self) -> int:
        return sum(view.running for view in self.queues)

    def rate(self, queue: str) -> float:
        """The runs per second of all workers."""
        return sum(worker.rates.get(queue, 0.0) for worker in self.workers)


async def look(desk: Desk) -> Frame:
    """Read a snapshot from the store, with six calls."""
    store = await desk.store()
    page = await desk.app.jobs(state=DisplayState.RUNNING, limit=desk.options.jobs)
    jobs = sorted(page.jobs, key=lambda job: job.started or job.created)
    workers = busy_now(await store.workers(), page.jobs, whole=page.after is None)
    short = await desk.short_ids([job.id for job in jobs], _NEIGHBOUR_JOBS)
    return Frame(
        shown(desk.app), await desk.now(), await store.queues(), workers, tuple(jobs), short
    )


# ---------------------------------------------------------------- for people


def report(frame: Frame, height: int | None = None) -> Report:
    """The snapshot as tables. `height`: how many lines there are; jobs are cut first."""
    parts: list[str | Table] = [*_head(frame), ""]
    parts.append(_queues(frame) if frame.queues else NO_QUEUES)
    parts += ["", _workers(frame) if frame.workers else NO_WORKERS]
    used = 7 + len(frame.queues) + len(frame.workers)
    room = len(frame.jobs) if height is None else max(height - used - 2, 0)
    if frame.jobs and room:
        parts += ["", _jobs(frame, frame.jobs[:room])]
    more = frame.running - min(room, len(frame.jobs))
    if more > 0:
        parts.append(f"and {counted(more, 'more job')} running")
    return Report(data(frame), *parts)


def _head(frame: Frame) -> list[str]:
    slots = sum(worker.slots for worker in frame.workers)
    waiting = sum(_depth(view) for view in frame.queues)
    there = f"{counted(len(frame.workers), 'worker')}, {counted(slots, 'slot')}"
    return [
        f"mita top · {frame.now:%H:%M:%S} UTC · {_speed(frame)} · {frame.place}",
        f"{waiting:,} waiting, {frame.running:,} running · {there}",
    ]


def _speed(frame: Frame) -> str:
    """The runs per second of all workers, with the time that this covers."""
    window = max((worker.window for worker in frame.workers), default=0)
    runs = per_second(sum(worker.rate for worker in frame.workers)).removesuffix("/s")
    return f"{runs} runs/s in {span(round(window, -3))}" if window else "rate not known yet"


def _depth(view: QueueView) -> int:
    return sum(getattr(view, state) for state in WAITING)


def _queues(frame: Frame) -> Table:
    states = [*WAITING, DisplayState.RUNNING, DisplayState.FAILED]
    numbers = [
        Column(name, right=True, gives=_GIVES.get(name, 0))
        for name in ("depth", *states, "rate", "oldest")
    ]
    rows = [
        (
            view.name,
            _depth(view),
            *(getattr(view, state) for state in states),
            per_second(frame.rate(view.name)),
            oldest(view),
            paused(view),
        )
        for view in frame.queues
    ]
    return Table((NAMED, *numbers, Column("")), rows)


def _workers(frame: Frame) -> Table:
    columns = (
        Column("worker", gives=1, keeps=12),
        Column("pid", right=True, gives=6),
        Column("busy", right=True),
        Column("slots", right=True),
        Column("rate", right=True),
        Column("clock", gives=5),
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
    """`ok`, or the difference to the store's clock."""
    if abs(worker.offset) < CLOCK_TOLERANCE_MS:
        return "ok"
    return f"{span(worker.offset)} {'ahead' if worker.offset > 0 else 'behind'}"


def _jobs(frame: Frame, jobs: tuple[JobRecord, ...]) -> Table:
    columns = (
        Column("running"),
        Column("task", gives=2, keeps=10),
        Column("queue", gives=4),
        Column("for", right=True),
        Column("attempt", right=True, gives=3),
        Column("progress", gives=1),
        Column("", gives=5),
    )
    rows = [
        (
            frame.short[job.id],
            job.task,
            job.queue,
            _since(job, frame.now),
            job.attempts + 1,
            bar(job, BAR_COLUMNS),
            progress(job),
        )
        for job in jobs
    ]
    return Table(columns, rows)


def _since(job: JobRecord, now: datetime) -> str:
    return "" if job.started is None else brief(now - job.started)


# ---------------------------------------------------------------- for programs


def data(frame: Frame) -> dict[str, Any]:
    return {
        "now": frame.now,
        "queues": [
            {**queue_data(view), "depth": _depth(view), "rate": frame.rate(view.name)}
            for view in frame.queues
        ],
        "workers": [worker_data(worker) for worker in frame.workers],
        "jobs": [job_data(job) for job in frame.jobs],
    }
