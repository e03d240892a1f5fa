"""What a store remembers of its queues from one claim to the next. Every claim checks it, so what
is remembered only decides which statement comes first."""

import time
from collections.abc import Iterable
from enum import IntEnum

from mita.model.time import Moment, Wait
from mita.stores.postgres.codec import ClaimHeader
from mita.stores.postgres.throughput.watermarks import ResourceKey

MOST_KEYS = 50  # whose next wake-up is remembered


class QueueKind(IntEnum):
    """Which statement claims from some queues: for queues that have no holds and never had limits;
    for queues that may have keys, but neither holds, limits nor fair groups; and for all."""

    PLAIN = 0
    KEYED = 1
    LIMITED = 2


# The statement of a claim, by the kind of its queues, and whether jobs of several priorities are
# due.
CLAIM_STATEMENTS = {
    (QueueKind.PLAIN, False): "claim",
    (QueueKind.PLAIN, True): "claim_mixed",
    (QueueKind.KEYED, False): "claim_keyed",
    (QueueKind.KEYED, True): "claim_keyed_mixed",
    (QueueKind.LIMITED, False): "claim_limited",
    (QueueKind.LIMITED, True): "claim_limited_mixed",
}


class ClaimHints:
    """`limited` are the queues that have holds or ever had limits; of these, `stopped` have holds,
    a limit, or ever had fair groups; of these, `careful` have a limit or jobs of fair groups.
    `mixed`: jobs of several priorities are due that age. `ageing` is that of the store.
    `due_keys` are keys whose waiting jobs the clock wakes about now."""

    def __init__(self) -> None:
        self.ageing: Wait | None = None
        self.limited: frozenset[str] = frozenset()
        self.stopped: frozenset[str] = frozenset()
        self.careful: frozenset[str] = frozenset()
        self.mixed = False
        self._wakes: dict[ResourceKey, float] = {}  # when the clock wakes a job, in seconds of ours

    def kind(self, queues: list[str]) -> QueueKind:
        """The kind of these queues."""
        if self.limited.isdisjoint(queues):
            return QueueKind.PLAIN
        return QueueKind.KEYED if self.stopped.isdisjoint(queues) else QueueKind.LIMITED

    def fits(self, queues: list[str], kind: QueueKind, header: ClaimHeader) -> bool:
        """Remember what a claim says of these queues, made by the statement for this kind. Returns
        whether it was the right statement."""
        if kind is QueueKind.PLAIN:
            if header.waits:
                self.limited = self.limited.union(queues)
            return not header.waits
        if kind is QueueKind.KEYED:
            if header.is_stopped:
                self.stopped = self.stopped.union(queues)
            return not header.is_stopped
        others = self.limited.difference(queues), self.stopped.difference(queues)
        self.limited = others[0].union(queues) if header.is_limited else others[0]
        self.stopped = others[1].union(queues) if header.is_stopped else others[1]
        self.careful = self.careful.difference(queues).union(header.careful or ())
        return True

    def expect(self, now: Moment, wakes: Iterable[tuple[ResourceKey, Moment | None]]) -> None:
        """The clock, which is at `now`, wakes the next jobs of these keys at these times."""
        now_s = time.monotonic()
        for key, at in wakes:
            self._wakes.pop(key, None)
            if at is not None and len(self._wakes) < MOST_KEYS:
                self._wakes[key] = now_s + (at - now) / 1000

    def due_keys(self, queues: list[str]) -> list[ResourceKey]:
        """Keys of these queues whose waiting jobs the clock wakes about now. Each is returned
        once."""
        if not self._wakes:
            return []
        now_s = time.monotonic()
        due = [key for key, at_s in self._wakes.items() if at_s <= now_s and key[0] in queues]
        for key in due:
            del self._wakes[key]
        return due
