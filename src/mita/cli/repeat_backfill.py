"""The command `repeats backfill`."""

import argparse
from contextlib import ExitStack
from datetime import datetime

from mita.model.record import BackfillResult
from mita.rules.words import counted

from .context import CommandContext, store_command
from .parser import Commands, reason_option
from .progress import ProgressBar
from .repeat_fires import known
from .screen import Report

_ABOUT = """One job for each fire time from --from until before --to, which must be over.
A fire time whose job is still in the store gets no second one, so the command
can be run again. Times without a zone are in that of the repeat. The schedule
and the count of the repeat do not change."""
SHOWN_WINDOWS = 10


def add(verbs: Commands) -> None:
    parser = verbs.add(
        "backfill", store_command(backfill), "enqueue the jobs of a range in the past", about=_ABOUT
    )
    parser.add_argument("key", metavar="KEY", help="of the repeat")
    for name, help in (("from", "the first fire time is this or later"), ("to", "and before this")):
        parser.add_argument(
            f"--{name}",
            dest=f"{name}_",
            type=local_moment,
            required=True,
            metavar="TIME",
            help=f"{help}: 2030-01-31, 2030-01-31T09:00, or with a zone, 2030-01-31T09:00:00Z",
        )
    parser.add_argument(
        "--dry-run", action="store_true", help="only show the fire times in the range"
    )
    reason_option(parser)


def local_moment(text: str) -> datetime:
    """Parse an ISO time, with or without its zone."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write 2030-01-31, 2030-01-31T09:00 (in the zone of the "
            "repeat), or 2030-01-31T09:00:00Z"
        ) from None


async def backfill(context: CommandContext) -> Report:
    options = context.options
    key = (await known(context, options.key)).key
    with ExitStack() as stack:
        result = await context.app.repeats.backfill(
            key,
            start=options.from_,
            end=options.to_,
            dry_run=options.dry_run,
            progress=_Progress(context, stack),
        )
    data = {"backfill": result, "dry_run": options.dry_run}
    return Report(data, *(_planned(result) if options.dry_run else [_done(result)]))


class _Progress:
    """Shows a bar from the first batch on, unless that was the only one."""

    def __init__(self, context: CommandContext, stack: ExitStack) -> None:
        self._context, self._stack = context, stack
        self._bar: ProgressBar | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None and done < total:
            bar = ProgressBar(self._context.screen, "enqueuing", total)
            self._bar = self._stack.enter_context(bar)
        if self._bar is not None:
            self._bar.advance(done - self._done)
        self._done = done


def _planned(result: BackfillResult) -> list[str]:
    times = [f"  {time:%a %Y-%m-%d %H:%M:%S} UTC" for time in result.windows]
    if len(times) > SHOWN_WINDOWS:
        left = len(times) - SHOWN_WINDOWS
        times[SHOWN_WINDOWS // 2 : -SHOWN_WINDOWS // 2] = [f"  … {left:,} more …"]
    return [f"{result.key}  {counted(len(result.windows), 'fire time')} in the range", *times]


def _done(result: BackfillResult) -> str:
    if not result.windows:
        return f"{result.key}  no fire time is in the range"
    said = f"{result.key}  {counted(result.enqueued, 'job')} enqueued"
    there = len(result.windows) - result.enqueued
    return f"{said}, {there:,} there already" if there else said
