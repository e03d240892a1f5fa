"""What stores show of queues, jobs, workers, resource keys and their own health."""

from enum import StrEnum

from msgspec import Struct

from .gate import StoredLimit
from .job import Job, State
from .record import DisplayState
from .time import Moment, Wait


class QueueView(Struct, frozen=True, kw_only=True):
    """One queue at one point in time. `oldest` is how long its oldest ready job has been ready.
    `limit` is what an operator has set. `tokens` is how many jobs its rate lets start now (None: it
    has no rate), and `next_start` when it allows the next start (None: now). `counted` is how
    long ago its counts were true (None: they are exact); ready and running jobs are those of now
    all the same."""

    name: str
    waiting: int = 0
    scheduled: int = 0
    ready: int = 0
    blocked: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    oldest: Wait | None = None
    paused: Moment | None = None
    limit: StoredLimit | None = None
    tokens: int | None = None
    next_start: Moment | None = None
    counted: Wait | None = None


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs a page shows; None means any. `state` is the stored state, `shown` the state as
    people see it (`rules.matching.shown_as`).

    `error` is searched for in the error's type and message, not in its traceback. `tag` is one of
    its tags. `group` is the group of a failed job; "" means failed jobs without one."""

    queue: str | None = None
    task: str | None = None
    state: State | None = None
    shown: DisplayState | None = None
    resource: str | None = None
    unique: str | None = None
    repeat: str | None = None
    error: str | None = None
    tag: str | None = None
    group: str | None = None


class StoredGroup(Struct, frozen=True, kw_only=True):
    """Failed jobs whose errors have the same fingerprint (`rules.fingerprint`). `group` is the
    fingerprint; "" stands for all failed jobs without one: jobs that failed before Mita made
    fingerprints, and jobs whose records cannot be read.

    `first` and `last` are when the first and the last of them failed, and `sample` is the id of one
    that failed last. `hours` are how many failed in each of the last 24 hours, the oldest hour
    first; the last number is of the hour that ends now."""

    group: str
    count: int
    first: Moment
    last: Moment
    sample: str
    hours: tuple[int, ...]


class Page(Struct, frozen=True):
    """Jobs, newest first, and the cursor that the next page starts after; None on the last page."""

    jobs: list[Job]
    after: str | None = None


class WorkerView(Struct, frozen=True, kw_only=True):
    """One start of a worker, as the worker last described itself.

    `rate` is how many runs ended per second in the `window` before that, `rates` the same by queue;
    a window of 0 means that it started too recently. `full`: it has no free slot or thread.
    `offset` is its clock minus the store's, `version` that of its code."""

    id: str
    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    slots: int
    running: int = 0
    full: bool = False
    rate: float = 0.0
    rates: dict[str, float] = {}
    window: Wait = 0
    started: Moment = 0
    seen: Moment = 0
    offset: Wait = 0
    version: str = ""


class Holder(Struct, frozen=True):
    """A job that holds a resource key."""

    id: str
    worker: str | None
    since: Moment | None


class ResourceView(Struct, frozen=True, kw_only=True):
    """One key of one queue. `limit` is what an operator has set. `interval_us` and `burst` are the
    rate of the latest start with this key (0: there was none, or it is forgotten), and `next_start`
    is when it allows the next one (None: now)."""

    queue: str
    key: str
    holders: tuple[Holder, ...] = ()
    waiting: int = 0
    held_until: Moment | None = None
    limit: StoredLimit | None = None
    interval_us: int = 0
    burst: int = 1
    next_start: Moment | None = None


class Health(StrEnum):
    """How bad a finding is."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


class Finding(Struct, frozen=True):
    """One line of `mita doctor`: what was checked, what was found, and how to fix it."""

    what: str
    found: str
    health: Health = Health.GOOD
    remedy: str = ""
