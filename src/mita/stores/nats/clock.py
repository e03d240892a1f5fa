"""The server's clock, as far as it can be known from here.

JetStream has no verb for the time, but every answer about a stream carries it. We ask a few times
at the start, at every beat of a worker and when the doctor looks, and count on from there with this
machine's monotonic clock; so nobody's wall clock decides. The moment an answer was written is taken
for the moment it came in: each look runs behind the server's clock by the way of one message, never
ahead. So of the last few rounds the look that is furthest ahead is the best, and nothing starts
early by it."""

import time
from collections import deque
from datetime import datetime

from mita.model.time import Moment

from .client.wire import Wire

ROUND = 5
REMEMBERED = 4  # rounds; the two clocks drift apart by microseconds in that time


class ServerClock:
    def __init__(self, wire: Wire, stream: str) -> None:
        self._wire = wire
        self._stream = stream
        self._rounds: deque[int] = deque(maxlen=REMEMBERED)
        self._offset_ns = 0
        self._latest: Moment = 0
        self._age = 0

    async def refresh(self) -> None:
        """Look at the server's clock."""
        offsets = []
        for _ in range(ROUND):
            answer = await self._wire.api(f"STREAM.INFO.{self._stream}")
            came = time.monotonic_ns()
            if "ts" in answer:
                offsets.append(nanoseconds(answer["ts"]) - came)
        if offsets:
            self._rounds.append(max(offsets))
            self._offset_ns = max(self._rounds)

    def now(self) -> Moment:
        """Never back, whatever a new look at the server's clock says."""
        self._latest = max(self._latest, self.exact() // 1_000_000)
        return self._latest

    def exact(self) -> int:
        """In nanoseconds."""
        return time.monotonic_ns() + self._offset_ns

    def ahead_of_ours(self) -> float:
        """By how many seconds the server's clock is ahead of this machine's."""
        return (self.exact() - time.time_ns()) / 1e9

    def age(self, n: int) -> range:
        """Places in the order of arrival for `n` jobs: the time in nanoseconds, and never one twice
        from here."""
        first = max(self._age + 1, self.exact())
        self._age = first + n - 1
        return range(first, first + n)


def nanoseconds(stamp: str) -> int:
    """A time as the server writes it: RFC 3339 with up to nine digits of a second."""
    whole, _, rest = stamp.rstrip("Z").partition(".")
    return int(datetime.fromisoformat(whole + "+00:00").timestamp()) * 1_000_000_000 + int(
        f"{rest:0<9}"[:9]
    )


def as_stamp(moment: Moment) -> bytes:
    """A moment as a schedule names it."""
    seconds, ms = divmod(moment, 1000)
    return b"%b.%03dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), ms)
