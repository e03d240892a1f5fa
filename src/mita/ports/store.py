"""The store contract: what SQLite, PostgreSQL, Redis, NATS and memory all promise.

Lists in, lists out, one answer per item in the same order; each item is atomic by itself, a batch
never is. Decisions are made by `mita.rules`; a store applies them if the token (or the source
state) still matches. Waits travel as waits: only a store makes moments. The suite in
`mita.testing.contract` says the same in tests.

A store belongs to the event loop that opened it. Making one connects to nothing; `open` does.
"""

from collections.abc import Callable, Collection, Sequence
from enum import Flag, auto
from typing import Any, Protocol, TypeAlias, cast

from msgspec import Struct

from mita.errors import UsageError
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
from mita.model.repeat import DueRepeats, Firing, Repeat
from mita.model.time import Moment, Wait, When
from mita.model.view import Finding, JobFilter, Page, QueueView, ResourceView, WorkerView

from .pubsub import EventMessage, Subscription

ASKED = "!"  # the wake-up topic that says: a running job was cancelled
# and the one that says: a repeat may fire earlier than you thought, or nobody holds a lock any more
REPEATS = "@"
# and the one that says: something was told to those who listen, which is no work for anybody
TOLD = "?"


class Can(Flag):
    """What not every engine can do. A contract test that needs one of these names it."""

    OBEY_A_FAKE_CLOCK = auto()
    KEEP_EXACT_ORDER = auto()
    ENQUEUE_IN_YOUR_TRANSACTION = auto()


SILENCE = 5.0  # seconds: `Store.silence`, unless it is set


class OnceValue(Struct, frozen=True, kw_only=True):
    """A value to remember under a name: for the life of the claim's job, or for `keep` across all
    jobs."""

    claim: Claim
    name: str
    value: bytes
    keep: Wait | None = None


class Jobs(Protocol):
    """The way of a job through the store."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Take jobs in. A `unique` key that a job of the same queue holds (while it is not
        terminal, and its `unique_for` longer) gives that job's id. Enqueuing an id that is already
        there changes nothing."""

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        """Hand over up to `limit` due jobs, queue after queue in the order given, in each by
        priority, due time, age.

        Paused queues give nothing. A job whose resource key is taken or held becomes `blocked`
        (busy +1), or as its `when_busy` says: `skip` ends it as cancelled; `replace` cancels the
        key's other waiting jobs and blocks it. A key whose hold has run out wakes as many of its
        blocked jobs as may run."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Put claims down. False: the token is stale, nothing was changed.

        What was asked while the job ran comes first: after `cancel` it ends as cancelled, after a
        reschedule it goes to the queue at the asked time; counters, error and timeline are written
        as the verdict says. Leaving `running` frees the resource key and wakes its oldest blocked
        job of the highest priority, in the same atomic act.

        Raises `Rejected` when the store does not take some of them (too large, or against a rule of
        its database); it names them, and the others are written. A `settle_and_claim` that raises
        it has claimed nothing."""

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        """`settle`, then `claim`, in one round trip."""

    async def extend(self, claims: Sequence[Claim], lease: Wait) -> list[Held]:
        """Keep claims for `lease` from now. `cancel`: still held, and somebody asked for it to
        stop."""

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        """Take over jobs whose lease ran out, of any queue, under a new token. Also wakes blocked
        jobs whose key is free: the net under a wake-up that was lost."""

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        """Ask something of jobs by id, in whatever state they are."""

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        """Note how far runs have come. False: the token is stale."""

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        """What was remembered under this name, for this job or (`shared`) for all."""

    async def store_once(self, value: OnceValue) -> bytes | None:
        """Remember a value unless there is one already; gives the one that stands, None when the
        token is stale."""


class RepeatStore(Protocol):
    """Stored rules that make jobs."""

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        """Insert, or replace spec and cursor. Count, last fire and a pause are kept; the revision
        grows. The same spec again changes nothing. An active one without a cursor goes on where the
        stored one stands."""

    async def remove_repeats(self, keys: Sequence[str]) -> list[bool]: ...

    async def pause_repeats(self, keys: Sequence[str]) -> list[bool]: ...

    async def resume_repeats(self, keys: Sequence[str]) -> list[bool]: ...

    async def due_repeats(self, limit: int) -> DueRepeats: ...

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        """Apply each firing whose cursor and revision still stand and whose repeat is active; False
        for the others."""

    async def list_repeats(self) -> list[Repeat]:
        """All of them, by key."""

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]: ...


