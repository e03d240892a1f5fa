"""A clock that stands still until you move it."""

from datetime import UTC, datetime, timedelta

from mita.model.time import SECOND, Moment, Wait
from mita.rules.when import moment

START = datetime(2030, 1, 1, tzinfo=UTC)


class FakeClock:
    """A clock that moves only when a test moves it."""

    def __init__(self, start: datetime = START) -> None:
        self._now: Moment = moment(start)

    def now(self) -> Moment:
        """The time in milliseconds since 1970."""
        return self._now

    @property
    def time(self) -> datetime:
        """The time as a datetime in UTC."""
        return datetime.fromtimestamp(self._now / SECOND, UTC)

    def move(self, by: float | timedelta) -> None:
        """Move the clock ahead by this many seconds."""
        self.move_ms(round((by.total_seconds() if isinstance(by, timedelta) else by) * SECOND))

    def move_ms(self, by: Wait) -> None:
        """Move the clock ahead by this many milliseconds."""
        self._now += by
