"""What happens to a due job whose resource key is taken or on hold.

The job leaves the front of its queue and is counted as busy once. It waits at the key (`blocked`),
or it ends, as its `when_busy` says. Stores that claim in SQL or Lua get these values as text, so
that the rule is stated here alone.
"""

from collections.abc import Mapping

from msgspec import Struct

from mita.model.gate import Gate
from mita.model.job import State, WhenBusy
from mita.model.outcome import TimelineKind
from mita.model.time import HOUR, Moment

from .gates import KeyUse, tokens


class BusyPolicy(Struct, frozen=True, kw_only=True):
    """What a job does that finds its key busy: the state it gets, the line in its timeline, and
    whether it `replaces` the jobs that already wait at the key (they end as cancelled)."""

    state: State
    line: TimelineKind
    replaces: bool = False
    why: str = " is taken"

    @property
    def ends(self) -> bool:
        """Whether the job ends instead of waiting."""
        return self.state is not State.BLOCKED

    def note(self, key: str) -> str:
        """The timeline note of a job that could not pass the gate with this key."""
        return f"{key}{self.why}"


BUSY_POLICIES: Mapping[WhenBusy, BusyPolicy] = {
    WhenBusy.WAIT: BusyPolicy(state=State.BLOCKED, line=TimelineKind.BLOCKED),
    WhenBusy.SKIP: BusyPolicy(state=State.CANCELLED, line=TimelineKind.SKIPPED),
    WhenBusy.REPLACE: BusyPolicy(state=State.BLOCKED, line=TimelineKind.BLOCKED, replaces=True),
}
# At a rate a job always waits: its turn comes by itself.
RATE_POLICY = BusyPolicy(
    state=State.BLOCKED, line=TimelineKind.BLOCKED, why=" has no token for it now"
)
BUSY_RETENTION = HOUR  # how long a job that was skipped or replaced can still be inspected
BUSY_NOTE = " is taken"  # behind the name of the key, in the timeline
REPLACED_NOTE = "by "  # before the id of the job that replaced this one, in the timeline


def busy_policy(when_busy: WhenBusy, gate: Gate, use: KeyUse, now: Moment) -> BusyPolicy:
    """What a job does at a gate that is not open for it: its own policy if the key is taken or on
    hold; if only the rate has no token, it waits."""
    is_free = use.held_until <= now and (gate.limit is None or use.holders < gate.limit)
    if is_free and gate.interval_us and not tokens(gate, use.tat_us, now):
        return RATE_POLICY
    return BUSY_POLICIES[when_busy]


def busy_note(key: str) -> str:
    """The timeline note of a job that found this key busy."""
    return f"{key}{BUSY_NOTE}"


def replaced_note(id: str) -> str:
    """The timeline note of a waiting job that was replaced by the job with this id."""
    return f"{REPLACED_NOTE}{id}"
