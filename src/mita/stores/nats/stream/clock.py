"""An estimate of the server's clock.

JetStream has no call for the time, but every answer about a stream contains it. We ask a few times
at the start, at every heartbeat of a worker and for the doctor, and use this machine's monotonic
clock in between; no wall clock of a client decides anything.

An answer's time is taken as the time at which the answer arrived. So each sample is behind the
server's clock by the travel time of one message, never ahead of it. The sample that is furthest
ahead is therefore the best, and no job starts early because of it."""

import time
from collections import deque
from datetime import datetime

from mita.model.time import Moment
from mita.stores.nats.client.wire import NatsWire

ROUND_SAMPLES = 5
KEPT_ROUNDS = 4  # the two clocks drift apart by microseconds in that time


class ServerClock:
    """The clock of the server that holds this stream."""

    def __init__(self, wire: NatsWire, stream: str) -> None:
        self._wire = wire
        self._stream = stream
        self._rounds: deque[int] = deque(maxlen=KEPT_ROUNDS)
        self._offset_ns = 0
        self._latest: Moment = 0
        self._last_age = 0

    async def refresh(self) -> None:
        """Ask the server for its time."""
        offsets = []
        for _ in range(ROUND_SAMPLES):
            answer = await self._wire.api(f"STREAM.INFO.{self._stream}")
            arrived = time.monotonic_ns()
            if "ts" in answer:
                offsets.append(nanoseconds(answer["ts"]) - arrived)
        if offsets:
            self._rounds.append(max(offsets))
            self._offset_ns = max(self._rounds)

    def now(self) -> Moment:
        """Returns the time in milliseconds. It never goes back."""
        self._latest = max(self._latest, self.exact_ns() // 1_000_000)
        return self._latest

    def exact_ns(self) -> int:
        """Returns the time in nanoseconds."""
        return time.monotonic_ns() + self._offset_ns

    def ahead_of_ours_s(self) -> float:
        """Returns how many seconds the server's clock is ahead of this machine's."""
        return (self.exact_ns() - time.time_ns()) / 1e9

    def new_ages(self, n: int) -> range:
        """Returns positions in the order of arrival for `n` jobs: the time in nanoseconds, never
        the same one twice from this store."""
        first = max(self._last_age + 1, self.exact_ns())
        self._last_age = first + n - 1
        return range(first, first + n)


def nanoseconds(stamp: str) -> int:
    """Reads a time as the server writes it: RFC 3339 with up to nine decimals."""
    whole, _, rest = stamp.rstrip("Z").partition(".")
    return int(datetime.fromisoformat(whole + "+00:00").timestamp()) * 1_000_000_000 + int(
        f"{rest:0<9}"[:9]
    )


def as_stamp(moment: Moment) -> bytes:
    """Returns a point in time in the form that the server reads."""
    seconds, ms = divmod(moment, 1000)
    return b"%b.%03dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), ms)
