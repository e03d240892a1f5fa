"""The live feed of the demo: events in their order, each with its time."""

import time
from collections import deque
from typing import Any, NamedTuple

from mita.cli.screen import Screen
from mita.printable import printable

FEED_DELAY_S = 0.1  # an earlier line may arrive this much later

# The order of events within one millisecond; other events come after these.
_ORDER = ("ended", "fixed", "repeat", "enqueued", "revived", "runs", "blocked")
_STYLES = {
    "enqueued": "dim",
    "repeat": "cyan",
    "fixed": "cyan",
    "revived": "cyan",
    "runs": "yellow",
    "blocked": "magenta",
    "retried": "magenta",
    "rescheduled": "blue",
    "waiting": "blue",
    "signalled": "cyan",
    "ended": "bold",
    "succeeded": "green",
    "cancelled": "red",
    "failed": "red",
}


class FeedLine(NamedTuple):
    """One line of the feed; `at` is in milliseconds since the epoch."""

    at: int
    event: str
    job: str
    remark: str


class Feed:
    """Collects lines from the steps and the handlers, and prints them in the order of their
    times."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = now()
        self._waiting: deque[FeedLine] = deque()  # handlers on threads add to it as well
        self.printed: list[dict[str, Any]] = []

    def heading(self, title: str, sentence: str) -> None:
        """Print the heading of a step."""
        self._screen.print_line()
        self._screen.print_styled(f"{self._screen.paint(title, 'bold')} {sentence}")

    def say(self, line: str) -> None:
        """Print a line for the viewer at once."""
        self._screen.print_line(line, "bold")

    def add(self, at: int, event: str, job: str, remark: str = "") -> None:
        """Add a line, to be printed later. It may be called from any thread."""
        self._waiting.append(FeedLine(at, event, job, remark))

    def flush(self, *, everything: bool = False) -> None:
        """Print the lines that no earlier line can precede any more."""
        lines = sorted((self._waiting.popleft() for _ in range(len(self._waiting))), key=_sort_key)
        limit = now() - (0 if everything else FEED_DELAY_S * 1000)
        for line in lines:
            if everything or line.at <= limit:
                self._print(line)
            else:
                self._waiting.append(line)

    def _print(self, line: FeedLine) -> None:
        elapsed = (line.at - self._began) / 1000
        self.printed.append(
            {"seconds": elapsed, "event": line.event, "job": line.job, "remark": line.remark}
        )
        paint = self._screen.paint
        event = paint(f"{line.event:<11}", _STYLES.get(line.event, ""))
        head = f"{elapsed:6.2f} s  "
        width = None if self._screen.width is None else self._screen.width - len(head) - 25
        remark = _cut(printable(line.remark), width)
        self._screen.print_styled(
            f"{paint(head, 'dim')}{event}  {printable(line.job):<10}  {remark}".rstrip()
        )


def _sort_key(line: FeedLine) -> tuple[int, int]:
    rank = _ORDER.index(line.event) if line.event in _ORDER else len(_ORDER)
    return line.at, rank


def now() -> int:
    """The time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else f"{text[: max(width - 1, 0)]}…"
