"""How many runs ended per second, as `mita workers` shows it."""

import time
from collections import deque
from collections.abc import Callable, Mapping

from mita.model.time import SECOND, Wait

# that a rate covers, as near as the heartbeats allow; a younger worker's rate covers its life
RATE_WINDOW_S = 10.0
SAMPLES_APART_S = 0.5  # at least, of two samples


class Rates:
    """Keeps samples of the counts of ended runs by queue. A rate is the difference of two samples
    per second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, dict[str, int]]] = deque([(clock(), {})])

    def measure(self, ended: Mapping[str, int]) -> tuple[dict[str, float], Wait]:
        """Returns the rates by queue and the time that they cover; nothing if that time is too
        short."""
        now, counts = self._clock(), dict(ended)
        while len(self._samples) > 1 and self._samples[1][0] <= now - RATE_WINDOW_S:
            self._samples.popleft()
        since, before = self._samples[0]
        seconds = now - since
        if now - self._samples[-1][0] >= SAMPLES_APART_S:
            self._samples.append((now, counts))
        if seconds < SAMPLES_APART_S:
            return {}, 0
        rates = {
            queue: round((n - before.get(queue, 0)) / seconds, 2) for queue, n in counts.items()
        }
        return rates, round(seconds * SECOND)
