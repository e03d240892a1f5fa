"""Groups of failed jobs: `dead`."""

from collections.abc import Callable
from datetime import datetime

from mita.errors import UsageError
from mita.model.dead_group import DeadGroup
from mita.printable import shell_command
from mita.rules.claim_size import CALL_JOBS
from mita.rules.words import clock, counted, relative, sparkline

from .argtypes import NO_GROUP, count
from .context import CommandContext, store_command
from .exits import NotFound
from .inspect import indented
from .parser import Commands
from .screen import Report
from .table import Column, Table

_FIRST, _HOURS = Column("first"), Column("24 hours")
_LEAST_WIDTHS = {_FIRST: 120, _HOURS: 96}  # columns of a terminal that shows them
_ACTS = {
    "look at them": ("jobs", "--group"),
    "count what a retry would run": ("retry", "--dry-run", "--group"),
    "run them again": ("retry", "--group"),
    "delete them": ("delete", "--group"),
}


def add(commands: Commands) -> None:
    """Add the command of this module to the parser."""
    dead = commands.add(
        "dead",
        store_command(show_dead),
    )
    dead.add_argument(
        "group",
        metavar="GROUP",
        nargs="?",
        help="show this group, its latest error, and the commands to act on it; the first digits "
        f"are enough, and {NO_GROUP!r} means the jobs without a group",
    )
    dead.add_argument("--queue", help="only failed jobs of this queue")
    dead.add_argument("--task", help="only failed jobs of this task")
    dead.add_argument("--limit", type=count, default=20, help="groups to show (20; at most 1000)")


async def show_dead(context: CommandContext) -> Report:
    """Run `mita dead`."""
    options = context.options
    if options.group is not None:
        return await _show_group(context, options.group)
    groups = await context.app.dead_groups(
        queue=options.queue, task=options.task, limit=options.limit
    )
    data = {"groups": list(groups)}
    if not groups:
        return Report(data, "no failed jobs")
    which = ("mita", *context.command("dead", "GROUP"))
    cut = len(groups) == options.limit
    more = [f"there may be more groups: add --limit {10 * options.limit}"] if cut else []
    return Report(
        data,
        _table(groups, await context.now(), context.screen.width),
        "",
        *more,
        f"{shell_command(which)} shows an error and the commands to act on its jobs",
    )


def _table(groups: tuple[DeadGroup, ...], now: datetime, width: int | None) -> Table:
    cells: dict[Column, Callable[[DeadGroup], str]] = {
        Column("group"): lambda one: one.group or NO_GROUP,
        Column("jobs", right=True): lambda one: f"{one.count:,}",
        Column("last"): lambda one: relative(one.last, now),
        _FIRST: lambda one: relative(one.first, now),
        _HOURS: lambda one: sparkline(one.hours),
        Column("task", drop_order=1, min_width=10): lambda one: one.task if one.group else "",
        Column("error", drop_order=2, min_width=20): _error,
    }
    shown = [one for one in cells if width is None or width >= _LEAST_WIDTHS.get(one, 0)]
    return Table(shown, [[cells[column](group) for column in shown] for group in groups])


def _error(group: DeadGroup) -> str:
    if not group.group:
        return "failed before there were groups"
    text = ": ".join(part for part in (group.error_type, group.message) if part)
    return f"{text} ({group.frame})" if group.frame else text


# ---------------------------------------------------------------- one group


async def _show_group(context: CommandContext, given: str) -> Report:
    group = await _find(context, given)
    job = await context.app.get(group.sample)
    now = await context.now()
    facts = {
        "group": group.group or f"{NO_GROUP}: they failed before there were groups",
        "jobs": f"{group.count:,}",
        "first": clock(group.first, now),
        "last": clock(group.last, now),
        "24 hours": f"{sparkline(group.hours)}  {counted(sum(group.hours), 'failure')}",
        "task": group.task,
        "queue": group.queue,
        "type": group.error_type,
        "message": group.message,
        "function": group.frame,
        "sample": group.sample,
    }
    error = [] if job is None else ["", "the error of the sample:", *indented(job.error)]
    acts = {what: context.command(*words, group.group or NO_GROUP) for what, words in _ACTS.items()}
    return Report(
        {"group": group, "error": None if job is None else job.error, "commands": acts},
        *(f"{name:<8}  {value}" for name, value in facts.items() if value),
        *error,
        "",
        *(f"{what:<28}  {shell_command(('mita', *words))}" for what, words in acts.items()),
    )


async def _find(context: CommandContext, given: str) -> DeadGroup:
    """The group that begins with these digits."""
    options = context.options
    groups = await context.app.dead_groups(queue=options.queue, task=options.task, limit=CALL_JOBS)
    wanted = "" if given == NO_GROUP else given.lower()
    found = [one for one in groups if one.group == wanted]
    if wanted and not found:
        found = [one for one in groups if one.group.startswith(wanted)]
    if not found:
        raise NotFound(
            f"no failed job has the group {given!r}: `mita dead` lists the groups. A group ends "
            "when all of its jobs are retried or deleted"
        )
    if len(found) > 1:
        fitting = ", ".join(one.group for one in found[:5])
        raise UsageError(f"{given!r} fits several groups ({fitting}): give more digits")
    return found[0]
