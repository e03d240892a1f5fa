"""What `top` shows at one point in time: queues, workers, and running jobs."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from mita.model.record import DisplayState, JobRecord
from mita.model.view import QueueView, WorkerView
from mita.rules.display import span
from mita.rules.explain.waiting import CLOCK_TOLERANCE_MS
from mita.rules.words import bar, brief, counted, per_second, progress

from .context import CommandContext, store_text
from .inspect import job_data
from .queues import (
    NO_QUEUES,
    NO_WORKERS,
    QUEUE_COLUMN,
    busy_now,
    limit,
    oldest,
    queue_data,
    rate,
    seen,
    served,
    shown_states,
    stopped,
    worker_data,
)
from .screen import Report
from .table import Column, Table

BAR_COLUMNS = 20
_NEIGHBOUR_JOBS = 50  # jobs to look at for the shortest ids
# which numbers of a queue a narrow terminal leaves out first
_DROP_ORDER = {
    "blocked": 8,
    "scheduled": 7,
    "waiting": 6,
    "ready": 5,
    "limit": 4,
    "rate": 3,
    "oldest": 2,
}
# the states of jobs that have not ended and do not run
TO_RUN = (
    DisplayState.READY,
    DisplayState.SCHEDULED,
    DisplayState.WAITING,
    DisplayState.BLOCKED,
)


class Snapshot(Struct, frozen=True):
    """What one update of `top` shows."""

    store: str
    now: datetime
    queues: list[QueueView]
    workers: list[WorkerView]
    jobs: tuple[JobRecord, ...]
    short: dict[str, str]  # their ids, shortened for people

    @property
    def running(self) -> int:
        """How many jobs run, in all queues."""
        return sum(view.running for view in self.queues)

    def rate(self, queue: str) -> float:
        """The runs per second of all workers."""
        return sum(worker.rates.get(queue, 0.0) for worker in self.workers)


async def read_snapshot(context: CommandContext) -> Snapshot:
    """Read a snapshot from the store, with six calls."""
    store = await context.store()
    page = await context.app.jobs(state=DisplayState.RUNNING, limit=context.options.jobs)
    jobs = sorted(page.jobs, key=lambda job: job.started or job.created)
    workers = busy_now(await store.workers(), page.jobs, whole=page.after is None)
    short = await context.short_ids([job.id for job in jobs], _NEIGHBOUR_JOBS)
    return Snapshot(
        store_text(context.app),
        await context.now(),
        await store.queues(),
        workers,
        tuple(jobs),
        short,
    )


# ---------------------------------------------------------------- for people


def report(snapshot: Snapshot, height: int | None = None) -> Report:
    """The snapshot as tables. `height`: how many lines there are; jobs are cut first."""
    parts: list[str | Table] = [*_head(snapshot), ""]
    parts.append(_queues(snapshot) if snapshot.queues else NO_QUEUES)
    parts += ["", _workers(snapshot) if snapshot.workers else NO_WORKERS]
    used = 7 + len(snapshot.queues) + len(snapshot.workers)
    job_lines = len(snapshot.jobs) if height is None else max(height - used - 2, 0)
    if snapshot.jobs and job_lines:
        parts += ["", _jobs(snapshot, snapshot.jobs[:job_lines])]
    more = snapshot.running - min(job_lines, len(snapshot.jobs))
    if more > 0:
        parts.append(f"and {counted(more, 'more job')} running")
    return Report(data(snapshot), *parts)


def _head(snapshot: Snapshot) -> list[str]:
    slots = sum(worker.slots for worker in snapshot.workers)
    to_run = sum(_depth(view) for view in snapshot.queues)
    there = f"{counted(len(snapshot.workers), 'worker')}, {counted(slots, 'slot')}"
    return [
        f"mita top · {snapshot.now:%H:%M:%S} UTC · {_speed(snapshot)} · {snapshot.store}",
        f"{to_run:,} to run, {snapshot.running:,} running · {there}",
    ]


def _speed(snapshot: Snapshot) -> str:
    """The runs per second of all workers, with the time that this covers."""
    window = max((worker.window for worker in snapshot.workers), default=0)
    runs = per_second(sum(worker.rate for worker in snapshot.workers)).removesuffix("/s")
    return f"{runs} runs/s in {span(round(window, -3))}" if window else "rate not known yet"


def _depth(view: QueueView) -> int:
    return sum(getattr(view, state) for state in TO_RUN)


def _queues(snapshot: Snapshot) -> Table:
    states = shown_states(snapshot.queues, [*TO_RUN, DisplayState.RUNNING, DisplayState.FAILED])
    numbers = [
        Column(name, right=True, drop_order=_DROP_ORDER.get(name, 0))
        for name in ("depth", *states, "rate", "oldest")
    ]
    rows = [
        (
            view.name,
            _depth(view),
            *(getattr(view, state) for state in states),
            per_second(snapshot.rate(view.name)),
            oldest(view),
            limit(view),
            stopped(view),
        )
        for view in snapshot.queues
    ]
    last = (Column("limit", drop_order=_DROP_ORDER["limit"]), Column(""))
    return Table((QUEUE_COLUMN, *numbers, *last), rows)


def _workers(snapshot: Snapshot) -> Table:
    columns = (
        Column("worker", drop_order=1, min_width=12),
        Column("pid", right=True, drop_order=6),
        Column("busy", right=True),
        Column("slots", right=True),
        Column("rate", right=True),
        Column("clock", drop_order=5),
        Column("version", drop_order=4),
        Column("seen", drop_order=3),
        Column("queues", drop_order=2),
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
            seen(worker, snapshot.now),
            served(worker),
        )
        for worker in snapshot.workers
    ]
    return Table(columns, rows)


def _clock(worker: WorkerView) -> str:
    """`ok`, or the difference to the store's clock."""
    if abs(worker.offset) < CLOCK_TOLERANCE_MS:
        return "ok"
    return f"{span(worker.offset)} {'ahead' if worker.offset > 0 else 'behind'}"


def _jobs(snapshot: Snapshot, jobs: tuple[JobRecord, ...]) -> Table:
    columns = (
        Column("running"),
        Column("task", drop_order=2, min_width=10),
        Column("queue", drop_order=4),
        Column("for", right=True),
        Column("attempt", right=True, drop_order=3),
        Column("progress", drop_order=1),
        Column("", drop_order=5),
    )
    rows = [
        (
            snapshot.short[job.id],
            job.task,
            job.queue,
            _since(job, snapshot.now),
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


def data(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as a document, for `--json`."""
    return {
        "now": snapshot.now,
        "queues": [
            {**queue_data(view), "depth": _depth(view), "rate": snapshot.rate(view.name)}
            for view in snapshot.queues
        ],
        "workers": [worker_data(worker) for worker in snapshot.workers],
        "jobs": [job_data(job) for job in snapshot.jobs],
    }
