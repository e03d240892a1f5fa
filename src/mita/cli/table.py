"""Tables of aligned columns, coloured where there is a terminal for it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

from mita.printable import printable

GAP_COLUMNS = 2
_LEAST_COLUMNS = 10  # a column that would have fewer is left out

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
STYLES = {
    "waiting": "blue",
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
    """A column of a table. On a narrow terminal the columns with `drop_order` are cut or left
    out, the highest number first; 0: never. A column with `min_width` is cut to this many
    characters at least, and never left out. `right`: its cells are aligned to the right."""

    name: str
    right: bool = False
    drop_order: int = 0
    min_width: int = 0


class Table:
    """Columns and rows. Each cell is shown on one line; the name of a state has its colour."""

    def __init__(self, columns: Sequence[Column | str], rows: Sequence[Sequence[Any]]) -> None:
        self.columns = [
            column if isinstance(column, Column) else Column(column) for column in columns
        ]
        self.rows = [[_cell(value) for value in row] for row in rows]


def draw(table: Table, out: TextIO, width: int | None, *, colours: bool) -> None:
    """Print a table. `width`: how many characters a line may have; None: any number."""
    widths = fitted(table, width)
    table, widths = _without_empty(table, widths)
    header = [column.name.upper() for column in table.columns]
    _print_row(table, header, widths, out, ["bold"] * len(header) if colours else None)
    for row in table.rows:
        styles = [STYLES.get(cell, "") for cell in row] if colours else None
        _print_row(table, row, widths, out, styles)
    out.flush()


def painted(text: str, style: str) -> str:
    """The text with the codes for a terminal. `style` is words of `_CODES`; empty: no style."""
    if not style:
        return text
    codes = ";".join(_CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def _print_row(
    table: Table, row: list[str], widths: list[int], out: TextIO, styles: list[str] | None
) -> None:
    cells = [
        _aligned(cell, size, column)
        for cell, size, column in zip(row, widths, table.columns, strict=True)
    ]
    cells[-1:] = [cell.rstrip() for cell in cells[-1:]]
    if styles is not None:
        cells = [painted(cell, style) for cell, style in zip(cells, styles, strict=True)]
    print((" " * GAP_COLUMNS).join(cells).rstrip(), file=out)


def fitted(table: Table, width: int | None) -> list[int]:
    """The width of each column: that of its longest cell, or less on a narrow terminal. 0: the
    column is left out."""
    widths = [
        max(len(column.name), *(len(row[i]) for row in table.rows), 0)
        for i, column in enumerate(table.columns)
    ]
    excess = 0 if width is None else sum(widths) + GAP_COLUMNS * (len(widths) - 1) - width
    droppable = sorted(
        (i for i, column in enumerate(table.columns) if column.drop_order),
        key=lambda i: -table.columns[i].drop_order,
    )
    for i in droppable:
        if excess <= 0:
            break
        column, kept = table.columns[i], widths[i] - excess
        if column.min_width:
            kept = min(max(kept, column.min_width), widths[i])
        elif column.right or kept < _LEAST_COLUMNS:
            kept = -GAP_COLUMNS
        excess -= widths[i] - kept
        widths[i] = max(kept, 0)
    return widths


def _without_empty(table: Table, widths: list[int]) -> tuple[Table, list[int]]:
    kept = [i for i, size in enumerate(widths) if size]
    rows = [[row[i] for i in kept] for row in table.rows]
    return Table([table.columns[i] for i in kept], rows), [widths[i] for i in kept]


def _aligned(cell: str, size: int, column: Column) -> str:
    if len(cell) > size:
        cell = f"{cell[: size - 1]}…"
    return cell.rjust(size) if column.right else cell.ljust(size)


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))