class Leadership(Protocol):
    """Locks by which schedulers agree who works. They only save work: correctness never depends on
    one, because a process that holds a lock can be stopped for longer than the lock lasts."""

    async def lock(self, name: str, holder: str, keep: Wait) -> bool:
        """Take a lock for `keep` from now. Returns False if another holder has it. A holder that
        has the lock already extends it."""

    async def unlock(self, name: str, holder: str) -> None:
        """Release the lock, if this holder has it."""


class Inspector(Protocol):
    """Reading. None of this changes anything."""

    async def now(self) -> Moment: ...

    async def queue_names(self) -> list[str]:
        """Every queue that ever had a job or was paused, sorted. Workers ask often, so this counts
        nothing."""

    async def queues(self) -> list[QueueView]:
        """The same queues, with their counts, by name."""

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        """Jobs that match, newest id first, with ids below `after`."""

    async def find(self, ids: Sequence[str]) -> list[Job | None]: ...

    async def raw(self, id: str) -> dict[str, bytes] | None:
        """A job's record as it is stored, part by part, whether it can be read or not; None when
        there is no such job. What the parts are is the store's own affair."""

    async def timeline(self, id: str) -> list[TimelineEntry]:
        """What happened to a job beyond the happy path, oldest first; at most `TIMELINE_LINES`
        events, the first of them a `folded` one that counts what came before by kind
        (`rules.timeline`)."""

    async def ahead(self, id: str) -> int | None:
        """How many jobs go first: of the queue's ready ones for a ready job, of its key's blocked
        ones for a blocked job. None for others."""

    async def resources(
        self, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        """Keys that are held, waited for, or on hold."""


class Control(Protocol):
    """What an operator changes while jobs run."""

    async def pause(self, queues: Sequence[str]) -> None: ...

    async def resume(self, queues: Sequence[str]) -> None: ...

    async def hold(self, queues: Sequence[str], key: str, until: When) -> None:
        """No job with this key starts in these queues before `until`. `NOW` lifts a hold."""


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
        beyond the newest `most` of their queue. Returns how many were deleted."""

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
        nothing falls between two calls; waking for nothing is allowed, sleeping through is not."""


class PubSub(Protocol):
    """What happens, told to whoever listens, in whatever process. Nothing depends on it: what is
    told may be lost, and where nobody listens nobody pays for it."""

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """Pass these on, in this order, to those who listen now. Nothing is kept for those who come
        later."""

    async def subscribed_queues(self) -> frozenset[str]:
        """Which queues somebody listens to, `EVERY` among them if somebody listens to all; asked
        often, so it is cheap. It may name too many, but never too few. Whoever died without a word
        is forgotten after `SUBSCRIPTION_RETENTION`."""

    async def subscribe(self, queue: str | None) -> Subscription:
        """Listen to one queue, or to all (None): when this returns, whatever is told from now on is
        heard. A store that was away goes on listening by itself, and says that something may have
        been missed."""


class Transactional(Protocol):
    """What a store also promises that says `Can.ENQUEUE_IN_YOUR_TRANSACTION`. `connection` is the
    user's own, inside a transaction that only the user ends."""

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """The jobs exist exactly if the transaction commits."""

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]: ...

    async def complete_in(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """The claim is settled as succeeded exactly if the transaction commits. Raises `LeaseLost`
        for a stale token."""

    def complete_in_sync(
        self, connection: Any, claim: Claim, result: bytes, keep: Wait
    ) -> None: ...


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
    Protocol,
):
    """The whole contract.

    `silence`, to be set before `open`: after so many seconds without an answer a store asks whether
    its server is still at the other end of the connection. If it is not, the connection is made
    again. A worker sets a part of its lease."""

    can: Can
    silence: float

    @property
    def room(self) -> int | None:
        """How many bytes the arguments and the result of one job may take together, once it is
        open. None: any number. `enqueue` refuses a larger job with a `UsageError`, before anything
        is stored."""

    async def open(self, *, create: bool = True) -> None:
        """Connect, and bring the schema up to date. `create=False`: change nothing there. A place
        without Mita is a `StoreMissing`, which names the place and the namespace; a schema that is
        not up to date is a `UsageError`."""

    async def close(self) -> None: ...


# makes one more handle on the same jobs with each call
StoreFactory: TypeAlias = Callable[[], Store]


def transactional(store: Store) -> Transactional:
    """The store as one that can join the user's transaction, or a `UsageError` that says that it
    cannot."""
    if Can.ENQUEUE_IN_YOUR_TRANSACTION not in store.can:
        raise UsageError(
            "this store cannot take part in your transaction: only postgresql:// can, with its "
            "jobs in the same database as "
            "your data. Enqueue after the commit instead"
        )
    return cast(Transactional, store)
