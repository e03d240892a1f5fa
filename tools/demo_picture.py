"""python -m tools.demo_picture: run the demo and draw when each of its jobs waited and ran, into
docs/pictures/demo.svg."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.svg import WIDTH, Board
from msgspec import Struct

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "demo.svg"
_LINE = re.compile(
    r"^ *(?P<at>\d+\.\d+) s  (?P<what>\w+) +(?P<job>\S+(?: \S+)?)(?:  +(?P<note>.*))?$"
)
_LEFT, _RIGHT, _TOP, _ROW, _HEAD = 108.0, 32.0, 72.0, 22.0, 30.0
_WAITS = {
    "enqueued": "grey",
    "retried": "orange",
    "rescheduled": "purple",
    "blocked": "red",
    "waiting": "purple",
    "signalled": "grey",
    "failed": "ink",
    "cancelled": "ink",
    "revived": "green",
}


class DemoLine(Struct, frozen=True):
    """One line of the demo: a heading, or what happened to a job."""

    at: float
    what: str
    job: str
    note: str


class Row(Struct):
    """What happened to one job. `heading` is the heading above it, for the first job of a step."""

    job: str
    heading: str
    steps: list[DemoLine]


def main() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "mita", "demo"], capture_output=True, text=True, check=True
    ).stdout
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(str(draw(list(rows(said)))), encoding="utf-8")
    print(PICTURE)


def rows(said: str) -> Iterator[Row]:
    found: dict[str, Row] = {}
    heading = ""
    for line in said.splitlines():
        match = _LINE.match(line)
        if match is None:
            heading = line.partition(".")[0] if re.match(r"^[A-Z][a-z ]+\. ", line) else heading
        elif match["what"] not in ("repeat", "ended"):
            row = found.setdefault(match["job"], Row(match["job"], heading, []))
            row.steps.append(
                DemoLine(float(match["at"]), match["what"], match["job"], match["note"] or "")
            )
            heading = ""
    yield from found.values()


def draw(found: list[Row]) -> Board:
    height = _TOP + sum(_ROW + (_HEAD if row.heading else 0) for row in found) + 44
    end = max(step.at for row in found for step in row.steps)
    about = "; ".join(
        f"{row.job}: " + ", ".join(f"{step.what} at {step.at:.2f} s" for step in row.steps)
        for row in found
    )
    board = Board("When the jobs of the demo waited and ran", about, height)
    _legend(board)
    wide = (WIDTH - _LEFT - _RIGHT) / end
    for second in range(int(end) + 1):
        x = _LEFT + second * wide
        board.line([(x, _TOP), (x, height - 40)], "grid")
        board.text(x, height - 22, f"{second} s", "muted", anchor="middle", size=11)
    y = _TOP
    for row in found:
        if row.heading:
            y += _HEAD
            board.text(20, y - 9, row.heading, "ink", bold=True)
        _job(board, row, y, wide)
        y += _ROW
    return board


def _legend(board: Board) -> None:
    names = {
        "waits for its due time": "grey",
        "waits for a retry": "orange",
        "rescheduled": "purple",
        "waits for its key": "red",
        "runs": "blue",
    }
    x = 20.0
    for name, colour in names.items():
        board.rect(x, 46, 12, 12, colour, round=2)
        board.text(x + 18, 56, name, "muted")
        x += 34 + 7 * len(name)


def _job(board: Board, row: Row, y: float, wide: float) -> None:
    board.text(_LEFT - 10, y + 12, row.job, "muted", anchor="end", size=12)
    for step, following in zip(row.steps, [*row.steps[1:], None], strict=True):
        x = _LEFT + step.at * wide
        if step.what == "runs":
            until = following.at if following else step.at
            board.rect(x, y, max(4.0, (until - step.at) * wide), 15, "blue", round=3)
        elif step.what in _WAITS and following is not None:
            board.rect(x, y + 5, max(1.0, (following.at - step.at) * wide), 5, _WAITS[step.what])
    if row.steps[-1].what == "succeeded":
        board.text(_LEFT + row.steps[-1].at * wide + 7, y + 12, "✓", "green")


if __name__ == "__main__":
    main()
