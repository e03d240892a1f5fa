"""Everything that memory stores share."""

import asyncio
from collections.abc import Callable
from threading import Lock

from msgspec import Struct, field

from mita import forks
from mita.model.audit import AuditEntry
from mita.model.gate import StoredLimit
from mita.model.history import SPANS_KEPT_MS
from mita.model.job import Job
from mita.model.outcome import TimelineEntry
from mita.model.repeat import Repeat
from mita.model.time import Moment, Wait
from mita.model.view import WorkerView
from mita.ports.pubsub import Subscription

from .index import JobIndex, ResourceKey


class MemoryRecord(Struct):
    """A job and what only the store knows of it. `age` is its number in the order of arrival."""

    job: Job
    age: int
    asked_due: Moment = 0
    asked_keep: Wait = 0
    timeline: tuple[TimelineEntry, ...] = ()
    once_values: dict[str, bytes] = field(default_factory=dict)


class UniqueHolder(Struct, frozen=True):
    """The job that has a unique key. `until`: the job has ended, and the key stays taken till
    then."""

    id: str
    until: Moment | None = None


class RateLevel(Struct, frozen=True):
    """The two numbers of a key's rate (`rules.gates`), and the rate of the latest start."""

    tat_us: int = 0
    woken_us: int = 0
    interval_us: int = 0
    burst: int = 1


class SharedOnceValue(Struct, frozen=True):
    """A value of `job.once` that all jobs share."""

    value: bytes
    until: Moment


class LiveWorker(Struct, frozen=True):
    """A worker as it described itself. It counts as alive until then."""

    worker: WorkerView
    until: Moment


class LockHolder(Struct, frozen=True):
    """The scheduler that has a lock."""

    holder: str
    until: Moment


class MemoryState:
    """What several `MemoryStore`s, on any threads and event loops, have in common."""

    def __init__(self) -> None:
        self.lock = forks.guarded(Lock())
        self.latest: Moment = 0
        self.arrivals = 0
        self.records: dict[str, MemoryRecord] = {}
        self.index = JobIndex()
        self.queues: dict[str, Moment | None] = {}  # each with the time since when it is paused
        self.unique: dict[tuple[str, str], UniqueHolder] = {}
        self.holds: dict[ResourceKey, Moment] = {}
        self.rates: dict[ResourceKey, RateLevel] = {}
        self.limits: dict[ResourceKey, StoredLimit] = {}
        self.queue_limits: dict[str, StoredLimit] = {}
        self.queue_levels: dict[str, int] = {}  # `tat_us` of limited queues
        self.shared: dict[str, SharedOnceValue] = {}
        self.repeats: dict[str, Repeat] = {}
        self.workers: dict[str, LiveWorker] = {}
        self.locks: dict[str, LockHolder] = {}
        self.audit: list[AuditEntry] = []  # by id
        # by the length of a minute or an hour: its start, queue and task, and the numbers
        self.history: dict[Wait, dict[tuple[Moment, str, str], list[int]]] = {
            span: {} for span in SPANS_KEPT_MS
        }
        self.subscriptions: dict[Subscription, asyncio.AbstractEventLoop] = {}
        self.notifiers: set[Callable[[set[str]], None]] = set()
