"""What the processes of a test did, one JSON line each, appended to one file by all of them.

A line is one `write` to a file opened for appending, so lines of different processes never mix, and
`kill -9` loses none that was written. The monotonic clock is the machine's, so the times of
different processes can be compared."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

_encode = msgspec.json.Encoder().encode


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`what`: ready, start, effect, end, signal, warning, enqueued, gone … `who` is the incarnation
    of the process.

    `due` and `at` are the claim's, on the store's clock. `how` is how a run ended, as its handler
    saw it."""

    what: str
    who: int
    pid: int
    mono: float
    wall: float
    n: int = -1
    job: str = ""
    token: int = 0
    attempt: int = 0
    task: str = ""
    key: str | None = None
    due: int = 0
    at: int = 0
    how: str = ""
    text: str = ""
    created: bool = True


_decode = msgspec.json.Decoder(Line).decode


class Record:
    """The file. Every process has it open for itself."""

    def __init__(self, path: Path, who: int = 0) -> None:
        self.path = path
        self._who = who
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._read = 0
        self._lines: list[Line] = []

    def write(self, what: str, **values: Any) -> None:
        line = Line(
            what=what,
            who=self._who,
            pid=os.getpid(),
            mono=time.monotonic(),
            wall=time.time(),
            **values,
        )
        os.write(self._fd, _encode(line) + b"\n")

    def lines(self, *what: str) -> list[Line]:
        """All lines so far, or those of some kinds."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read += len(whole)
        self._lines += [_decode(line) for line in whole.splitlines()]
        return [line for line in self._lines if line.what in what] if what else list(self._lines)

    def close(self) -> None:
        os.close(self._fd)
