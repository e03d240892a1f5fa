"""What the handlers write to: one map shared by all processes, under a microsecond per job."""

import mmap
from collections.abc import Callable
from pathlib import Path
from time import time_ns
from typing import Any

# in the head: 1 when the workers may begin; jobs in the store; events that were lost
GATE, LOADED, MISSED = 0, 1, 2
# from here on, one entry for each process that is ready: the workers, then the subscribers
_READY = 8
_HEAD = 64
SPARE_ROWS = (
    16  # entries after the jobs: the first must stay unchanged, the others are for the warm-up
)
_WIDTH = 8


class Record:
    """A head, and for each job how often it ran, when it first started, when it last ended and when
    it was due."""

    def __init__(self, path: Path, jobs: int, *, create: bool = False) -> None:
        self.path, self.jobs = path, jobs
        rows = (jobs + SPARE_ROWS + 7) & ~7
        size = _HEAD * _WIDTH + rows * (1 + 3 * _WIDTH)
        if create:
            with path.open("wb") as file:
                file.truncate(size)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        view = memoryview(self._map)
        at = _HEAD * _WIDTH
        self.head = view[:at].cast("q")
        self.count = view[at : at + rows]
        at += rows
        self.start, self.end, self.due = (
            view[at + i * rows * _WIDTH : at + (i + 1) * rows * _WIDTH].cast("q") for i in range(3)
        )

    # ------------------------------------------------------------ in the handlers

    def writers(self) -> tuple[Callable[[int], int], Callable[[int], None]]:
        """`begin` returns how often the job has started; `finish` records its end."""
        count, start, end, now = self.count, self.start, self.end, time_ns

        def begin(i: int) -> int:
            end[i] = moment = now()
            runs = count[i]
            if not runs:
                start[i] = moment
            if runs < 255:
                count[i] = runs + 1
            return runs + 1

        def finish(i: int) -> None:
            end[i] = now()

        return begin, finish

    def ready(self, number: int) -> None:
        self.head[_READY + number] = 1

    # ------------------------------------------------------------ in the process that measures

    def all_ready(self, processes: int) -> bool:
        return all(self.head[_READY : _READY + processes])

    def close_gate(self) -> None:
        self.head[GATE] = 0
        for number in range(_READY, _HEAD):
            self.head[number] = 0

    def open_gate(self) -> None:
        self.head[GATE] = 1

    def done(self, first: int, last: int, runs: int = 1) -> int:
        """How many of these jobs have run at least this many times."""
        counts = bytes(self.count[first:last])
        return len(counts) - sum(counts.count(fewer) for fewer in range(runs))

    def not_exactly(self, first: int, last: int, runs: int = 1) -> int:
        """How many of these jobs ran more or less often than that."""
        return (last - first) - bytes(self.count[first:last]).count(runs)

    @property
    def strays(self) -> int:
        """How many runs jobs had that were not due."""
        return int(self.count[self.jobs])

    def seconds(self, first: int, last: int) -> float:
        """From the first start to the last end."""
        return (max(self.end[first:last]) - min(self.start[first:last])) / 1e9

    def ends(self, first: int, last: int) -> list[int]:
        return sorted(self.end[first:last])

    def late(self, jobs: int) -> list[float]:
        """The delay from due time to start in milliseconds, of the jobs that started, sorted."""
        pairs: Any = zip(self.start[:jobs], self.due[:jobs], strict=True)
        return sorted((start - due) / 1e6 for start, due in pairs if start)

    def close(self) -> None:
        for view in (self.head, self.count, self.start, self.end, self.due):
            view.release()
        self.path.unlink(missing_ok=True)
