"""The clock of a store that is being filled: it goes through the day that the jobs are from."""

from datetime import UTC, datetime

from mita.model.time import SECOND, Moment, Wait
from mita.ports.clock import wall_clock


class PastClock:
    """A clock that begins `ago` milliseconds before now, and is moved by hand until now."""

    def __init__(self, ago: Wait) -> None:
        self.end: Moment = wall_clock()
        self._now: Moment = self.end - ago

    def now(self) -> Moment:
        """The time in milliseconds since the epoch."""
        return self._now

    @property
    def time(self) -> datetime:
        """The time as a datetime in UTC."""
        return datetime.fromtimestamp(self._now / SECOND, UTC)

    def go_to(self, ago: Wait) -> None:
        """Move the clock to `ago` milliseconds before the end. It never goes back."""
        self._now = max(self._now, self.end - ago)

    def move(self, by: Wait) -> None:
        """Move the clock ahead `by` this many milliseconds."""
        self._now += by
