"""The output of a command: lines and tables for people, one JSON document for programs."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

from mita.printable import printable, printable_json, printable_lines

from .exits import Exit, as_data, in_words
from .table import Table, draw, painted


class Report:
    """The result of a command: `data` for `--json`; lines and tables for people."""

    def __init__(self, data: Any, *parts: str | Table, code: Exit = Exit.OK) -> None:
        self.data = data
        self.parts = parts
        self.code = code


class Screen:
    """Where a command writes. Results go to `out`; errors, questions and progress to `err`."""

    def __init__(
        self, *, json: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.json = json
        self.out = out or sys.stdout or _null_stream()
        self.err = err or sys.stderr or _null_stream()
        self.terminal = self.out.isatty()
        # it can go back and write over what is there
        self.can_overwrite = self.terminal and os.environ.get("TERM") != "dumb"
        self.colours = self.can_overwrite and not os.environ.get("NO_COLOR")

    @property
    def can_ask(self) -> bool:
        """Whether there is a user who can be asked."""
        return self.err.isatty() and sys.stdin is not None and sys.stdin.isatty()

    @property
    def width(self) -> int | None:
        """The width of the terminal; None if there is no terminal."""
        return shutil.get_terminal_size().columns if self.terminal else None

    def show(self, report: Report) -> int:
        """Print a report. Returns its exit code."""
        if self.json:
            self._print_data(report.data)
            return report.code
        for part in report.parts:
            if isinstance(part, Table):
                draw(part, self.out, self.width, colours=self.colours)
            else:
                self.print_line(part)
        return report.code

    def print_line(self, line: str = "", style: str = "") -> None:
        """Print a line for people. Control characters are replaced."""
        self.print_styled(self.paint(printable(line), style))

    def print_styled(self, painted: str) -> None:
        """Print a line for people as it is."""
        if not self.json:
            print(painted, file=self.out, flush=True)

    def print_stderr(self, text: str) -> None:
        """Print text to stderr."""
        print(printable_lines(text), file=self.err, flush=True)

    def paint(self, text: str, style: str) -> str:
        """The text in this style, where the terminal has colours."""
        return painted(text, style) if self.colours else text

    def print_error(self, error: BaseException) -> None:
        """Print an error, as text or as JSON."""
        if self.json:
            self._print_data(as_data(error))
        else:
            self.print_stderr(f"mita: {in_words(error)}")

    def confirm(self, question: str) -> bool:
        """Ask a question. Returns True only for yes."""
        print(printable(f"{question} [y/N] "), end="", file=self.err, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _print_data(self, data: Any) -> None:
        text = msgspec.json.format(msgspec.json.encode(plain(data)), indent=2)
        print(printable_json(text.decode()), file=self.out, flush=True)


def _null_stream() -> TextIO:
    """A stream for output that was closed before the program started."""
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - it lasts as long as we do


def plain(data: Any) -> Any:
    """Values that JSON has. Another value is written as it is stored, else as Python shows it."""
    return msgspec.to_builtins(data, str_keys=True, enc_hook=_written)


def _written(value: Any) -> Any:
    from mita.tasks.stored import written

    try:
        return written(value)
    except TypeError:
        return repr(value)


def listed(names: Sequence[str]) -> str:
    """The names, separated by commas."""
    return ", ".join(names)
