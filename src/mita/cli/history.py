"""How many runs ended in the past: `history`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from msgspec.structs import asdict

from mita.errors import UsageError
from mita.model.history import HistoryPoint
from mita.model.time import HOUR, MINUTE, SECOND, Wait
from mita.rules.history import begin
from mita.rules.words import brief, counted, sparkline

from .argtypes import duration
from .context import CommandContext, store_command
from .parser import Commands
from .screen import Report
from .table import Column, Table

LAST_HOUR_S = 3600.0
BY_MINUTE_S = 6 * 3600.0  # for a longer time, hours are read instead of minutes
MOST_BARS = 61  # of a sparkline: an hour ago is 60 minutes before the current one
OTHERS = "(others)"
_COUNTS = ("succeeded", "failed", "retried", "rescheduled", "cancelled")
_DROP_ORDER = {"cancelled": 5, "rescheduled": 4, "retried": 3}


def add(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    parser = commands.add(
        "history",
        store_command(show_history),
        about="Workers count their runs: per minute for 24 hours, per hour for 90 days.",
    )
    parser.add_argument("--queue", help="only this queue, by task")
    parser.add_argument("--task", help="only this task, by queue")
    parser.add_argument(
        "--since",
        type=duration,
        default=LAST_HOUR_S,
        metavar="TIME",
        help="how long ago it begins: 30m, 24h, 90d (default: 1h)",
    )


async def show_history(context: CommandContext) -> Report:
    """Run `mita history`."""
    options = context.options
    if options.since <= 0:
        raise UsageError("--since 0: say how long ago the history begins, for example 30m or 24h")
    by: Literal["minute", "hour"] = "minute" if options.since <= BY_MINUTE_S else "hour"
    since, now = timedelta(seconds=options.since), await context.now()
    points = await context.app.history(since=since, by=by, queue=options.queue, task=options.task)
    data = {"by": by, "history": [asdict(point) for point in points]}
    ago = f"the last {brief(since)}"
    if not points:
        return Report(data, f"no run has ended in {ago}{_which(options.queue, options.task)}")
    bars = Bars(now - since, now, MINUTE if by == "minute" else HOUR)
    of_task = options.queue is not None and options.task is None
    groups: dict[str, list[HistoryPoint]] = {}
    for point in points:
        name = point.task if of_task else point.queue
        groups.setdefault(name or OTHERS, []).append(point)
    table = Table(
        (
            Column("task" if of_task else "queue", drop_order=1, min_width=12),
            *(Column(name, right=True, drop_order=_DROP_ORDER.get(name, 0)) for name in _COUNTS),
            Column("mean wait", right=True, drop_order=6),
            Column("mean run", right=True, drop_order=7),
            Column("runs", drop_order=2),
        ),
        [_row(name, groups[name], bars) for name in sorted(groups)],
    )
    total = counted(sum(point.runs for point in points), "run")
    return Report(data, table, f"{total} ended in {ago}; a bar of RUNS is {brief(bars.width)}")


def _which(queue: str | None, task: str | None) -> str:
    named = [
        f"{kind} {name}" for kind, name in (("queue", queue), ("task", task)) if name is not None
    ]
    return f" for {' and '.join(named)}" if named else ""


def _row(name: str, points: Sequence[HistoryPoint], bars: "Bars") -> tuple[Any, ...]:
    counts = [sum(getattr(point, count) for point in points) for count in _COUNTS]
    runs = sum(counts)
    means = [
        brief(timedelta(seconds=sum(getattr(point, time) for point in points) / runs))
        for time in ("wait_seconds", "run_seconds")
    ]
    return name, *counts, *means, sparkline(bars.of(points))


class Bars:
    """Adds up the runs of some minutes or hours for each bar: at most `MOST_BARS` bars. `span` is
    the length of a minute or an hour."""

    def __init__(self, since: datetime, now: datetime, span: Wait) -> None:
        self._first = begin(_milliseconds(since), span)
        count = (_milliseconds(now) - self._first) // span + 1
        self._width = span * -(-count // MOST_BARS)
        self._count = -(-count * span // self._width)
        self.width = timedelta(milliseconds=self._width)

    def of(self, points: Sequence[HistoryPoint]) -> list[int]:
        """Returns the number of runs for each bar."""
        found = [0] * self._count
        for point in points:
            at = (_milliseconds(point.at) - self._first) // self._width
            found[min(max(at, 0), self._count - 1)] += point.runs
        return found


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * SECOND)
