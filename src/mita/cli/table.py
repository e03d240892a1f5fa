"""Tables: in colours by rich when it is installed and there is a terminal for it, in plain aligned
columns otherwise."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

from mita.printable import printable

GAP_COLUMNS = 2
_LEAST_COLUMNS = 10  # a column that would be cut shorter than this is of no use

STYLES = {
    "scheduled": "blue",
    "ready": "cyan",
    "blocked": "magenta",
    "running": "yellow",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "dim",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "active": "green",
    "paused": "yellow",
    "parked": "red",
}


class Column(NamedTuple):
    """`gives`: on a narrow terminal this one is cut, or left out, the highest number first. 0 is
    never cut.

    `keeps`: what a row is about is cut to so many characters at most, and never left out."""

    name: str
    right: bool = False
    gives: int = 0
    keeps: int = 0


class Table:
    """Rows of cells; each cell is shown on one line. Words of a state are coloured as such."""

    def __init__(self, columns: Sequence[Column | str], rows: Sequence[Sequence[Any]]) -> None:
        self.columns = [
            column if isinstance(column, Column) else Column(column) for column in columns
        ]
        self.rows = [[_cell(value) for value in row] for row in rows]


def draw(table: Table, out: TextIO, width: int | None, *, colours: bool) -> None:
    widths = fitted(table, width)
    table, widths = _without_empty(table, widths)
    if colours and _draw_rich(table, out, widths):
        return
    for row in ([column.name.upper() for column in table.columns], *table.rows):
        cells = [
            _aligned(cell, size, column)
            for cell, size, column in zip(row, widths, table.columns, strict=True)
        ]
        print((" " * GAP_COLUMNS).join(cells).rstrip(), file=out)
    out.flush()


def fitted(table: Table, width: int | None) -> list[int]:
    """The width of each column: what its longest cell needs, less what it must give on a narrow
    terminal. 0: left out."""
    widths = [
        max(len(column.name), *(len(row[i]) for row in table.rows), 0)
        for i, column in enumerate(table.columns)
    ]
    excess = 0 if width is None else sum(widths) + GAP_COLUMNS * (len(widths) - 1) - width
    givers = sorted(
        (i for i, column in enumerate(table.columns) if column.gives),
        key=lambda i: -table.columns[i].gives,
    )
    for i in givers:
        if excess <= 0:
            break
        column, kept = table.columns[i], widths[i] - excess
        if column.keeps:
            kept = min(max(kept, column.keeps), widths[i])
        elif column.right or kept < _LEAST_COLUMNS:
            kept = -GAP_COLUMNS
        excess -= widths[i] - kept
        widths[i] = max(kept, 0)
    return widths


def _without_empty(table: Table, widths: list[int]) -> tuple[Table, list[int]]:
    kept = [i for i, size in enumerate(widths) if size]
    rows = [[row[i] for i in kept] for row in table.rows]
    return Table([table.columns[i] for i in kept], rows), [widths[i] for i in kept]


def _draw_rich(table: Table, out: TextIO, widths: list[int]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text
    except ImportError:
        return False
    total = sum(widths) + GAP_COLUMNS * (len(widths) - 1)
    console = Console(file=out, width=total, highlight=False)
    drawn = RichTable(
        box=None,
        pad_edge=False,
        padding=(0, GAP_COLUMNS, 0, 0),
        header_style="bold",
        collapse_padding=True,
    )
    for column, size in zip(table.columns, widths, strict=True):
        drawn.add_column(
            Text(column.name.upper()),
            width=size,
            no_wrap=True,
            justify="right" if column.right else "left",
        )
    for row in table.rows:
        drawn.add_row(*(Text(cell, STYLES.get(cell, ""), overflow="ellipsis") for cell in row))
    console.print(drawn)
    return True


def _aligned(cell: str, size: int, column: Column) -> str:
    if len(cell) > size:
        cell = f"{cell[: size - 1]}…"
    return cell.rjust(size) if column.right else cell.ljust(size)


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))
