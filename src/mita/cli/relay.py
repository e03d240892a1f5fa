"""The commands of an outbox: `relay`, and `outbox` with `ls`, `create`, `sql`, `retry`,
`delete`."""

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from mita.errors import UsageError
from mita.model.outbox import OutboxRow
from mita.ports.outbox import JobOutbox
from mita.ports.outbox_table import DIALECTS, create_sql
from mita.rules.display import span
from mita.rules.words import counted

from .context import CommandContext, open_app, store_command, store_text
from .defaults import chosen_app
from .exits import Exit, NotFound
from .logs import LEVELS, write_logs
from .parser import Commands
from .screen import Report, Screen
from .signals import on_stop
from .table import Column, Table

log = logging.getLogger("mita.cli")

LISTED_ROWS = 100
_ABOUT = """Every worker of an
app with an outbox does that too. Start a relay if the workers cannot reach the
database of the outbox, or if none of them runs all the time. Several relays may
run: one of them sends, and the others stand by."""


def add(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    parser = commands.add("relay", relay, about=_ABOUT, app=False)
    parser.add_argument(
        "target",
        metavar="MODULE:APP",
        nargs="?",
        help="the app, for example jobs:app (default: $MITA_APP)",
    )
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve metrics for Prometheus there")
    parser.add_argument(
        "--name", default="", help="the relay's name in the log (host and process id)"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    parser.add_argument(
        "--log-json", action="store_true", help="write each log line as JSON; --json does so too"
    )
    _add_outbox(commands)


def _add_outbox(commands: Commands) -> None:
    parser = commands.add("outbox", store_command(show))
    verbs = Commands(parser, verbs=True)
    verbs.add(
        "ls",
        store_command(show),
        "count the rows, and list the parked ones (this is the default)",
    )
    verbs.add(
        "create",
        store_command(create, creates_store=True),
        "create the table of the outbox in your database",
    )
    sql = verbs.add("sql", print_sql, "print the SQL that creates the table, for a migration")
    sql.add_argument(
        "--dialect", choices=sorted(DIALECTS), default="postgres", help="of your database"
    )
    for name, act, help in (
        ("retry", _retry, "let the relay try parked rows again"),
        ("delete", _delete, "delete parked rows; their jobs never run"),
    ):
        verb = verbs.add(name, store_command(act), help, rest="ids")
        verb.add_argument("ids", metavar="ID", nargs="*", help="of the job, or its first digits")
        verb.add_argument("--all", action="store_true", help="all parked rows")


# ---------------------------------------------------------------- relay


def relay(options: argparse.Namespace, screen: Screen) -> int:
    """Run `mita relay` until it is stopped. Returns the exit code."""
    write_logs(options.log_level, as_json=options.log_json or screen.json)
    asyncio.run(_serve(options))
    return screen.show(Report({"stopped": True}, code=Exit.OK))


async def _serve(options: argparse.Namespace) -> None:
    target = options.target or chosen_app()
    if target is None:
        raise UsageError("name the app that has the outbox: mita relay MODULE:APP, or $MITA_APP")
    async with open_app(options, target) as app:
        one = app.relay(name=options.name, metrics=options.metrics)
        on_stop(one.stop)
        log.info("relay %s sends rows of %s to %s", one.name, app.outbox.shown, store_text(app))
        await one.run()


# ---------------------------------------------------------------- outbox


def print_sql(options: argparse.Namespace, screen: Screen) -> int:
    """Run `mita outbox sql`: print the statements. Needs no app."""
    text = create_sql(options.dialect)
    return screen.show(Report({"sql": text}, *text.splitlines()))


async def create(context: CommandContext) -> Report:
    """Run `mita outbox create`."""
    outbox = context.app.outbox
    await outbox.create()
    return Report({"outbox": outbox.shown}, f"the table mita_outbox is in {outbox.shown}")


async def show(context: CommandContext) -> Report:
    """Run `mita outbox`: count the rows, and list the parked ones."""
    outbox = context.app.outbox
    view, parked = await outbox.view(), await outbox.parked(LISTED_ROWS)
    waiting = f"{counted(view.rows, 'row')} wait for the relay"
    if view.rows:
        waiting += f", the oldest since {span(view.oldest)}"
    listed: list[Table | str] = []
    if parked:
        columns = ("id", "task", "queue", "age", Column("error", drop_order=1))
        rows = [(row.id, row.task, row.queue, span(row.age), row.error) for row in parked]
        listed = ["", f"{counted(view.parked, 'row')} parked:", Table(columns, rows)]
    return Report(
        {
            "outbox": outbox.shown,
            "rows": view.rows,
            "oldest_ms": view.oldest,
            "parked": [_plain(row) for row in parked],
        },
        f"{outbox.shown}: {waiting}",
        *listed,
    )


def _plain(row: OutboxRow) -> dict[str, object]:
    names = ("id", "task", "queue", "age", "error")
    return {name: getattr(row, name) for name in names}


async def _retry(context: CommandContext) -> Report:
    return await _change(context, context.app.outbox.retry, "wait for the relay again")


async def _delete(context: CommandContext) -> Report:
    return await _change(context, context.app.outbox.delete, "deleted")


async def _change(
    context: CommandContext, act: Callable[[Sequence[str]], Awaitable[int]], done: str
) -> Report:
    """Change the parked rows that are named, or all of them."""
    if bool(context.options.ids) is context.options.all:
        raise UsageError("name the jobs of the rows, or give --all")
    ids = await _parked_ids(context.app.outbox, context.options.ids)
    count = await act(ids)
    return Report({"ids": ids, "count": count}, f"{counted(count, 'row')} {done}")


async def _parked_ids(outbox: JobOutbox, given: Sequence[str]) -> list[str]:
    """The ids of the parked rows that are named; of all of them if none is."""
    if not given:
        return [row.id for row in await outbox.parked((await outbox.view()).parked)]
    found = []
    for id in given:
        rows = [row for row in await outbox.beginning(id, LISTED_ROWS) if row.error is not None]
        if len(rows) != 1:
            text = "no parked row has" if not rows else "more than one parked row has"
            raise NotFound(f"{text} an id that begins with {id}; `mita outbox` lists them")
        found.append(rows[0].id)
    return found
