"""Named points at which a process kills itself, as if the power had gone: between any two acts of a
worker or a producer.

`verb` points lie around the calls to the store and hold for every store. `sql` points lie inside a
transaction of SQLite, after the statement of that name, before the commit. `nats` points lie
between two steps of one verb, where JetStream cannot do both in one act."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from mita.model.flow import Arrival
from mita.model.job import State
from mita.model.outcome import Answer, CancelJob, Counter, RetryJob, SignalJob
from mita.ports.store import SILENCE_S, Store
from mita.rules.flow import ADDED
from mita.store_pool import StorePool
from mita.stores.nats import NatsStore
from mita.stores.nats import repeats as nats_repeats
from mita.stores.nats.stream import job_records as nats_records
from mita.stores.sqlite.context import SqliteContext

from .jobs import Here, die


class Point(Struct, frozen=True):
    """Around one verb of the store. `here` looks at the arguments and, after the call, the
    answer."""

    verbs: tuple[str, ...]
    after: bool
    here: Callable[[tuple[Any, ...], Any], bool]


def _any(args: tuple[Any, ...], answer: Any) -> bool:
    return True


def _settles(args: tuple[Any, ...], answer: Any) -> bool:
    return bool(args[0]) and not _crashes(args, answer)


def _crashes(args: tuple[Any, ...], answer: Any) -> bool:
    return any(settlement.verdict.counts is Counter.CRASHES for settlement in args[0])


def _puts_back(args: tuple[Any, ...], answer: Any) -> bool:
    return any(settlement.verdict.counts is Counter.INTERRUPTIONS for settlement in args[0])


def _waits(args: tuple[Any, ...], answer: Any) -> bool:
    return any(settlement.verdict.waits is not None for settlement in args[0])


def _signals(args: tuple[Any, ...], answer: Any) -> bool:
    return isinstance(args[1], SignalJob)


def _fails(args: tuple[Any, ...], answer: Any) -> bool:
    return any(settlement.verdict.state is State.FAILED for settlement in args[0])


def _cancels(args: tuple[Any, ...], answer: Any) -> bool:
    return isinstance(args[1], CancelJob)


def _retries(args: tuple[Any, ...], answer: Any) -> bool:
    return isinstance(args[1], RetryJob)


def _tells(args: tuple[Any, ...], answer: Any) -> bool:
    """A step tells others."""
    return any("." in arrival.receiver for arrival in args[0])


def _counts(args: tuple[Any, ...], answer: Any) -> bool:
    """A step tells its flow."""
    return any("." in arrival.sender and "." not in arrival.receiver for arrival in args[0])


def _adds(args: tuple[Any, ...], answer: Any) -> bool:
    """A step tells its counter what it has added."""
    return isinstance(args[1], SignalJob) and args[1].name.startswith(ADDED)


def _claimed(args: tuple[Any, ...], answer: Any) -> bool:
    return bool(answer.claims)


def _some(args: tuple[Any, ...], answer: Any) -> bool:
    return bool(answer)


AROUND: dict[str, Point] = {
    "claim.before": Point(("settle_and_claim",), False, _any),
    "claim.after": Point(("settle_and_claim",), True, _claimed),
    "settle.before": Point(("settle_and_claim", "settle"), False, _settles),
    "settle.after": Point(("settle_and_claim", "settle"), True, _settles),
    "extend.before": Point(("extend",), False, _any),
    "extend.after": Point(("extend",), True, _some),
    "reap.before": Point(("reap",), False, _any),
    "reap.after": Point(("reap",), True, _some),  # jobs were taken over and have no verdict yet
    "sweep.after": Point(("settle",), True, _crashes),
    "fire.before": Point(("fire",), False, _any),
    "fire.after": Point(("fire",), True, _some),
    "release.before": Point(("settle_and_claim", "settle"), False, _puts_back),
    "release.after": Point(("settle_and_claim", "settle"), True, _puts_back),
    "remember.before": Point(("store_once",), False, _any),
    "remember.after": Point(("store_once",), True, _any),
    "wait.before": Point(("settle_and_claim", "settle"), False, _waits),
    "wait.after": Point(("settle_and_claim", "settle"), True, _waits),
    "signal.before": Point(("amend",), False, _signals),
    "signal.after": Point(("amend",), True, _signals),
    "fail.after": Point(("settle_and_claim", "settle"), True, _fails),
    "cancel.after": Point(("amend",), True, _cancels),
    "retry.before": Point(("amend",), False, _retries),
    "retry.after": Point(("amend",), True, _retries),
    "tell.before": Point(("arrive",), False, _tells),
    "tell.after": Point(("arrive",), True, _tells),
    "count.before": Point(("arrive",), False, _counts),
    "count.after": Point(("arrive",), True, _counts),
    "add.before": Point(("amend",), False, _adds),
    "add.after": Point(("amend",), True, _adds),
    "enqueue.before": Point(("enqueue",), False, _any),
    "enqueue.after": Point(("enqueue",), True, _any),
}

IN_A_HANDLER = ("run.start", "run.effect")
# statements, by name
IN_A_TRANSACTION = (
    *("claim_take", "settle_succeed", "settle", "reap_take", "fire"),
    *("enqueue_insert_alike", "settle_many", "store_once", "amend_signal"),
)
# of a transaction that claimed or settled something
AT_THE_COMMIT = ("commit.before", "commit.after")
BETWEEN_TWO_STEPS = {
    "nats.acknowledge": "between record and acknowledgement",
    "nats.ticket": "between record and ticket",
    "nats.line": "between consumer and queue",
    "nats.key": "between key and record",
    "nats.free": "between record and key",
}


BETWEEN_DELIVERIES = "tell.between"  # after the first of several dependants


def arm(name: str) -> None:
    """Make this process die at its point."""
    if name == BETWEEN_DELIVERIES:
        _arm_deliveries(name)
    elif name in AROUND:
        _arm_verbs(name, AROUND[name])
    elif name in IN_A_HANDLER:
        Here.deadly = name
    elif name in AT_THE_COMMIT:
        _arm_commit(name)
    elif name.removeprefix("sql.") in IN_A_TRANSACTION:
        _arm_statement(name)
    elif name in BETWEEN_TWO_STEPS:
        _arm_steps(name, BETWEEN_TWO_STEPS[name])
    else:
        raise ValueError(f"no kill point {name!r}")


def _arm_verbs(name: str, point: Point) -> None:
    """Every store that this process opens from now on dies there."""
    opened = StorePool.new

    async def new(self: StorePool, silence: float = SILENCE_S) -> Store:
        store = await opened(self, silence)
        for verb in point.verbs:
            setattr(store, verb, _deadly(name, point, getattr(store, verb)))
        return store

    StorePool.new = new  # type: ignore[method-assign]


def _deadly(name: str, point: Point, act: Callable[..., Any]) -> Callable[..., Any]:
    async def deadly(*args: Any) -> Any:
        if not point.after and point.here(args, None):
            die(name)
        answer = await act(*args)
        if point.after and point.here(args, answer):
            die(name)
        return answer

    return deadly


def _arm_deliveries(name: str) -> None:
    """Every store that this process opens from now on dies after the first of several arrivals."""
    opened = StorePool.new

    async def new(self: StorePool, silence: float = SILENCE_S) -> Store:
        store = await opened(self, silence)
        arrive = store.arrive

        async def deadly(arrivals: Sequence[Arrival]) -> list[Answer]:
            if len(arrivals) > 1 and _tells((arrivals,), None):
                await arrive(arrivals[:1])
                die(name)
            return await arrive(arrivals)

        store.arrive = deadly  # type: ignore[method-assign]
        return store

    StorePool.new = new  # type: ignore[method-assign]


def _arm_steps(name: str, where: str) -> None:
    """Every JetStream store that is opened from now on dies there."""
    # how long until the server writes a ticket that is missing: five seconds outside this test
    nats_records.SAFETY_DELAY_MS = 2000
    nats_repeats.FIRE_BATCH_JOBS = 0  # as if no firing fits into a batch
    opened = NatsStore.open

    async def point(reached: str) -> None:
        if reached == where:
            die(name)

    async def open_deadly(self: NatsStore, *, create: bool = True) -> None:
        await opened(self, create=create)
        self.context.fail_point = point

    NatsStore.open = open_deadly  # type: ignore[method-assign]


def _arm_statement(name: str) -> None:
    statement = name.removeprefix("sql.")

    def dying(context: SqliteContext, ran: str, rows: int) -> None:
        if ran == statement and rows:
            die(name)

    _watch_statements(dying)


def _arm_commit(name: str) -> None:
    """Die just before or just after the commit of a transaction that claimed or settled
    something."""
    worthy = False

    def seen(context: SqliteContext, ran: str, rows: int) -> None:
        nonlocal worthy
        worthy = worthy or (rows > 0 and ran in ("settle_succeed", "settle"))

    class Deadly(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            commits = worthy and sql == "commit"
            if commits and name == "commit.before":
                die(name)
            cursor = super().execute(sql, *values)
            if commits:
                die(name)
            return cursor

    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **options: connect(*args, factory=Deadly, **options)  # type: ignore[assignment]
    _watch_statements(seen)


def _watch_statements(saw: Callable[[SqliteContext, str, int], None]) -> None:
    run, run_many = SqliteContext.run, SqliteContext.run_many

    def watched_run(self: SqliteContext, name: str, /, **values: Any) -> int:
        rows = run(self, name, **values)
        saw(self, name, rows)
        return rows

    def watched_run_many(self: SqliteContext, name: str, rows: Any, shared: Any = ()) -> int:
        changed = run_many(self, name, rows, shared)
        saw(self, name, changed)
        return changed

    SqliteContext.run, SqliteContext.run_many = watched_run, watched_run_many  # type: ignore[method-assign]
