"""Counts the runs of one worker by queue and task, until they are added to the history."""

import time
from collections import Counter
from collections.abc import Callable, Sequence

from mita.events.batches import run_event
from mita.model.event import Kind
from mita.model.history import MOST_PAIRS, RunCounts
from mita.model.job import State
from mita.model.outcome import Counter as Counted
from mita.model.outcome import Settlement
from mita.model.time import HOUR, SECOND
from mita.rules.history import NUMBERS, OTHERS
from mita.rules.judge import RELEASE
from mita.rules.sealed import OWN_TASKS

SUCCEEDED = State.SUCCEEDED
NOTHING = (0, 0.0, 0.0, 0)  # runs, their seconds, seconds in the worker, and milliseconds before
NAMED_FOR_S = HOUR / SECOND  # after that other pairs of queue and task may be named
# the number that each kind of event adds to
_COUNTED_AS = {
    Kind.SUCCEEDED: "succeeded",
    Kind.FAILED: "failed",
    Kind.RETRIED: "retried",
    Kind.CRASHED: "retried",
    Kind.RESCHEDULED: "rescheduled",
    Kind.CANCELLED: "cancelled",
    Kind.EXPIRED: "cancelled",
}


class _Sums:
    """The numbers of one queue and task since the last flush."""

    __slots__ = NUMBERS

    def __init__(self) -> None:
        self.succeeded = self.failed = self.retried = self.rescheduled = self.cancelled = 0
        self.run_ms = self.wait_ms = 0.0


class RunTally:
    """What the parts of a worker tell of the runs that they settled. It names at most `MOST_PAIRS`
    pairs of queue and task in an hour, and counts all others together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.ended: Counter[str] = Counter()  # runs by queue; read by the lease keeper's thread
        self._clock = clock
        self._sums: dict[tuple[str, str], _Sums] = {}
        self._named: set[tuple[str, str]] = set()
        self._named_since = clock()

    def settled(self, batch: Sequence[Settlement], took: Sequence[bool]) -> bool:
        """Count runs that were settled; `took[i]` is False if the token of run `i` was stale.
        Returns whether all of them succeeded.

        Every job passes here, so this is written for speed: neighbours are mostly of one queue and
        task, and most runs succeed."""
        if not all(took):
            for one, written in zip(batch, took, strict=True):
                self._one(one, written)
            return False
        succeeded, sums = True, dict[tuple[str, str], tuple[int, float, float, int]]()
        queue, task, (count, seconds, waited_s, wait_ms) = "", "", NOTHING
        for one in batch:
            if one.verdict.state is not SUCCEEDED or one.was_cancelled:
                self._one(one, took=True)
                succeeded = False
                continue
            claim = one.claim
            if claim.task != task or claim.queue != queue:
                sums[queue, task] = count, seconds, waited_s, wait_ms
                queue, task = claim.queue, claim.task
                count, seconds, waited_s, wait_ms = sums.get((queue, task), NOTHING)
            count += 1
            seconds += one.seconds
            waited_s += one.waited
            wait = claim.at - claim.due
            if wait > 0:
                wait_ms += wait
        sums[queue, task] = count, seconds, waited_s, wait_ms
        for (queue, task), (count, seconds, waited_s, wait_ms) in sums.items():
            if count:
                self._add(queue, task, count, seconds, waited_s * SECOND + wait_ms)
        return succeeded

    def _add(self, queue: str, task: str, count: int, seconds: float, wait_ms: float) -> None:
        """Count runs that succeeded."""
        self.ended[queue] += count
        if not task.startswith(OWN_TASKS):
            sums = self._of(queue, task)
            sums.succeeded += count
            sums.run_ms += seconds * SECOND
            sums.wait_ms += wait_ms

    def lost(self, batch: Sequence[Settlement], took: Sequence[bool]) -> None:
        """Count runs of workers that died. They do not count as ended here."""
        for one, written in zip(batch, took, strict=True):
            if written:
                self._count(one)

    def _one(self, one: Settlement, took: bool) -> None:
        if one.verdict is not RELEASE:
            self.ended[one.claim.queue] += 1
        if took:
            self._count(one)

    def _count(self, one: Settlement) -> None:
        """Count one run, however it ended."""
        claim, verdict = one.claim, one.verdict
        means = run_event(one)
        if means is None or claim.task.startswith(OWN_TASKS):
            return
        sums, number = self._of(claim.queue, claim.task), _COUNTED_AS[means[0]]
        setattr(sums, number, getattr(sums, number) + 1)
        # of a run whose worker died, nobody knows when it started and ended
        if not verdict.unstarted and verdict.counts is not Counted.CRASHES:
            sums.run_ms += one.seconds * SECOND
            sums.wait_ms += max(0, claim.at - claim.due) + one.waited * SECOND

    def _of(self, queue: str, task: str) -> _Sums:
        pair = queue, task
        found = self._sums.get(pair)
        if found is None:
            if pair not in self._named:
                if len(self._named) < MOST_PAIRS and len(self._sums) < MOST_PAIRS:
                    self._named.add(pair)
                else:
                    pair = OTHERS
            found = self._sums.setdefault(pair, _Sums())
        return found

    def take(self) -> list[RunCounts]:
        """Returns what was counted since the last call."""
        if self._clock() - self._named_since >= NAMED_FOR_S:
            self._named.clear()
            self._named_since = self._clock()
        taken, self._sums = self._sums, {}
        return [
            RunCounts(
                queue=queue,
                task=task,
                **{name: round(getattr(sums, name)) for name in NUMBERS},
            )
            for (queue, task), sums in taken.items()
        ]

    def give_back(self, counts: Sequence[RunCounts]) -> None:
        """Count again what could not be stored."""
        for one in counts:
            sums = self._of(one.queue, one.task)
            for name in NUMBERS:
                setattr(sums, name, getattr(sums, name) + getattr(one, name))
