"""The command `enqueue`."""

import argparse
import sys
from typing import Any

from mita.errors import UsageError
from mita.rules.priority import PRIORITY_RANGE
from mita.tasks import Bound

from .argtypes import arguments
from .context import CommandContext, store_command
from .parser import Commands, reason_option, time_options
from .screen import Report

_ABOUT = """Each ARG is a value by position, or
NAME=VALUE. It is used as it is where the task takes text; elsewhere it is
read as JSON: 42, true, '[1, 2]'."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "enqueue",
        store_command(enqueue, creates_store=True),
        about=_ABOUT,
        rest="args",
    )
    parser.add_argument("task", metavar="TASK", help="the name of a task of --app")
    parser.add_argument("args", metavar="ARG", nargs="*", help="its arguments")
    parser.add_argument(
        "--args",
        dest="packed",
        metavar="JSON",
        help="all arguments as a list or an object; - reads them from stdin",
    )
    parser.add_argument("--queue")
    parser.add_argument("--priority", type=int, help=f"{PRIORITY_RANGE}, higher first")
    parser.add_argument(
        "--unique", metavar="KEY", help="return the earlier job if one with this key has not ended"
    )
    parser.add_argument(
        "--resource", metavar="KEY", help="at most one job with this key runs at once"
    )
    parser.add_argument(
        "--tag",
        action="append",
        dest="tags",
        help="a tag, instead of those of the task; may be repeated",
    )
    parser.add_argument(
        "--id", help="the id of the job; if there is such a job, nothing is changed"
    )
    time_options(parser)
    reason_option(parser)


async def enqueue(context: CommandContext) -> Report:
    """Run `mita enqueue`."""
    task, by_position, by_name = named_task(context)
    job = await _timed(task, context.options).enqueue(*by_position, **by_name)
    has = "id" if job.id == context.options.id else "unique key"
    said = "enqueued" if job.created else f"not enqueued: this earlier job has the {has}"
    return Report({"id": job.id, "created": job.created}, f"{job.id}  {said}")


def named_task(context: CommandContext) -> tuple[Bound[..., Any], list[Any], dict[str, Any]]:
    """Return the task with the options of the command line, and its arguments by position and by
    name."""
    options = context.options
    if options.app is None:
        raise UsageError(
            "which app's task is it? Pass --app MODULE:APP, for example --app jobs:app, or set "
            "$MITA_APP"
        )
    task = context.app.find_task(options.task)
    packed = sys.stdin.read() if options.packed == "-" else options.packed
    return _chosen(task, options), *arguments(task, options.args, packed)


_CHOICES = ("queue", "priority", "unique", "resource", "tags", "id")


def _chosen(task: Bound[..., Any], options: argparse.Namespace) -> Bound[..., Any]:
    chosen: dict[str, Any] = {name: getattr(options, name, None) for name in _CHOICES}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    return task.options(**chosen) if chosen else task


def _timed(task: Bound[..., Any], options: argparse.Namespace) -> Bound[..., Any]:
    if options.at is not None:
        return task.at(options.at)
    return task if options.after is None else task.after(options.after)
