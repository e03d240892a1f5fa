"""The command `repeats add`."""

import argparse
from typing import Any, get_args

from mita.client.repeat_spec import RepeatChoices
from mita.errors import UsageError
from mita.model.pattern import All, Cron, Every, Overlap, Pattern
from mita.rules.priority import PRIORITY_RANGE
from mita.rules.words import clock

from .argtypes import count, duration, moment
from .context import CommandContext, store_command
from .enqueue import named_task
from .parser import Commands, reason_option
from .screen import Report

_ABOUT = """The same KEY again edits it and
keeps its count. Each ARG is a value by position, or NAME=VALUE."""


def add(verbs: Commands) -> None:
    """Add `repeats add` to the parser."""
    parser = verbs.add(
        "add",
        store_command(put, creates_store=True),
        "create a repeat, or edit it",
        about=_ABOUT,
        rest="args",
    )
    parser.add_argument(
        "key", metavar="KEY", help="the key of the repeat; -: make one from task and pattern"
    )
    parser.add_argument("task", metavar="TASK", help="the name of a task of --app")
    parser.add_argument("args", metavar="ARG", nargs="*", help="its arguments")
    parser.add_argument(
        "--args",
        dest="packed",
        metavar="JSON",
        help="all arguments as a list or an object; - reads stdin",
    )
    when = parser.add_argument_group("when")
    pattern_options(when.add_mutually_exclusive_group(required=True))
    when.add_argument(
        "--tz",
        metavar="ZONE",
        help="the time zone of the cron line: Europe/Madrid, or an offset like +02:00 (UTC)",
    )
    when.add_argument(
        "--start-after",
        type=moment,
        metavar="TIME",
        help="no fire before then: 2030-01-31T09:00:00Z",
    )
    when.add_argument("--end-before", type=moment, metavar="TIME", help="no fire then or later")
    when.add_argument("--limit", type=count, metavar="N", help="end after this many fires")
    when.add_argument(
        "--missed",
        type=missed,
        default="skip",
        metavar="WHAT",
        help="what to do about missed fires: skip, once, all, all:N",
    )
    when.add_argument(
        "--overlap",
        choices=get_args(Overlap),
        default="allow",
        help="what a fire does while the last job has not ended: allow makes a job anyway, skip "
        "makes none, queue lets it wait for its turn, cancel ends the last one",
    )
    when.add_argument(
        "--jitter",
        type=duration,
        default=0,
        metavar="DURATION",
        help="each job is due up to this much later than its fire time: 30s, 5m",
    )
    when.add_argument(
        "--pause-after", type=count, metavar="N", help="pause it after N failures in a row"
    )
    job = parser.add_argument_group("the jobs")
    job.add_argument("--queue")
    job.add_argument("--priority", type=int, help=f"{PRIORITY_RANGE}, higher first")
    job.add_argument(
        "--unique", metavar="KEY", help="make no job while one with this key has not ended"
    )
    job.add_argument("--resource", metavar="KEY", help="at most one job with this key runs at once")
    reason_option(parser)


def pattern_options(group: Any) -> None:
    """Add the options for a pattern: `--every` or `--cron`."""
    group.add_argument(
        "--every", type=duration, metavar="DURATION", help="seconds, or 30s, 10m, 1h30m, 2d"
    )
    group.add_argument(
        "--cron", metavar="LINE", help="minute hour day month weekday; 6 fields begin with seconds"
    )


def missed(text: str) -> str | All:
    """Parse `skip`, `once`, `all` or `all:N`."""
    word, _, most = text.partition(":")
    if word in ("skip", "once") and not most:
        return word
    if word != "all":
        raise argparse.ArgumentTypeError(f"{text!r}: say skip, once, all, or all:N for at most N")
    return All(count(most)) if most else All()


def pattern_of(options: argparse.Namespace) -> Pattern:
    """The pattern of the options. Raises `UsageError` for `--tz` with `--every`."""
    if options.every is None:
        return Cron(options.cron, tz=options.tz or "UTC")
    if options.tz is not None:
        raise UsageError("--tz goes with --cron: an interval is the same in every time zone")
    return Every(options.every)


async def put(context: CommandContext) -> Report:
    """Create or edit a repeat."""
    options = context.options
    task, by_position, by_name = named_task(context)
    call = task.call(*by_position, **by_name)
    choices = {name: getattr(options, name) for name in RepeatChoices.__annotations__}
    key = None if options.key == "-" else options.key
    record = await context.app.repeat(key, call, pattern_of(options), **choices)
    following = f"next {clock(record.next, await context.now())}" if record.next else record.reason
    return Report(
        {"repeat": record}, f"{record.key}  {record.state.value}  {record.words}; {following}"
    )
