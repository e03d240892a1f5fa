"""A job: as it is enqueued, as a worker claims it, and as the store keeps it.

`gc=False`: a bulk enqueue makes many of these at a time. They cannot be part of a reference cycle,
and if the garbage collector tracked them it would take a quarter of the time."""

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from .gate import Gate, Limit
from .time import LATEST, NOW, Moment, When

PRIORITIES = range(-100, 101)
DEFAULT_PRIORITY = 5

# What a stored job may hold, checked where a record is read.
Priority: TypeAlias = Annotated[int, Meta(ge=PRIORITIES[0], le=PRIORITIES[-1])]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000_000)]
# exact in a double too, which is all that Lua has
Token: TypeAlias = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Lasting: TypeAlias = Annotated[int, Meta(ge=0, le=LATEST)]  # a wait that is not negative
NORMAL_WEIGHT_THOUSANDTHS = 1000  # weights are stored in thousandths
MOST_WEIGHT_THOUSANDTHS = 1_000 * NORMAL_WEIGHT_THOUSANDTHS
Weight: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_WEIGHT_THOUSANDTHS)]


class State(StrEnum):
    """The state of a job. `queued` is shown as *scheduled* before its due time and as *ready* after
    it."""

    QUEUED = "queued"
    BLOCKED = "blocked"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WhenBusy(StrEnum):
    """What a job does when its resource key is taken."""

    WAIT = "wait"
    SKIP = "skip"
    REPLACE = "replace"


class Asked(StrEnum):
    """What a person asked of a job while it ran. It takes effect when the run ends
    (`rules.asked`)."""

    CANCEL = "cancel"
    RESCHEDULE = "reschedule"


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    """A job that is to be enqueued. The client packs `payload`, `options` and `headers`; a store
    never reads them.

    `gates` are conditions of its start beside the resource key. Jobs that share `fair` share the
    starts of their queue and priority with the others by `weight`. `debounce`, `debounce_max` and
    `throttle` say what an enqueue does that meets its unique key (`rules.twins`). `tags` are also
    in `options`, where they are read; a store that can index them takes them from here.

    `fresh`: its id is new and it is given to a store once, so no other queue can know the id."""

    id: str
    task: str
    queue: str
    payload: bytes
    options: bytes = b""
    headers: bytes = b""
    priority: Priority = DEFAULT_PRIORITY
    when: When = NOW
    unique: str | None = None
    unique_for: Lasting = 0
    resource: str | None = None
    limit: Limit = 1
    when_busy: WhenBusy = WhenBusy.WAIT
    repeat: str | None = None
    fire_time: Moment | None = None
    gates: tuple[Gate, ...] = ()
    fair: str | None = None
    weight: Weight = NORMAL_WEIGHT_THOUSANDTHS
    throttle: Lasting = 0
    debounce: Lasting = 0
    debounce_max: Lasting = 0
    tags: tuple[str, ...] = ()
    fresh: bool = False


class Receipt(Struct, frozen=True, gc=False):
    """The answer to a `NewJob`: the job's id, or the id of the earlier job that has its unique
    key."""

    id: str
    created: bool = True


class Claim(Struct, frozen=True, gc=False):
    """A worker's claim on a job: what a run needs to know, and the token with which the run is
    settled.

    `at` is the store's time of the claim. `ref` is private to the store. `lost` is the worker whose
    lease expired, if the claim was taken over from one."""

    id: str
    token: int
    at: Moment
    task: str
    queue: str
    payload: bytes
    options: bytes
    headers: bytes
    priority: int
    due: Moment
    created: Moment
    attempts: int = 0
    reschedules: int = 0
    busy: int = 0
    interruptions: int = 0
    crashes: int = 0
    resource: str | None = None
    unique: str | None = None
    repeat: str | None = None
    fire_time: Moment | None = None
    progress: bytes | None = None
    stranded: Moment | None = None
    gates: tuple[Gate, ...] = ()
    fair: str | None = None
    ref: Any = None
    lost: str | None = None


class Job(Struct, frozen=True, kw_only=True):
    """Everything that a store knows about a job, except its timeline.

    `asked` is what a person asked of it while it ran. `stranded` is the time since when no worker
    that claimed it has known its task. `expires` is when a terminal job will be deleted.
    `blocked_at` is the key at which a blocked job waits. `group` is the fingerprint of a failed
    job's error (`rules.fingerprint`); None for other jobs, and for jobs that failed before Mita
    made fingerprints."""

    id: str
    task: str
    queue: str
    state: State
    priority: Priority
    due: Moment
    created: Moment
    payload: bytes
    options: bytes = b""
    headers: bytes = b""
    attempts: Count = 0
    reschedules: Count = 0
    busy: Count = 0
    interruptions: Count = 0
    crashes: Count = 0
    error: str | None = None
    result: bytes | None = None
    resource: str | None = None
    limit: Limit = 1
    when_busy: WhenBusy = WhenBusy.WAIT
    unique: str | None = None
    unique_for: Lasting = 0
    repeat: str | None = None
    fire_time: Moment | None = None
    gates: tuple[Gate, ...] = ()
    fair: str | None = None
    weight: Weight = NORMAL_WEIGHT_THOUSANDTHS
    progress: bytes | None = None
    stranded: Moment | None = None
    blocked_at: str | None = None
    token: Token = 0
    worker: str | None = None
    started: Moment | None = None
    lease_until: Moment | None = None
    asked: Asked | None = None
    finished: Moment | None = None
    expires: Moment | None = None
    group: str | None = None
