"""What a store remembers of its queues from one claim to the next. Every claim checks it, so what
is remembered only decides which statement comes first."""

import time
from collections.abc import Iterable

from mita.model.time import Moment, Wait
from mita.stores.postgres.throughput.watermarks import ResourceKey

MOST_KEYS = 50  # whose next wake-up is remembered

# The statement of a claim, by whether its queues are limited, and whether jobs of several
# priorities are due.
CLAIM_STATEMENTS = {
    (False, False): "claim",
    (False, True): "claim_mixed",
    (True, False): "claim_limited",
    (True, True): "claim_limited_mixed",
}


class ClaimHints:
    """`limited` are the queues that have holds or ever had limits; of these, `careful` have a limit
    or jobs of fair groups. `mixed`: jobs of several priorities are due that age. `ageing` is that
    of the store. `due_keys` are keys whose waiting jobs the clock wakes about now."""

    def __init__(self) -> None:
        self.ageing: Wait | None = None
        self.limited: frozenset[str] = frozenset()
        self.careful: frozenset[str] = frozenset()
        self.mixed = False
        self._wakes: dict[ResourceKey, float] = {}  # when the clock wakes a job, in seconds of ours

    def are_limited(self, queues: list[str]) -> bool:
        """Whether one of these queues has holds or ever had limits."""
        return not self.limited.isdisjoint(queues)

    def saw(self, queues: list[str], *, is_limited: bool, careful: list[str] | None) -> None:
        """A claim of these queues has found whether they are limited, and which of them are to be
        claimed with care."""
        limited = self.limited.difference(queues)
        self.limited = limited.union(queues) if is_limited else limited
        self.careful = self.careful.difference(queues).union(careful or ())

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
