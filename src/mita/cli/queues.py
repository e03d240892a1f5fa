"""Queues, resource keys and workers: `queues`, `pause`, `resume`, `hold`, `unhold`, `workers`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.job import Job, State
from mita.model.record import DisplayState, JobRecord
from mita.model.time import SECOND
from mita.model.view import JobFilter, QueueView, WorkerView
from mita.rules.display import as_datetime, limit_text, span
from mita.rules.matching import SHOWN_OF_QUEUED
from mita.rules.words import clock, per_second, relative

from .context import CommandContext, store_command
from .limit_data import limit_data
from .parser import Commands, reason_option, time_options
from .screen import Report, listed
from .table import Column, Table

NO_QUEUES = "no queues yet: the first job of a queue makes it"
NO_WORKERS = "no worker is alive: start one with `mita worker module:app`"
_COUNTED_JOBS = 200  # running jobs that are read to count those of each worker
_READY, _SCHEDULED, _WAITING = DisplayState.READY, DisplayState.SCHEDULED, DisplayState.WAITING
_OTHERS = [state for state in DisplayState if state not in SHOWN_OF_QUEUED]
_COUNTS = (_READY, _SCHEDULED, _WAITING, *_OTHERS)
_DROP_ORDER = {
    "cancelled": 9,
    "succeeded": 8,
    "waiting": 7,
    "scheduled": 6,
    "limit": 5,
    "running": 4,
    "blocked": 3,
    "oldest": 2,
}
QUEUE_COLUMN = Column("queue", drop_order=1, min_width=12)


def add(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    commands.add(
        "queues",
        store_command(show_queues),
    )
    for name, run in (("pause", store_command(pause)), ("resume", store_command(resume))):
        parser = commands.add(name, run, rest="queues")
        parser.add_argument("queues", metavar="QUEUE", nargs="+")
        reason_option(parser)
    hold_parser = commands.add("hold", store_command(hold))
    hold_parser.add_argument("key", metavar="KEY")
    hold_parser.add_argument("--queue", help="only in this queue (default: in all)")
    time_options(hold_parser, at="--until", required=True)
    reason_option(hold_parser)
    unhold_parser = commands.add("unhold", store_command(unhold))
    unhold_parser.add_argument("key", metavar="KEY")
    unhold_parser.add_argument("--queue", help="only in this queue (default: in all)")
    reason_option(unhold_parser)
    commands.add("workers", store_command(show_workers))


# ---------------------------------------------------------------- queues


async def show_queues(context: CommandContext) -> Report:
    """Run `mita queues`."""
    views = await context.app.queues()
    data = {"queues": [queue_data(view) for view in views]}
    if not views:
        return Report(data, NO_QUEUES)
    states, is_old = shown_states(views, _COUNTS), any(view.counted for view in views)
    counts = [Column(name, right=True, drop_order=_DROP_ORDER.get(name, 0)) for name in states]
    rows = [
        (
            view.name,
            *(getattr(view, name) for name in states),
            oldest(view),
            limit(view),
            stopped(view),
            *([counted(view)] if is_old else []),
        )
        for view in views
    ]
    last = (
        Column("oldest", right=True, drop_order=_DROP_ORDER["oldest"]),
        Column("limit", drop_order=_DROP_ORDER["limit"]),
        Column(""),
        *([Column("counted")] if is_old else []),
    )
    return Report(data, Table((QUEUE_COLUMN, *counts, *last), rows))


def shown_states(views: Sequence[QueueView], states: Sequence[DisplayState]) -> list[DisplayState]:
    """The states whose numbers are shown: without `waiting` if no job waits for others."""
    waits = any(view.waiting for view in views)
    return [state for state in states if waits or state is not _WAITING]


def oldest(view: QueueView) -> str:
    """The age of the oldest ready job; empty if there is none."""
    return "" if view.oldest is None else span(view.oldest)


def counted(view: QueueView) -> str:
    """How old the counts of the queue are; empty if they are exact."""
    return "" if view.counted is None else f"{span(view.counted)} ago"


def limit(view: QueueView) -> str:
    """The limit of a queue that may start jobs; empty if there is none."""
    return "" if stopped(view) else limit_text(view.limit)


def stopped(view: QueueView) -> str:
    """Why no job of the queue may start: `paused`, or `stopped` by a limit of 0; else empty. This
    is shown however narrow the terminal is."""
    if view.paused is not None:
        return "paused"
    is_stopped = view.limit is not None and view.limit.concurrency == 0
    return limit_text(view.limit) if is_stopped else ""


def queue_data(view: QueueView) -> dict[str, Any]:
    """The queue as a document, for `--json`."""
    return {
        "name": view.name,
        **{state.value: getattr(view, state) for state in _COUNTS},
        "oldest_seconds": None if view.oldest is None else view.oldest / SECOND,
        "counted_seconds_ago": None if view.counted is None else view.counted / SECOND,
        "paused": None if view.paused is None else as_datetime(view.paused),
        "limit": limit_data(view.limit),
        "tokens": view.tokens,
        "next_start": None if view.next_start is None else as_datetime(view.next_start),
    }


async def pause(context: CommandContext) -> Report:
    """Run `mita pause`."""
    known = [view.name for view in await context.app.queues()]
    await context.app.pause(*context.options.queues)
    return _queues_report(context.options.queues, known, "paused")


async def resume(context: CommandContext) -> Report:
    """Run `mita resume`."""
    known = [view.name for view in await context.app.queues()]
    await context.app.resume(*context.options.queues)
    return _queues_report(context.options.queues, known, "resumed")


def _queues_report(queues: list[str], known: list[str], done: str) -> Report:
    """Report the queues. A queue that never had a job may be misspelled, so the report says so."""
    data = {done: [{"name": name, "known": name in known} for name in queues]}
    lines = [f"{name}  {done}{'' if name in known else unknown_queue(known)}" for name in queues]
    return Report(data, *lines)


def unknown_queue(known: list[str]) -> str:
    """What to add to the name of a queue that may be misspelled."""
    return f" (it has had no job so far; there are: {listed(known) or 'none yet'})"


# ---------------------------------------------------------------- keys


async def hold(context: CommandContext) -> Report:
    """Run `mita hold`."""
    options = context.options
    queues = await queues_of_key(context)
    await context.app.hold(
        options.key, until=options.until, after=options.after, queue=options.queue
    )
    until = options.until or as_datetime(
        round((await context.now()).timestamp() * SECOND + options.after * SECOND)
    )
    data = {"key": options.key, "queues": queues, "until": until}
    return Report(
        data,
        f"{options.key}  on hold in {listed(queues)} until {clock(until, await context.now())}",
    )


async def unhold(context: CommandContext) -> Report:
    """Run `mita unhold`."""
    queues = await queues_of_key(context)
    await context.app.unhold(context.options.key, queue=context.options.queue)
    return Report(
        {"key": context.options.key, "queues": queues},
        f"{context.options.key}  free in {listed(queues)}",
    )


async def queues_of_key(context: CommandContext) -> list[str]:
    """The queues in which a key is held or limited: the named one, else all."""
    if context.options.queue is not None:
        return [context.options.queue]
    queues = {view.name for view in await context.app.queues()} | {
        task.queue for task in context.app.tasks.values()
    }
    if not queues:
        raise UsageError("no queue has had a job so far: name the queue, --queue mail")
    return sorted(queues)


# ---------------------------------------------------------------- workers


async def show_workers(context: CommandContext) -> Report:
    """Run `mita workers`."""
    store = await context.store()
    page = await store.page(JobFilter(state=State.RUNNING), None, _COUNTED_JOBS)
    views = busy_now(await store.workers(), page.jobs, whole=page.after is None)
    data = {"workers": [worker_data(view) for view in views]}
    if not views:
        return Report(data, NO_WORKERS)
    now = await context.now()
    columns = (
        Column("worker", drop_order=1, min_width=12),
        Column("pid", right=True, drop_order=6),
        Column("busy", right=True),
        Column("slots", right=True),
        Column("rate", right=True),
        Column("started", drop_order=5),
        Column("seen", drop_order=4),
        Column("queues", drop_order=2),
        Column("tasks", drop_order=3),
    )
    rows = [
        (
            view.name,
            str(view.pid),
            view.running,
            view.slots,
            rate(view),
            relative(as_datetime(view.started), now),
            seen(view, now),
            served(view),
            listed(view.tasks),
        )
        for view in views
    ]
    return Report(data, Table(columns, rows))


def busy_now(
    views: list[WorkerView], running: Iterable[Job | JobRecord], *, whole: bool
) -> list[WorkerView]:
    """How many jobs a worker runs: counted, if all running jobs were read; else as it last
    reported."""
    if not whole:
        return views
    jobs = Counter(job.worker for job in running)
    return [replace(view, running=jobs[view.id]) for view in views]


def rate(view: WorkerView) -> str:
    """The rate with the time that it covers; empty for a worker that started too recently."""
    return f"{per_second(view.rate)} in {span(round(view.window, -3))}" if view.window else ""


def seen(view: WorkerView, now: datetime) -> str:
    """The age of the last heartbeat."""
    return relative(as_datetime(view.seen), now)


def served(view: WorkerView) -> str:
    """The queues of a worker, as text."""
    return listed(view.queues) or "all"


def worker_data(view: WorkerView) -> dict[str, Any]:
    """The worker as a document, for `--json`."""
    return {
        "id": view.id,
        "name": view.name,
        "host": view.host,
        "pid": view.pid,
        "queues": view.queues,
        "tasks": view.tasks,
        "slots": view.slots,
        "running": view.running,
        "rate": view.rate,
        "rates": view.rates,
        "rate_window_seconds": view.window / SECOND,
        "started": as_datetime(view.started),
        "seen": as_datetime(view.seen),
        "clock_offset_seconds": view.offset / SECOND,
        "version": view.version,
    }
