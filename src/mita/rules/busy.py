"""What happens to a due job whose resource key is taken or on hold.

The job leaves the front of its queue and is counted as busy once. It waits at the key (`blocked`),
or it ends, as its `when_busy` says. Stores that claim in SQL or Lua get these values as text, so
that the rule is stated here alone.
"""

from collections.abc import Mapping

from msgspec import Struct

from mita.model.job import State, WhenBusy
from mita.model.outcome import TimelineKind
from mita.model.time import HOUR


class BusyPolicy(Struct, frozen=True, kw_only=True):
    """What a job does that finds its key busy: the state it gets, the line in its timeline, and
    whether it `replaces` the jobs that already wait at the key (they end as cancelled)."""

    state: State
    line: TimelineKind
    replaces: bool = False

    @property
    def ends(self) -> bool:
        """Whether the job ends instead of waiting."""
        return self.state is not State.BLOCKED


BUSY_POLICIES: Mapping[WhenBusy, BusyPolicy] = {
    WhenBusy.WAIT: BusyPolicy(state=State.BLOCKED, line=TimelineKind.BLOCKED),
    WhenBusy.SKIP: BusyPolicy(state=State.CANCELLED, line=TimelineKind.SKIPPED),
    WhenBusy.REPLACE: BusyPolicy(state=State.BLOCKED, line=TimelineKind.BLOCKED, replaces=True),
}
BUSY_RETENTION = HOUR  # how long a job that was skipped or replaced can still be inspected
BUSY_NOTE = " is taken"  # behind the name of the key, in the timeline
REPLACED_NOTE = "by "  # before the id of the job that replaced this one, in the timeline


def busy_note(key: str) -> str:
    """The timeline note of a job that found this key busy."""
    return f"{key}{BUSY_NOTE}"


def replaced_note(id: str) -> str:
    """The timeline note of a waiting job that was replaced by the job with this id."""
    return f"{REPLACED_NOTE}{id}"
