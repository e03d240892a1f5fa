"""The clocks of a lab: one that stands still until you move it, and one that cannot be moved."""

from datetime import UTC, datetime, timedelta

from mita.errors import UsageError
from mita.model.time import SECOND, Moment, Wait
from mita.ports.clock import wall_clock
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
        return datetime.fromtimestamp(self.now() / SECOND, UTC)

    def move(self, by: float | timedelta) -> None:
        """Move the clock ahead `by` this many seconds (or a timedelta)."""
        self.move_ms(round((by.total_seconds() if isinstance(by, timedelta) else by) * SECOND))

    def move_ms(self, by: Wait) -> None:
        """Move the clock ahead `by` this many milliseconds."""
        self._now += by


class UnmovableClock(FakeClock):
    """The real time, for a store whose server keeps its own time. Moving it raises `UsageError`."""

    def now(self) -> Moment:
        """The time in milliseconds since 1970."""
        return wall_clock()

    def move_ms(self, by: Wait) -> None:  # noqa: ARG002
        """Raise `UsageError`."""
        raise UsageError(
            "a NATS server starts delayed jobs by its own clock, which a test cannot move: here "
            "only drain() works. Test delays, retries and repeats with lab(app), in memory"
        )
