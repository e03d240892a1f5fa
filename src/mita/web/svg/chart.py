"""Numbers over time: stacked bars, lines, and the same numbers as a table.

The picture is as wide as its place in the page: positions are parts of its width, so that text
keeps its size from 360 pixels to the widest screen. The numbers of the axis are a second picture to
the left of it. Some labels have the class `wide-only`; the style sheet hides them where they would
touch each other."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from msgspec import Struct

from .chart_frame import ChartFrame
from .markup import element, number, percent, text_of, title

_LEAST_BAR_PIXELS = 2  # a number above 0 is never drawn as nothing
_BAR_SHARE = 0.8  # of the room of one bar

_EMPTY = element(
    "text", "nothing in this time", x="50%", y="45%", text_anchor="middle", font_size=12,
    class_="tick",
)  # fmt: skip


class ChartSeries(Struct, frozen=True):
    """One row of numbers: its `name` in the legend, the class of its colour, and a value for each
    time."""

    name: str
    css: str
    values: tuple[float, ...]


def bar_chart(
    label: str,
    times: Sequence[datetime],
    series: Sequence[ChartSeries],
    *,
    each: timedelta,
    height_px: int = 160,
    zone: tzinfo = UTC,
) -> str:
    """Stacked bars, the first series at the bottom. `times` are the starts of the bars, oldest
    first, and `each` is the time that one bar stands for. `label` says what is counted."""
    frame = ChartFrame(times, each, height_px, zone, max(_totals(times, series), default=0))
    bars = "".join(
        _stack(frame, at, time, [(one, _value(one, at)) for one in series])
        for at, time in enumerate(times)
    )
    return _picture(frame, label, series, bars, "bars")


def line_chart(
    label: str,
    times: Sequence[datetime],
    series: Sequence[ChartSeries],
    *,
    each: timedelta,
    height_px: int = 160,
    zone: tzinfo = UTC,
) -> str:
    """Lines, one for each series, drawn dashed in different ways. Parameters as for
    `bar_chart`."""
    highest = max((_value(one, at) for one in series for at in range(len(times))), default=0)
    frame = ChartFrame(times, each, height_px, zone, highest)
    lines = "".join(_line(frame, one, order) for order, one in enumerate(series))
    hits = "".join(
        _hit(frame, at, _words(frame, time, [(one, _value(one, at)) for one in series]))
        for at, time in enumerate(times)
    )
    return _picture(frame, label, series, lines + hits, "lines")


def chart_table(
    label: str,
    times: Sequence[datetime],
    series: Sequence[ChartSeries],
    *,
    zone: tzinfo = UTC,
) -> str:
    """The same numbers as a table, for screen readers and for copying. Rows in which all numbers
    are 0 are left out, and the caption says so."""
    rows = [
        (time, [_value(one, at) for one in series])
        for at, time in enumerate(times)
        if any(_value(one, at) for one in series)
    ]
    left = len(times) - len(rows)
    more = f" {left:,} rows in which all numbers are 0 are left out." if left else ""
    head = "".join(f'<th scope="col">{text_of(name)}</th>' for name in ("time", *_names(series)))
    body = "".join(
        f'<tr><th scope="row">{_time(time, zone)}</th>'
        + "".join(f'<td class="number">{_counted(value)}</td>' for value in values)
        + "</tr>"
        for time, values in rows
    )
    return (
        f'<table class="chart-table"><caption>{text_of(label)}.{more}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


# ---------------------------------------------------------------- what is drawn


def _stack(
    frame: ChartFrame, at: int, time: datetime, values: Sequence[tuple[ChartSeries, float]]
) -> str:
    parts, floor = [], float(frame.bottom)
    for one, value in values:
        if not value:
            continue
        high = max(frame.bottom - frame.y(value), _LEAST_BAR_PIXELS)
        floor -= high
        parts.append(
            element(
                "rect",
                x=percent(frame.x(at, (1 - _BAR_SHARE) / 2)),
                width=percent(_BAR_SHARE / len(frame.times)),
                y=max(floor, 0),
                height=min(high, floor + high),
                class_=f"bar {one.css}",
            )
        )
    hit = _hit(frame, at, _words(frame, time, values))
    return f'<g class="stack">{"".join(parts)}{hit}</g>'


def _hit(frame: ChartFrame, at: int, words: str) -> str:
    """An area as high as the chart that shows its words while the pointer rests on it."""
    return element(
        "rect",
        title(words),
        x=percent(frame.x(at, 0)),
        width=percent(1 / len(frame.times)),
        y=0,
        height=frame.bottom,
        class_="hit",
    )


def _line(frame: ChartFrame, one: ChartSeries, order: int) -> str:
    """A line, in a picture of its own that is stretched to the width of the chart."""
    points = " ".join(
        f"{number(at + 0.5)},{number(frame.y(_value(one, at)))}" for at in range(len(frame.times))
    )
    line = element(
        "polyline",
        points=points,
        class_=f"line line-{order % 4} {one.css}",
        fill="none",
        vector_effect="non-scaling-stroke",
    )
    return element(
        "svg",
        line,
        width="100%",
        height=frame.height,
        viewBox=f"0 0 {max(len(frame.times), 1)} {frame.height}",
        preserveAspectRatio="none",
    )


def _picture(
    frame: ChartFrame, label: str, series: Sequence[ChartSeries], drawn: str, kind: str
) -> str:
    said = title(_described(frame, label, series))
    plot = element(
        "svg",
        said + frame.lines() + drawn + ("" if any(map(_sum, series)) else _EMPTY) + frame.ticks(),
        class_=f"chart-plot {kind}",
        width="100%",
        height=frame.height,
        role="img",
    )
    return f'<div class="chart">{frame.scale()}{plot}</div>{_legend(series)}'


def _legend(series: Sequence[ChartSeries]) -> str:
    parts = []
    for order, one in enumerate(series):
        box = element("rect", x=1, y=1, width=10, height=10, class_=f"bar {one.css}")
        line = element("path", d="M0 6H12", class_=f"line line-{order % 4} {one.css}")
        picture = element(
            "svg", box + line, width=12, height=12, aria_hidden="true", class_="chart-key"
        )
        parts.append(f"<li>{picture} {text_of(one.name)} {_counted(_sum(one))}</li>")
    return f'<ul class="chart-legend">{"".join(parts)}</ul>'


# ---------------------------------------------------------------- words and numbers


def _described(frame: ChartFrame, label: str, series: Sequence[ChartSeries]) -> str:
    if not frame.times:
        return f"{label}: nothing to show"
    sums = ", ".join(f"{one.name} {_counted(_sum(one))}" for one in series)
    start, end = frame.times[0], frame.times[-1] + frame.each
    return f"{label}, {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M %Z}: {sums}"


def _words(frame: ChartFrame, time: datetime, values: Sequence[tuple[ChartSeries, float]]) -> str:
    what = ", ".join(f"{_counted(value)} {one.name}" for one, value in values)
    return f"{time.astimezone(frame.zone):%Y-%m-%d %H:%M %Z}: {what}"


def _value(one: ChartSeries, at: int) -> float:
    value = one.values[at] if at < len(one.values) else 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


def _sum(one: ChartSeries) -> float:
    return sum(_value(one, at) for at in range(len(one.values)))


def _totals(times: Sequence[datetime], series: Sequence[ChartSeries]) -> list[float]:
    return [sum(_value(one, at) for one in series) for at in range(len(times))]


def _names(series: Sequence[ChartSeries]) -> list[str]:
    return [one.name for one in series]


def _counted(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def _time(at: datetime, zone: tzinfo) -> str:
    iso = at.astimezone(UTC).isoformat()
    return f'<time class="exact" datetime="{iso}">{at.astimezone(zone):%Y-%m-%d %H:%M %Z}</time>'
