"""The progress of bulk operations, on stderr: a bar on a terminal, else a line every two
seconds."""

import time
from types import TracebackType
from typing import Any, Self

from .screen import Screen

REPORT_EVERY_S = 2.0  # seconds between two plain lines
BAR_COLUMNS = 30


class ProgressBar:
    """Shows how many of `total` are done, until the end of the block."""

    def __init__(self, screen: Screen, what: str, total: int) -> None:
        self._screen, self._what, self._total = screen, what, total
        self._done = 0
        self._terminal = screen.err.isatty() and not screen.json
        self._last_line_at = time.monotonic()
        self._rich: Any = None

    def __enter__(self) -> Self:
        if self._terminal and self._screen.colours:
            self._rich = _rich_bar(self._screen, self._what, self._total)
        self._draw()
        return self

    def advance(self, n: int) -> None:
        """Add to the number that is done."""
        self._done += n
        self._draw()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rich is not None:
            self._rich.stop()
        elif self._terminal:
            print(file=self._screen.err)

    def _draw(self) -> None:
        if self._rich is not None:
            self._rich.update(self._rich.task_ids[0], completed=self._done)
        elif self._terminal:
            filled = BAR_COLUMNS * self._done // max(self._total, 1)
            bar = "#" * filled + "-" * (BAR_COLUMNS - filled)
            print(
                f"\r{self._what} [{bar}] {self._done:,} of {self._total:,}",
                end="",
                file=self._screen.err,
                flush=True,
            )
        elif not self._screen.json and self._due():
            self._screen.print_stderr(f"{self._what}: {self._done:,} of {self._total:,}")

    def _due(self) -> bool:
        now = time.monotonic()
        if self._done < self._total and now - self._last_line_at < REPORT_EVERY_S:
            return False
        self._last_line_at = now
        return True


def _rich_bar(screen: Screen, what: str, total: int) -> Any:
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        return None
    console = Console(file=screen.err)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console)
    bar.add_task(what, total=total)
    bar.start()
    return bar
