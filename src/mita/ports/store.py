"""The store contract: what SQLite, PostgreSQL, Redis, NATS and memory all promise.

Methods take lists and return lists, with one answer per item in the same order. Each item is
atomic by itself; a batch is not. `mita.rules` makes the decisions; a store applies them if the
token (or the source state) still matches. Delays are passed as delays: only a store turns them into
points in time. The suite in `mita.testing.contract` tests all of this.

A store belongs to the event loop that opened it. The constructor does not connect; `open` does.
"""

from collections.abc import Callable, Collection, Sequence
from enum import Flag, auto
from typing import Protocol, TypeAlias

from msgspec import Struct

from mita.model.flow import Arrival
from mita.model.gate import StoredLimit
from mita.model.job import Claim, Job, NewJob, Receipt
from mita.model.outcome import (
    Answer,
    Change,
    ClaimResult,
    Held,
    Progress,
    Settlement,
    TimelineEntry,
)
from mita.model.time import Moment, Wait, When
from mita.model.view import (
    Finding,
    JobFilter,
    Page,
    QueueView,
    ResourceView,
    StoredGroup,
    WorkerView,
)

from .audit import AuditLog
from .history import History
from .pubsub import PubSub
from .schedulers import Leadership, RepeatStore

# Topics of wake-ups (`Store.wait`) that are not names of queues:
ASKED = "!"  # a running job was cancelled
REPEATS = "@"  # a repeat may fire earlier than before, or a scheduler released its lock
EVENTS = "?"  # events were published; workers ignore this topic


class Can(Flag):
    """What only some stores can do. A contract test that needs one of these names it."""

    OBEY_A_FAKE_CLOCK = auto()
    KEEP_EXACT_ORDER = auto()
    SHARE_EXACTLY = auto()  # groups of `fair` take turns start by start
    ENQUEUE_IN_YOUR_TRANSACTION = auto()
    ENQUEUE_AT_ONCE = auto()  # the jobs of one small `enqueue` are stored all or not at all
    TELL_AT_ONCE = auto()  # `arrive` that raises `Rejected` has told no job of that queue
    TELL_WITH_SETTLE = auto()  # `settle_and_claim` tells the `arrivals` of settlements


SILENCE_S = 5.0  # the default of `Store.silence`


class OnceValue(Struct, frozen=True, kw_only=True):
    """A value to remember under a name: as long as the claim's job exists, or for `keep` across all
    jobs."""

    claim: Claim
    name: str
    value: bytes
    keep: Wait | None = None


class Jobs(Protocol):
    """The operations on jobs, from enqueue to settle."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Store new jobs. If a job of the same queue has the `unique` key (until it is terminal,
        and for its `unique_for` after that), the receipt has that job's id. Enqueuing an id that
        exists changes nothing.

        A job with `debounce` moves the waiting job that has its key, and replaces its payload,
        options and headers; `throttle` keeps the key for that long from now (`rules.twins`)."""

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        """Claim up to `limit` due jobs: queue after queue in the order given, and within a queue by
        priority, due time and age. With `ageing`, a job that has been due for that long goes before
        a job that is one priority higher and due now (`due - priority * ageing` is the order).
        Within a priority, groups of `fair` take turns (`rules.shares`).

        Nothing is claimed from a paused queue, and no more from a limited queue than its limit
        allows. A job passes all of its gates or none (`rules.gates`). At the first that is not open
        it becomes `blocked`, or ends, as `rules.busy` says; at a rate it always waits. A key whose
        hold is over, or whose rate has tokens again, wakes as many of its blocked jobs as may
        run."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Write the verdicts of runs and give up their claims. False: the token is stale, and
        nothing was changed.

        What was asked while the job ran comes first, as `rules.asked` says; counters, error and
        timeline are written as the verdict says. A job that stops running frees its keys; each
        wakes the blocked job that is first, in the same atomic operation. An `unstarted` verdict
        gives the tokens of its rates back.

        Raises `Rejected` if the store refuses some of the settlements (they are too large, or break
        a rule of the database). The error names them; the others are written. A `settle_and_claim`
        that raises it has claimed nothing."""

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        """`settle`, then `claim`, in one round trip.

        With `Can.TELL_WITH_SETTLE` it also tells the `arrivals` of the settlements that were
        written, as `arrive` does, in the same atomic operation. If it raises `Rejected` and one of
        the settlements has arrivals, nothing was written."""

    async def extend(self, claims: Sequence[Claim], lease: Wait) -> list[Held]:
        """Extend these claims to `lease` from now. `cancel`: the claim is still held, but the job
        was cancelled."""

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        """Take over jobs whose lease expired, in any queue, with a new token. Also wakes blocked
        jobs whose key is free, in case a wake-up was lost."""

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        """Change jobs by id. An answer says for each whether its state allowed the change.

        A `SignalJob` is stored as a once value (`rules.durable`), unless there is one of its name.
        A queued job that waits for it is due at once. A settlement whose verdict `waits` for it
        looks for it in the same atomic operation, so no signal is lost in between."""

    async def arrive(self, arrivals: Sequence[Arrival]) -> list[Answer]:
        """Tell jobs how others have ended. Each arrival is stored as a once value of its receiver
        (`rules.durable`), unless its sender has told it before (`taken`). A queued receiver that
        `needs` jobs have told is due at once. A receiver that failed or was cancelled keeps what it
        is told, for a retry. One that succeeded is `too late`."""

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        """Store the progress of runs. False: the token is stale."""

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        """Return the value that is stored under this name, for this job or (`shared`) for all jobs;
        None if there is none."""

    async def store_once(self, value: OnceValue) -> bytes | None:
        """Store a value unless there is one already. Returns the stored value; None if the token is
        stale."""


