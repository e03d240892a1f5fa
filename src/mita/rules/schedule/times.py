"""The nominal fire times of a repeat, and its pattern in words."""

from collections.abc import Iterator
from itertools import islice, takewhile

from msgspec.structs import replace

from mita.model.pattern import Cron, Every, Pattern, RepeatSpec
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Moment, Wait

from . import cron

_SHORT_INTERVAL_MS = 2 * MINUTE

LONGEST_GAP: Wait = 400 * DAY  # how far back the fire before another one is searched for


def check(spec: RepeatSpec) -> None:
    """Raise a `UsageError` for a pattern that cannot be computed."""
    if isinstance(spec.pattern, Cron):
        cron.check(spec.pattern)


def fires(spec: RepeatSpec, after: Moment, origin: Moment) -> Iterator[Moment]:
    """Yields the nominal fire times later than `after`. Intervals are counted from `origin`, which
    is one of them."""
    times = _times(spec, max(after, (spec.start_after or 0) - 1), origin)
    return (
        times
        if spec.end_before is None
        else takewhile(lambda time: time < (spec.end_before or 0), times)
    )


def following(spec: RepeatSpec, after: Moment, origin: Moment) -> Moment | None:
    """Returns the first fire later than `after`. Thousands of repeats are planned in a second: for
    an interval it is a sum, without a generator."""
    if not isinstance(spec.pattern, Every):
        return next(fires(spec, after, origin), None)
    interval = spec.pattern.interval
    if spec.start_after is not None:
        after = max(after, spec.start_after - 1)
    time = origin + interval * max(0, (after - origin) // interval + 1)
    return None if spec.end_before is not None and time >= spec.end_before else time


def _times(spec: RepeatSpec, after: Moment, origin: Moment) -> Iterator[Moment]:
    match spec.pattern:
        case Cron() as line:
            yield from cron.after(line, after)
        case Every() as every:
            turns = max(0, (after - origin) // every.interval + 1)  # computed, not walked
            while True:
                yield origin + turns * every.interval
                turns += 1


def first(spec: RepeatSpec, now: Moment) -> Moment | None:
    """Returns the first fire of a new repeat: an interval begins at its start, or one interval from
    now."""
    origin = now
    if isinstance(spec.pattern, Every):
        origin = spec.start_after if spec.start_after is not None else now + spec.pattern.interval
    return following(spec, now - 1 if spec.start_after == now else now, origin)


def preview(spec: RepeatSpec, cursor: Moment | None, n: int) -> list[Moment]:
    """Returns the next `n` fires from the cursor on."""
    return [] if cursor is None or n < 1 else [cursor, *islice(fires(spec, cursor, cursor), n - 1)]


def latest(spec: RepeatSpec, cursor: Moment, now: Moment) -> Moment:
    """Returns the last due window. The search begins near now, so that a long outage is not walked
    through."""
    if isinstance(spec.pattern, Every) and spec.end_before is None:
        return now - (now - cursor) % spec.pattern.interval
    span = MINUTE
    while True:
        after = max(cursor, now - span)
        come = takewhile(lambda time: time <= now, fires(spec, after, cursor))
        latest = max(come, default=cursor)
        if latest > cursor or after == cursor:
            return latest
        span *= 4


def before(spec: RepeatSpec, time: Moment) -> Moment:
    """Returns the fire before the one at `time`; if a cron line has none within `LONGEST_GAP`, a
    time that far back."""
    if isinstance(spec.pattern, Every):
        return max(0, time - spec.pattern.interval)
    unbounded = replace(spec, start_after=None, end_before=None)
    return latest(unbounded, max(0, time - LONGEST_GAP), time - 1)


def between(spec: RepeatSpec, start: Moment, end: Moment, origin: Moment) -> Iterator[Moment]:
    """Yields the fire times from `start` until before `end`. Intervals are counted from `origin` in
    both directions."""
    if isinstance(spec.pattern, Every) and origin > start:
        interval = spec.pattern.interval
        origin -= -((start - origin) // interval) * interval
    return takewhile(lambda time: time < end, fires(spec, start - 1, origin))


def in_words(spec: RepeatSpec) -> str:
    """Returns the pattern in words."""
    return pattern_in_words(spec.pattern)


def pattern_in_words(pattern: Pattern) -> str:
    """Returns a pattern in words."""
    match pattern:
        case Cron() as line:
            return cron.in_words(line)
        case Every() as every:
            return f"every {_interval_in_words(every.interval)}"


def _interval_in_words(interval: Wait) -> str:
    """`1 h 56 m 40 s`: exact, unlike `rules.display.span`. A short interval stays in seconds, as
    it was written."""
    if interval < _SHORT_INTERVAL_MS:
        return f"{interval / SECOND:.15g} s"
    parts = []
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        count, interval = divmod(interval, unit)
        parts += [f"{count} {name}"] if count else []
    return " ".join([*parts, *([f"{interval / SECOND:.15g} s"] if interval else [])])
