"""Bulk runs: `bulk`, and what `retry`, `cancel`, `reschedule` and `delete` do with `--rate` and
`--set`."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from mita.client.filters import FILTERS
from mita.errors import UsageError
from mita.model.bulk import BulkRecord
from mita.model.outcome import Answer
from mita.model.record import BulkResult, DisplayState
from mita.printable import shell_command
from mita.rules.bulk import REFUSED_ANSWER
from mita.rules.own_tasks import BULK_QUEUE
from mita.rules.words import brief, clock, counted, first_line, per_second

from .answers import counted_in_words
from .argtypes import count, named_arguments
from .bulk import DOING, ask, found
from .context import CommandContext, store_command
from .exits import Exit, NotFound
from .parser import Commands, Parser
from .progress import ProgressBar
from .screen import Report, plain
from .table import Column, Table

_LOOK_EVERY_S = 0.2
_NEIGHBOUR_JOBS = 200  # jobs to look at for the shortest ids
_OWN_RUNS = 10  # bulk runs that this process runs at once
_ENDED = (DisplayState.SUCCEEDED, DisplayState.FAILED, DisplayState.CANCELLED)
_ABOUT = """A bulk run changes many jobs at a rate: `mita retry --group GROUP --rate
50/s` starts one. Any worker that serves all queues runs it. `mita cancel ID`
stops it, and `mita retry ID` goes on with it."""


def add(commands: Commands) -> None:
    """Add the command of this module to the parser."""
    bulk = commands.add("bulk", store_command(show_bulk), about=_ABOUT)
    bulk.add_argument("id", metavar="ID", nargs="?", help="a bulk run, or the first digits of it")
    bulk.add_argument(
        "--run",
        dest="run_here",
        action="store_true",
        help="run it here until it ends, and show its progress",
    )
    bulk.add_argument("--limit", type=count, default=20, help="runs on one page (20)")
    bulk.add_argument(
        "--after", metavar="CURSOR", help="continue after this id, the last one of the page before"
    )


def set_option(parser: Parser) -> None:
    """Add the option that changes arguments."""
    parser.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        help="give each job this argument first, as a bulk run; needs --app; may be repeated",
    )


# ---------------------------------------------------------------- starting one


async def start_bulk(
    context: CommandContext,
    count_jobs: Callable[..., Awaitable[BulkResult]],
    begin: Callable[..., Awaitable[BulkRecord]],
) -> Report:
    """Start a bulk run after a confirmation, run it here too, and show its progress. `count_jobs`
    is the bulk method of the app, which counts the jobs. `begin` is `start_bulk` of the app
    without what the options say."""
    options = context.options
    filters = {name: getattr(options, name) for name in FILTERS}
    arguments = _arguments(context)
    rate = None if options.rate is None else options.rate.limit / options.rate.per
    counted_jobs = await count_jobs(**filters, all=options.all, dry_run=True)
    n = counted_jobs.matched
    if options.dry_run or not n:
        data = {"matched": n, "answers": {}, "dry_run": options.dry_run}
        return Report(data, found(n) + _duration(n, rate))
    ask(context, n)
    record = await begin(rate=rate, arguments=arguments, all=options.all, **filters)
    return await _follow(context, record.id)


def _duration(n: int, rate: float | None) -> str:
    if rate is None or not n:
        return ""
    return f"; at {per_second(rate)} that takes {brief(timedelta(seconds=n / rate))}"


def _arguments(context: CommandContext) -> dict[str, Any] | None:
    """The new arguments of `--set`. Raises `UsageError` without an app, which checks them."""
    options = context.options
    words = getattr(options, "set", None)
    if not words:
        return None
    if options.app is None:
        raise UsageError(
            "which app has the tasks of these jobs? --set is checked against them: pass --app "
            "MODULE:APP, for example --app jobs:app, or set $MITA_APP"
        )
    return named_arguments(context.app.find_task(options.task) if options.task else None, words)


# ---------------------------------------------------------------- watching one


async def _follow(context: CommandContext, id: str) -> Report:
    """Run a bulk run here until it ends, unless another worker is faster, and show its progress.
    Ctrl-C leaves it to others."""
    try:
        async with _working(context):
            with ExitStack() as stack:
                record = await _watched(context, id, stack)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        return await _left(context, id)
    return _report(record, await context.now())


@asynccontextmanager
async def _working(context: CommandContext) -> AsyncIterator[None]:
    """A worker for bulk runs, until the end of the block. What it has not ended goes back."""
    name = f"mita-{context.options.command}-{os.getpid()}"
    worker = context.app.worker([BULK_QUEUE], concurrency=_OWN_RUNS, schedule=False, name=name)
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        worker.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def _watched(context: CommandContext, id: str, stack: ExitStack) -> BulkRecord:
    """Show the progress of a bulk run until it ends. Returns its last record."""
    bar, done = None, 0
    while True:
        record = await _get(context, id)
        if record.total and bar is None:
            doing = DOING.get(record.verb, record.verb)
            bar = stack.enter_context(ProgressBar(context.screen, doing, record.total))
        if bar is not None:
            bar.advance(record.done - done)
            done = record.done
        if record.state in _ENDED:
            return record
        await asyncio.sleep(_LOOK_EVERY_S)


async def _get(context: CommandContext, id: str) -> BulkRecord:
    record = await context.app.bulk(id)
    if record is None:
        raise NotFound(f"{id} is no bulk run, or it was deleted: `mita bulk` lists them")
    return record


async def _left(context: CommandContext, id: str) -> Report:
    """What becomes of a bulk run that this process does not run any more."""
    record = await _get(context, id)
    serving = [one.name for one in await context.app.workers() if BULK_QUEUE in one.queues]
    total = "" if record.total is None else f" of {record.total:,}"
    if record.state in _ENDED:
        return _report(record, await context.now())
    goes_on = (
        f"it goes on: {serving[0]} serves the queue {BULK_QUEUE}"
        if serving
        else f"it waits: no worker serves the queue {BULK_QUEUE}, or all queues"
    )
    commands = {
        "watch it": context.command("bulk", id),
        "stop it": context.command("cancel", id),
        "go on with it here": context.command("bulk", id, "--run"),
    }
    return Report(
        _data(record),
        f"bulk run {id}: {record.done:,}{total} done; {goes_on}",
        *(f"{what:<18}  {shell_command(('mita', *words))}" for what, words in commands.items()),
        code=Exit.INTERRUPTED,
    )


# ---------------------------------------------------------------- showing them


async def show_bulk(context: CommandContext) -> Report:
    """Run `mita bulk`."""
    options = context.options
    if options.id is None and options.run_here:
        raise UsageError("which bulk run? Give its id: `mita bulk ID --run`")
    if options.id is not None:
        id = await context.id_of(options.id)
        record = await _get(context, id)
        if options.run_here and record.state not in _ENDED:
            return await _follow(context, id)
        return _report(record, await context.now())
    page = await context.app.bulks(after=options.after, limit=options.limit)
    data = {"bulks": [_data(one) for one in page.bulks], "after": page.after}
    if not page.bulks:
        return Report(data, "no bulk runs")
    more = ["", f"more: add --after {page.after}"] if page.after else []
    short = await context.short_ids([one.id for one in page.bulks], _NEIGHBOUR_JOBS)
    return Report(data, _table(page.bulks, short, await context.now()), *more)


def _table(records: tuple[BulkRecord, ...], short: dict[str, str], now: datetime) -> Table:
    columns = (
        "id",
        "verb",
        "state",
        Column("done", right=True),
        Column("rate", right=True, drop_order=3),
        Column("age", right=True, drop_order=2),
        Column("jobs", drop_order=1, min_width=10),
    )
    rows = [
        (
            short[one.id],
            one.verb,
            one.state.value,
            _done(one),
            "" if one.rate is None else per_second(one.rate),
            brief(now - one.created),
            _filters(one),
        )
        for one in records
    ]
    return Table(columns, rows)


def _done(record: BulkRecord) -> str:
    return "" if record.total is None else f"{record.done:,} of {record.total:,}"


def _filters(record: BulkRecord) -> str:
    return " ".join(f"{name}={value}" for name, value in record.filters.items()) or "all"


def _report(record: BulkRecord, now: datetime) -> Report:
    facts = {
        "bulk run": record.id,
        "verb": record.verb,
        "jobs": _filters(record),
        "state": record.state.value,
        "done": _done(record) or ("nothing yet: it chooses its jobs" if record.started else ""),
        "rate": "" if record.rate is None else per_second(record.rate),
        "reason": record.reason,
        "created": clock(record.created, now),
        "finished": clock(record.finished, now),
        "error": first_line(record.error),
    }
    answers = [_in_words(record, answer, n) for answer, n in record.answers.items()]
    is_done = record.state is DisplayState.SUCCEEDED and set(record.answers) <= {
        Answer.DONE.value,
        Answer.ASKED.value,
    }
    has_failed = record.state in _ENDED and not is_done
    return Report(
        _data(record),
        *(f"{name:<9} {value}" for name, value in facts.items() if value),
        *answers,
        code=Exit.FAILED if has_failed else Exit.OK,
    )


def _in_words(record: BulkRecord, answer: str, n: int) -> str:
    if answer != REFUSED_ANSWER:
        return counted_in_words(record.verb, Answer(answer), n)
    why = f": {record.refusal}" if record.refusal else ""
    return f"{counted(n, 'job')} refused, because the arguments do not fit{why}"


def _data(record: BulkRecord) -> dict[str, Any]:
    data: dict[str, Any] = plain(record)
    return data
