"""The history of runs as bars of a chart. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from mita.model.history import HistoryPoint

from .svg import ChartSeries

SPARK_BARS = 30
_SERIES = ("succeeded", "retried", "failed")


class Range(Struct, frozen=True):
    """A choice of how far back a chart goes: its name in the address, how long it is, how much one
    bar stands for, and which counts it needs."""

    name: str
    words: str
    length: timedelta
    each: timedelta
    by: Literal["minute", "hour"]


RANGES = {
    one.name: one
    for one in (
        Range("1h", "last hour", timedelta(hours=1), timedelta(minutes=1), "minute"),
        Range("24h", "last 24 hours", timedelta(hours=24), timedelta(minutes=15), "minute"),
        Range("7d", "last 7 days", timedelta(days=7), timedelta(hours=2), "hour"),
        Range("90d", "last 90 days", timedelta(days=90), timedelta(days=1), "hour"),
    )
}


def range_of(name: str | None) -> Range:
    """The range of this name; the last hour if there is none."""
    return RANGES.get(name or "", RANGES["1h"])


def bar_times(chosen: Range, now: datetime) -> list[datetime]:
    """When each bar begins, oldest first. The last one has begun and is not over."""
    last = _floor(now, chosen.each)
    return [last - chosen.each * back for back in range(chosen.length // chosen.each - 1, -1, -1)]


def chart_series(
    points: Iterable[HistoryPoint], times: Sequence[datetime], each: timedelta
) -> list[ChartSeries]:
    """The rows of the chart: how many runs succeeded, will be retried, and failed."""
    rows = {name: [0.0] * len(times) for name in _SERIES}
    for point in points:
        at = (point.at - times[0]) // each
        if 0 <= at < len(times):
            for name in _SERIES:
                rows[name][at] += getattr(point, name)
    return [ChartSeries(name, f"series-{name}", tuple(rows[name])) for name in _SERIES]


def by_queue(points: Iterable[HistoryPoint], now: datetime) -> dict[str, list[float]]:
    """How many runs ended in each queue in the last hour, for a small picture beside its name."""
    each = timedelta(hours=1) / SPARK_BARS
    first = now - timedelta(hours=1)
    rows: dict[str, list[float]] = {}
    for point in points:
        at = (point.at - first) // each
        if 0 <= at < SPARK_BARS:
            rows.setdefault(point.queue, [0.0] * SPARK_BARS)[at] += point.runs
    return rows


def _floor(at: datetime, each: timedelta) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (at - epoch) // each * each
