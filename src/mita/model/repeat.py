"""A repeat as a store keeps it, and one fire of it."""

from enum import StrEnum

from msgspec import Struct

from .job import NewJob
from .time import Moment


class RepeatState(StrEnum):
    """`finished`: its limit or its end was reached, or its pattern has no further match. `parked`:
    it cannot be read or computed; `reason` says why."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    PARKED = "parked"


class Repeat(Struct, frozen=True, kw_only=True):
    """A repeat as it is stored. The rules pack `spec`; a store never reads it.

    `cursor` is the next nominal fire time, `revision` grows with every edit. A firing names both,
    so that nothing of an old definition fires after an edit. `failures` counts the jobs of this
    repeat that failed in a row, if it has `pause_after`. `pause_reason` says why it is paused, if
    it was not a person that paused it."""

    key: str
    spec: bytes
    cursor: Moment | None
    state: RepeatState = RepeatState.ACTIVE
    reason: str = ""
    revision: int = 0
    count: int = 0
    last: Moment | None = None
    failures: int = 0
    pause_reason: str = ""


FIRING_JOBS = 250  # jobs of one firing: a long catch-up takes several


class Firing(Struct, frozen=True, kw_only=True):
    """A change that a store applies if the repeat still has this `cursor` and `revision`: set the
    cursor to `next`, add to the count, enqueue these jobs. There are at most `FIRING_JOBS` of them,
    so that every store can write them in one transaction.

    `last` is the nominal time of the newest job; None when missed windows were only left out.
    `fired` is how many fires this counts for, `dropped` how many windows it leaves out. If `next`
    is None, the repeat ends as `state` with `reason`. `missed` is the policy that was applied, for
    events. `cancels` are the ids of older jobs of a repeat with `overlap="cancel"`: the scheduler
    cancels them after the store has applied the firing; a store ignores them."""

    key: str
    cursor: Moment
    revision: int
    next: Moment | None
    fired: int
    last: Moment | None
    jobs: tuple[NewJob, ...]
    state: RepeatState = RepeatState.ACTIVE
    reason: str = ""
    missed: str = "skip"
    dropped: int = 0
    cancels: tuple[str, ...] = ()


class DueRepeats(Struct, frozen=True):
    """The repeats that are due at `now`, oldest cursor first, and the next cursor after those."""

    now: Moment
    repeats: list[Repeat]
    next: Moment | None = None
