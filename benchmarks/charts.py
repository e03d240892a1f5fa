"""Two kinds of pictures: groups of bars, and lines over a logarithmic scale."""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from .svg import WIDTH, Board, short, steps

_LEFT, _RIGHT, _TOP, _FOOT = 112.0, 150.0, 84.0, 70.0
_BAR, _BETWEEN, _APART = 18.0, 3.0, 18.0
_TALL = 280.0  # the area of a line chart
_ROW = 16.0  # between two labels that would touch


class Words(Struct, frozen=True, kw_only=True):
    """The texts around a picture."""

    title: str
    across: str
    up: str = ""
    source: str


class Bar(Struct, frozen=True):
    name: str
    colour: str
    value: float


class Line(Struct, frozen=True):
    """A line of a chart. Points are (waiting jobs, cost of a job), from left to right."""

    name: str
    colour: str
    points: list[tuple[float, float]]


# ---------------------------------------------------------------- bars


def bars(words: Words, groups: Mapping[str, Sequence[Bar]], *, named: bool = False) -> Board:
    """Draw groups of bars, one below the other. The number is at the end of each bar, with its
    name if `named`."""
    heights = [len(group) * (_BAR + _BETWEEN) + _APART for group in groups.values()]
    bottom = _TOP + sum(heights)
    said = "; ".join(
        f"{name}: " + ", ".join(f"{bar.name} {bar.value:,.0f}" for bar in group)
        for name, group in groups.items()
    )
    board = Board(words.title, said, bottom + _FOOT)
    if not named:
        _legend(
            board,
            [
                (bar.name, bar.colour)
                for group in sorted(groups.values(), key=len, reverse=True)
                for bar in group
            ],
        )
    scale = steps(max(bar.value for group in groups.values() for bar in group))
    wide = (WIDTH - _LEFT - _RIGHT) / scale[-1]
    for step in scale:
        x = _LEFT + step * wide
        board.line([(x, _TOP - 8), (x, bottom)], "grid")
        board.text(x, bottom + 16, short(step), "muted", anchor="middle")
    y = _TOP
    for (name, group), height in zip(groups.items(), heights, strict=True):
        board.text(_LEFT - 12, y + (height - _APART) / 2 + 4, name, anchor="end", bold=True)
        _group(board, group, y, wide, named)
        y += height
    _foot(board, words, bottom)
    return board


def _group(board: Board, group: Sequence[Bar], y: float, wide: float, named: bool) -> None:
    for bar in group:
        board.rect(_LEFT, y, max(1.0, bar.value * wide), _BAR, bar.colour, round=2)
        said = f"{bar.value:,.0f}  {bar.name}" if named else f"{bar.value:,.0f}"
        board.text(_LEFT + bar.value * wide + 6, y + _BAR - 5, said, size=12)
        y += _BAR + _BETWEEN


def _legend(board: Board, entries: Sequence[tuple[str, str]]) -> None:
    x = 20.0
    for name, colour in dict.fromkeys(entries):
        board.rect(x, 46, 12, 12, colour, round=2)
        board.text(x + 18, 56, name, "muted")
        x += 34 + 7 * len(name)


def _foot(board: Board, words: Words, bottom: float) -> None:
    board.text((_LEFT + WIDTH - _RIGHT) / 2, bottom + 36, words.across, "muted", anchor="middle")
    board.text(20, bottom + 58, words.source, "muted", size=11)


# ---------------------------------------------------------------- lines


class _Field:
    """The position of a point: a logarithmic scale from left to right, a linear one from 0
    upwards."""

    def __init__(self, lines: Sequence[Line]) -> None:
        across = [x for line in lines for x, _ in line.points]
        self.first, self.last = (
            math.floor(math.log10(min(across))),
            math.ceil(math.log10(max(across))),
        )
        self.last = max(self.last, self.first + 1)
        self.scale = steps(max(y for line in lines for _, y in line.points) * 1.1)
        self.bottom = _TOP + _TALL

    def x(self, value: float) -> float:
        return _LEFT + (math.log10(value) - self.first) / (self.last - self.first) * (
            WIDTH - _LEFT - _RIGHT
        )

    def y(self, value: float) -> float:
        return self.bottom - value / self.scale[-1] * _TALL


def lines(words: Words, drawn: Sequence[Line]) -> Board:
    """Draw one line for each store, with its name at the end."""
    field = _Field(drawn)
    said = "; ".join(
        f"{line.name}: " + ", ".join(f"{y:.1f} at {x:,.0f}" for x, y in line.points)
        for line in drawn
    )
    board = Board(words.title, said, field.bottom + _FOOT)
    for power in range(field.first, field.last + 1):
        x = field.x(10.0**power)
        board.line([(x, _TOP), (x, field.bottom)], "grid")
        board.text(x, field.bottom + 16, f"{10**power:,}", "muted", anchor="middle")
    for step in field.scale:
        board.line([(_LEFT, field.y(step)), (WIDTH - _RIGHT, field.y(step))], "grid")
        board.text(_LEFT - 8, field.y(step) + 4, short(step), "muted", anchor="end")
    board.upright(30, _TOP + _TALL / 2, words.up)
    for shape, line in enumerate(drawn):
        points = [(field.x(x), field.y(y)) for x, y in line.points]
        board.line(points, line.colour, thick=2.5)
        for x, y in points:
            board.mark(x, y, line.colour, shape)
    _names(board, field, drawn)
    _foot(board, words, field.bottom)
    return board


def _names(board: Board, field: _Field, drawn: Sequence[Line]) -> None:
    """Write the names at the ends of the lines, moved apart where they would touch."""
    free = field.bottom + _ROW
    for line in sorted(drawn, key=lambda line: line.points[-1][1]):
        x, value = line.points[-1]
        y = min(field.y(value), free - _ROW)
        free = y
        board.text(field.x(x) + 10, y + 4, f"{line.name} {value:.1f}", line.colour, bold=True)
