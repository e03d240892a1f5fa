"""When a repeat fires: `repeats next`, `repeats explain`."""

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import islice

from mita.client.repeat_spec import fires_from
from mita.model.pattern import Cron, Every, Pattern
from mita.model.record import RepeatRecord
from mita.model.repeat import RepeatState
from mita.ports.clock import SystemClock
from mita.rules.display import as_datetime
from mita.rules.schedule.cron import zone
from mita.rules.schedule.times import pattern_in_words
from mita.rules.words import counted, relative

from .argtypes import count, duration
from .context import CommandContext, store_command
from .exits import NotFound
from .parser import Commands
from .screen import Report, Screen, listed

_ABOUT = """WHAT is the key of a repeat, or a cron
line in quotes: '0 9 * * MON-FRI'. Times are shown in the pattern's own zone, or
in the zone of --tz."""

_MISSED = {
    "skip": "fires that were missed while no scheduler ran are dropped",
    "once": "one job for all fires that were missed while no scheduler ran, dated at the first",
}
_OVERLAP = {
    "skip": "no new job while the last one has not ended",
    "queue": "a new job waits until the last one has run",
    "cancel": "a new job cancels the last one, and runs when that has ended",
}
_CLOCKS = (
    "when clocks change: a time of day that does not exist fires right after the gap, one that "
    "comes twice fires once, the first time; a line whose minute or hour begins with * is an "
    "interval and fires through both"
)


def add(verbs: Commands) -> None:
    """Add `repeats next`, `show` and `explain` to the parser."""
    for name, run, help in (
        ("next", _coming, "show the next fire times of a repeat or of a pattern"),
        (
            "show",
            _explain,
            "show everything about a repeat, its next fire times and the windows it dropped",
        ),
        ("explain", _explain, "explain in words when a repeat or a pattern fires"),
    ):
        parser = verbs.add(name, _with_or_without_a_store(run), help, about=_ABOUT)
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "what", metavar="WHAT", nargs="?", help="the key of a repeat, or a cron line"
        )
        what.add_argument(
            "--every",
            type=duration,
            metavar="DURATION",
            help="an interval instead: 30s, 10m, 1h30m",
        )
        parser.add_argument(
            "--tz", metavar="ZONE", help="the time zone of the cron line, or to show times in"
        )
        fires = 10 if name == "next" else 5
        parser.add_argument(
            "-n", type=count, default=fires, metavar="N", help=f"how many fires ({fires})"
        )


class Coming:
    """A pattern, its next fire times, the time zone to show them in, and the repeat if there is
    one."""

    def __init__(
        self, pattern: Pattern | None, fires: Sequence[datetime], now: datetime, tz: tzinfo
    ) -> None:
        self.pattern, self.fires, self.now, self.tz = pattern, fires, now, tz
        self.repeat: RepeatRecord | None = None

    def lines(self) -> list[str]:
        """The fire times as lines; one line that says so if there are none."""
        lines = [self._line(fire) for fire in self.fires] or ["it fires no more"]
        if self.fires and self.repeat is not None and self.repeat.jitter:
            lines.append(f"each up to {self.repeat.jitter:g} s later (jitter)")
        return lines

    def _line(self, fire: datetime) -> str:
        there = fire.astimezone(self.tz)
        utc = "" if there.utcoffset() == UTC.utcoffset(None) else f" = {fire:%H:%M:%S} UTC"
        zone = "UTC" if not utc else f"{there:%z}"
        return f"{there:%a %Y-%m-%d %H:%M:%S} {zone}{utc}, {relative(fire, self.now)}"


def _with_or_without_a_store(
    act: Callable[[Coming], Report],
) -> Callable[[argparse.Namespace, Screen], int]:
    """Run without a store for a pattern, and with one for the key of a repeat."""

    async def of_a_key(context: CommandContext) -> Report:
        return act(await _of_a_key(context))

    def run(options: argparse.Namespace, screen: Screen) -> int:
        if (pattern := _pattern(options)) is None:
            return store_command(of_a_key)(options, screen)
        return screen.show(act(_of_a_pattern(pattern, options)))

    return run


