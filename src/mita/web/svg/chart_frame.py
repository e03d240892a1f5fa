"""The area of a chart, its lines and its axes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from .markup import element, percent, text_of
from .ticks import (
    clock_kind,
    round_numbers,
    round_times,
    short_number,
    time_text,
    zone_text,
)

_TOP_PIXELS = 10
_BOTTOM_PIXELS = 20  # for the times below the axis
_AXIS_WIDTH_PIXELS = 40
_MOST_TIMES = 8
_EDGE_SHARE = 0.08  # a label nearer to the edge would be cut


class ChartFrame:
    """The area of a chart: turns times into parts of its width, and numbers into pixels."""

    def __init__(
        self,
        times: Sequence[datetime],
        each: timedelta,
        height_px: int,
        zone: tzinfo,
        highest: float,
    ) -> None:
        self.height, self.zone, self.each = height_px, zone, each
        self.times = [time.astimezone(zone) for time in times]
        self.numbers = round_numbers(highest)
        self.bottom = height_px - _BOTTOM_PIXELS

    def x(self, at: int, inside: float = 0.5) -> float:
        """Where bar number `at` is, as a share of the width; `inside` is 0 for its left edge and 1
        for its right one."""
        return (at + inside) / max(len(self.times), 1)

    def y(self, value: float) -> float:
        """How far below the top a number is, in pixels."""
        return self.bottom - (self.bottom - _TOP_PIXELS) * value / self.numbers[-1]

    def lines(self) -> str:
        """The lines of the round numbers."""
        return "".join(
            element(
                "line",
                x1="0",
                x2="100%",
                y1=self.y(value),
                y2=self.y(value),
                class_="axis" if not value else "grid",
            )
            for value in self.numbers
        )

    def scale(self) -> str:
        """The picture of the round numbers, left of the chart."""
        labels = "".join(
            element(
                "text",
                short_number(value),
                x=_AXIS_WIDTH_PIXELS - 6,
                y=self.y(value) + 4,
                text_anchor="end",
                font_size=11,
                class_="tick",
            )
            for value in self.numbers
        )
        return element(
            "svg",
            labels,
            class_="chart-scale",
            width=_AXIS_WIDTH_PIXELS,
            height=self.height,
            aria_hidden="true",
            focusable="false",
        )

    def ticks(self) -> str:
        """The round times below the chart. Every other one is only for wide screens."""
        if not self.times:
            return ""
        start, end = self.times[0], self.times[-1] + self.each
        length = (end - start) / timedelta(microseconds=1)
        found = round_times(start, end, _MOST_TIMES, self.zone)
        narrow = -(-len(found) // 4)  # of so many one is shown on a narrow screen
        parts, kind = [], clock_kind(start, end)
        for place, at in enumerate(found):
            share = (at - start) / timedelta(microseconds=1) / length
            css = "tick" if place % narrow == 0 else "tick wide-only"
            words = time_text(at, start, end) + zone_text(place, at, kind)
            parts.append(_tick(share, self, words, css, at, kind))
        return "".join(parts)


def _tick(share: float, frame: ChartFrame, words: str, css: str, at: datetime, kind: str) -> str:
    anchor = "start" if share < _EDGE_SHARE else "end" if share > 1 - _EDGE_SHARE else "middle"
    stroke = element(
        "line",
        x1=percent(share),
        x2=percent(share),
        y1=frame.bottom,
        y2=frame.bottom + 4,
        class_="axis",
    )
    label = element(
        "text",
        text_of(words),
        x=percent(share),
        y=frame.height - 4,
        text_anchor=anchor,
        font_size=11,
        class_=css,
        data_at=at.astimezone(UTC).isoformat(),
        data_clock=kind,
    )
    return stroke + label
