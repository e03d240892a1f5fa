"""A stored rule that makes jobs, and one turn of it."""

from enum import StrEnum

from msgspec import Struct

from .job import NewJob
from .time import Moment


class RepeatState(StrEnum):
    """`finished`: limit, end or no further match. `parked`: it cannot be read or computed; `reason`
    says why."""

    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    PARKED = "parked"


class Repeat(Struct, frozen=True, kw_only=True):
    """A repeat as stored. `spec` is packed by the rules; a store never looks inside.

    `cursor` is the next nominal fire time, `revision` grows with every edit: a firing names both,
    so that nothing of an old definition fires after the edit."""

    key: str
    spec: bytes
    cursor: Moment | None
    state: RepeatState = RepeatState.ACTIVE
    reason: str = ""
    revision: int = 0
    count: int = 0
    last: Moment | None = None


FIRING_JOBS = 250  # jobs of one firing: a long catch-up takes several


class Firing(Struct, frozen=True, kw_only=True):
    """If the repeat still stands at `cursor` and `revision`: move it to `next`, add to its count,
    enqueue these jobs. There are at most `FIRING_JOBS` of them, so that every store can write them
    in one act.

    `last` is the nominal time of the newest job made, None when missed windows were only passed
    over. `fired` is how many fires this counts for, `dropped` how many windows it passes over. A
    `next` of None ends the repeat as `state` with `reason`. `missed` is the policy by which it was
    planned, for whoever watches."""

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


class DueRepeats(Struct, frozen=True):
    """What is due at `now`, oldest cursor first, and the next cursor after those."""

    now: Moment
    repeats: list[Repeat]
    next: Moment | None = None
