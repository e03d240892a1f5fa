"""The progress of the run: one line that is overwritten on a terminal, else one line for each
measurement."""

import shutil
import sys
import time
from typing import TextIO

from .figures import Figure
from .table import reading

_REDRAW_S = 0.1  # between two drawings of the line on a terminal
_NEXT_LINE_S = 15.0  # between two lines elsewhere


class Progress:
    """`total` is the number of workloads to come."""

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._terminal = self._out.isatty()
        self._total, self._number = total, 0
        self._title = ""
        self._began = time.monotonic()
        self._drawn = self._began

    def begin(self, store: str, workload: str) -> None:
        self._number += 1
        self._title = f"[{self._number}/{self._total}] {store} {workload}"
        self("starting")

    def __call__(self, what: str, done: int = 0, total: int = 0) -> None:
        now = time.monotonic()
        if now - self._drawn < (_REDRAW_S if self._terminal else _NEXT_LINE_S):
            return
        self._drawn = now
        how_far = f" {done:,} of {total:,}" if total > 1 else ""
        line = f"{self._clock()} {self._title}: {what}{how_far}"
        if self._terminal:
            self._write(line)
        else:
            print(line, file=self._out, flush=True)

    def found(self, figure: Figure) -> None:
        self.say(f"{self._clock()} {self._title}: {figure.name}: {reading(figure)}")

    def skip(self, why: str) -> None:
        self._number += 1
        self.say(why)

    def say(self, line: str) -> None:
        """Print a line that is not overwritten."""
        if self._terminal:
            self._write("")
        print(line, file=self._out, flush=True)
        self._drawn = time.monotonic()

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02}"

    def _write(self, line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._out.write(f"\r{line[:width].ljust(width)}" + ("" if line else "\r"))
        self._out.flush()