def _pattern(options: argparse.Namespace) -> Pattern | None:
    if options.every is not None:
        return Every(options.every)
    return Cron(options.what, tz=options.tz or "UTC") if " " in options.what.strip() else None


def _of_a_pattern(pattern: Pattern, options: argparse.Namespace) -> Coming:
    now = SystemClock().now()
    fires = [as_datetime(fire) for fire in islice(fires_from(pattern, now), options.n)]
    return Coming(pattern, fires, as_datetime(now), zone(options.tz or "UTC"))


async def known(context: CommandContext, key: str, nor: str = "") -> RepeatRecord:
    """Return the repeat with this key. Raises `NotFound` if there is none. `nor`: what else the
    text could have been."""
    found = await context.app.repeats.get(key)
    if found is None:
        there = [repeat.key for repeat in await context.app.repeats.all()]
        raise NotFound(
            f"no repeat {key!r} is in the store{nor}; there are: {listed(there) or 'none'}"
        )
    return found


async def _of_a_key(context: CommandContext) -> Coming:
    record = await known(context, context.options.what, ", and a cron line has 5 fields or 6")
    own = record.pattern.tz if isinstance(record.pattern, Cron) else "UTC"
    fires = (
        await context.app.repeats.preview(record.key, context.options.n)
        if record.pattern is not None
        else []
    )
    coming = Coming(record.pattern, fires, await context.now(), zone(context.options.tz or own))
    coming.repeat = record
    return coming


def _coming(coming: Coming) -> Report:
    key = None if coming.repeat is None else coming.repeat.key
    return Report({"key": key, "pattern": coming.pattern, "fires": coming.fires}, *coming.lines())


def _explain(coming: Coming) -> Report:
    words = "" if coming.pattern is None else pattern_in_words(coming.pattern)
    data = {
        "pattern": coming.pattern,
        "words": words,
        "fires": coming.fires,
        "repeat": coming.repeat,
    }
    lines = [words] if coming.repeat is None else _about(coming.repeat, words)
    if isinstance(coming.pattern, Cron) and coming.pattern.tz != "UTC":
        lines.append(_CLOCKS)
    is_paused = coming.repeat is not None and coming.repeat.state is RepeatState.PAUSED
    head = "next fires (none while it is paused):" if is_paused else "next fires:"
    return Report(data, *lines, head, *(f"  {line}" for line in coming.lines()))


def _about(repeat: RepeatRecord, words: str) -> list[str]:
    state = f"{repeat.state.value}{repeat.reason and ': '}{repeat.reason}"
    lines = [
        f"{repeat.key}  {state}",
        f"{words}: task {repeat.task}, queue {repeat.queue}" if words else "",
    ]
    bounds = [
        f"from {repeat.start_after:%Y-%m-%d %H:%M:%S} UTC on" if repeat.start_after else "",
        f"until before {repeat.end_before:%Y-%m-%d %H:%M:%S} UTC" if repeat.end_before else "",
        f"at most {counted(repeat.limit, 'time')}" if repeat.limit else "",
    ]
    lines.append(", ".join(bound for bound in bounds if bound))
    last = f", last for {repeat.last:%Y-%m-%d %H:%M:%S} UTC" if repeat.last else ""
    lines.append(f"fired {counted(repeat.count, 'time')}{last}")
    if repeat.dropped:
        lines.append(f"dropped {counted(repeat.dropped, 'window')} for which it made no job")
    if words:
        each = f"one job for each window that was missed ({repeat.missed})"
        lines.append(f"missed: {_MISSED.get(repeat.missed, each)}")
    if repeat.overlap in _OVERLAP:
        lines.append(f"overlap: {_OVERLAP[repeat.overlap]}")
    if repeat.pause_after is not None:
        lines.append(
            f"paused after {counted(repeat.pause_after, 'failure')} in a row: "
            f"{repeat.failures} so far"
        )
    return [line for line in lines if line]