class Inspector(Protocol):
    """Read-only operations."""

    async def now(self) -> Moment:
        """The store's clock."""

    async def queue_names(self) -> list[str]:
        """Return every queue that ever had a job or was paused, sorted. It counts nothing, because
        workers call it often."""

    async def queues(self) -> list[QueueView]:
        """Return the same queues with their counts, by name."""

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        """Return the jobs that match, newest id first, with ids below `after`."""

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        """Return the jobs with these ids; None for an id that is not there."""

    async def raw(self, id: str) -> dict[str, bytes] | None:
        """Return a job's record as it is stored, part by part, even if it cannot be read; None if
        there is no such job. Each store has its own parts."""

    async def timeline(self, id: str) -> list[TimelineEntry]:
        """Return the timeline of a job, oldest first; a plain success writes nothing there. It has
        at most `TIMELINE_LINES` entries; the first may be a `folded` one, which counts earlier
        entries by kind (`rules.timeline`)."""

    async def once_values(self, id: str) -> dict[str, bytes]:
        """Return the values that a job has stored for itself, by name: those of `store_once` and
        its signals. It is empty if there is no such job."""

    async def ahead(self, id: str) -> int | None:
        """How many jobs go before this one: ready jobs of its queue for a ready job, blocked jobs
        of its key for a blocked job. None for other jobs."""

    async def dead_groups(
        self, queue: str | None, task: str | None, limit: int
    ) -> list[StoredGroup]:
        """Return up to `limit` groups of failed jobs, of one queue or of all, of one task or of
        all: those with the most jobs first. Jobs without a group are counted under \"\"."""

    async def resources(
        self, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        """Return the keys that are held, waited for, on hold or limited."""


class Control(Protocol):
    """What an operator changes while jobs run."""

    async def pause(self, queues: Sequence[str]) -> None:
        """Start no more jobs of these queues."""

    async def resume(self, queues: Sequence[str]) -> None:
        """Start jobs of these queues again."""

    async def hold(self, queues: Sequence[str], key: str, until: When) -> None:
        """No job with this key starts in these queues before `until`. `NOW` lifts a hold."""

    async def limit(
        self, queues: Sequence[str], key: str | None, limit: StoredLimit | None
    ) -> None:
        """Set the limit of these queues, or of this key in each of them; None removes it. It holds
        for every start after this returns, and wakes the jobs that may start now. A queue that had
        no job becomes known."""


class WorkerRegistry(Protocol):
    """The workers that are alive."""

    async def beat(self, worker: WorkerView, keep: Wait) -> Moment:
        """The heartbeat of a worker: it counts as alive for `keep`. Returns the store's clock."""

    async def leave(self, worker: str) -> None:
        """The worker has stopped."""

    async def workers(self) -> list[WorkerView]:
        """The workers whose last heartbeat has not expired."""


class Maintenance(Protocol):
    """Keeping the store small, up to date and healthy."""

    async def prune(self, limit: int, most: int) -> int:
        """Delete up to `limit` terminal jobs: jobs whose retention is over, and succeeded jobs
        beyond the newest `most` of their queue, the oldest first. Returns how many were
        deleted."""

    async def migrate(self) -> list[str]:
        """Bring the schema up to date. Returns the names of the steps that were run."""

    async def doctor(self) -> list[Finding]:
        """What is wrong with the store or its settings, with the remedy."""


class Wakeups(Protocol):
    """Waiting for work without polling."""

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Return as soon as a job may have become claimable in one of these queues (None: in any),
        a running job was cancelled (`ASKED`) or repeats changed (`REPEATS`), and say which; empty
        after `timeout` seconds. What happened since the last `wait` of this store counts, so
        no wake-up is lost between two calls. It may return without a cause."""


class Store(
    Jobs,
    RepeatStore,
    Leadership,
    Inspector,
    Control,
    WorkerRegistry,
    Maintenance,
    Wakeups,
    PubSub,
    AuditLog,
    History,
    Protocol,
):
    """The whole contract.

    `silence` is set before `open`: after this many seconds without an answer, a store checks
    whether its server is still reachable. If not, it connects again. A worker sets it to a part of
    its lease. `ageing` is set before `open` too: how long a job waits until it has risen by one
    priority; None means that priorities are strict."""

    can: Can
    silence: float
    ageing: Wait | None

    @property
    def room(self) -> int | None:
        """How many bytes the arguments and the result of one job may have together, once the store
        is open. None: any number. `enqueue` raises `UsageError` for a larger job, before anything
        is stored."""

    async def open(self, *, create: bool = True) -> None:
        """Connect, and update the schema. `create=False`: change nothing. Then a URL without a Mita
        database raises `StoreMissing`, which names the location and the namespace, and an old
        schema raises `UsageError`."""

    async def close(self) -> None:
        """Disconnect. The store is not used any more."""


# makes one more handle on the same jobs with each call
StoreFactory: TypeAlias = Callable[[], Store]
