"""The PostgreSQL store: open, close, and a table of contents.

Every verb of the contract is one line of the table: `extend = on_work(leases.extend)`. The verb
itself is a generator in the file of its name (`context.py` says how it is written). It takes a
context and then the arguments of the contract. `on_work`, `on_short` and `on_read` make methods
that run it on one of the store's connections. They keep the names and types of the arguments, so
mypy proves that this class fulfils the contract `mita.ports.store.Store`.

The connections: `_work` claims, settles and extends leases; `_beside` claims while `_work` settles,
under load; `_short` runs what is short (enqueue, amend, heartbeats); `_read` runs reads that may
take long, so that a page of a million jobs delays no heartbeat. Each connects at its first call."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import NewJob, Receipt
from mita.model.outcome import ClaimResult, Settlement
from mita.model.time import Wait
from mita.ports.clock import Clock
from mita.ports.pubsub import Subscription
from mita.ports.store import SILENCE_S, Can
from mita.rules.names import check_namespace
from mita.stores.shared import room as rooms
from mita.stores.shared.apart import in_halves

from . import (
    amend,
    audit,
    claim,
    control,
    doctor,
    enqueue,
    history,
    inspect,
    leases,
    maintenance,
    once,
    pubsub,
    repeats,
    settle,
)
from .connection import SerialConnection
from .context import PostgresContext, RoundTrips, StoreState
from .notify import PostgresNotifier
from .server import arrays
from .server.connect import READ_SETTINGS, SCAN_TIMEOUT_S, WORK_SETTINGS, parse
from .server.migrate import Schema
from .server.statements import PostgresStatements
from .throughput.enqueue_batcher import EnqueueBatcher
from .throughput.parallel_turn import ParallelTurn
from .transaction.commit_watcher import CommitWatcher
from .transaction.verbs import UserTransactionVerbs

P = ParamSpec("P")
T = TypeVar("T")
Verb: TypeAlias = Callable[Concatenate[PostgresContext, P], RoundTrips[T]]
Method: TypeAlias = Callable[Concatenate["PostgresStore", P], Coroutine[Any, Any, T]]
RESERVED_BYTES = 1024  # of an array, for all but the arguments or the result of a job


def on_work(verb: Verb[P, T]) -> Method[P, T]:
    """A method that runs `verb` on the connection of workers."""
    return _method(verb, lambda store: store._work, repeatable=True)  # noqa: SLF001


def on_short(verb: Verb[P, T], *, repeatable: bool = True) -> Method[P, T]:
    """A method that runs `verb` on the connection for what is short. `repeatable`: running it twice
    has the same effect as once."""
    return _method(verb, lambda store: store._short, repeatable=repeatable)  # noqa: SLF001


def on_read(verb: Verb[P, T]) -> Method[P, T]:
    """A method that runs `verb` on the connection for reads that may take long."""
    return _method(verb, lambda store: store._read, repeatable=True)  # noqa: SLF001


def _method(
    verb: Verb[P, T],
    connection: Callable[["PostgresStore"], SerialConnection],
    *,
    repeatable: bool,
) -> Method[P, T]:
    async def method(self: "PostgresStore", /, *args: P.args, **named: P.kwargs) -> T:
        return await connection(self).run(
            lambda context: verb(context, *args, **named), repeatable=repeatable
        )

    update_wrapper(method, verb)
    return method


class PostgresStore(UserTransactionVerbs):
    """`url` is a libpq URL. The namespace is a schema. `clock` is for tests; without it the
    server's clock counts."""

    can = (
        Can.OBEY_A_FAKE_CLOCK
        | Can.KEEP_EXACT_ORDER
        | Can.SHARE_EXACTLY
        | Can.ENQUEUE_IN_YOUR_TRANSACTION
        | Can.ENQUEUE_AT_ONCE
        | Can.TELL_AT_ONCE
    )
    silence = SILENCE_S

    # jobs
    settle = in_halves(on_work(settle.settle))
    claim = on_work(claim.claim)
    extend = on_work(leases.extend)
    reap = on_work(leases.reap)
    arrive = on_short(amend.arrive)
    amend = on_short(amend.amend, repeatable=False)
    progress = on_short(once.progress)
    load_once = on_short(once.load_once)
    store_once = on_short(once.store_once)
    once_values = on_short(once.once_values)
    # repeats
    put_repeat = on_short(repeats.put_repeat)
    remove_repeats = on_short(repeats.remove_repeats, repeatable=False)
    pause_repeats = on_short(repeats.pause_repeats, repeatable=False)
    resume_repeats = on_short(repeats.resume_repeats, repeatable=False)
    report_repeat = on_short(repeats.report_repeat, repeatable=False)
    due_repeats = on_short(repeats.due_repeats)
    fire = on_short(repeats.fire, repeatable=False)
    list_repeats = on_short(repeats.list_repeats)
    find_repeats = on_short(repeats.find_repeats)
    lock = on_short(repeats.lock)
    unlock = on_short(repeats.unlock)
    # inspect
    now = on_short(inspect.now)
    queue_names = on_short(inspect.queue_names)
    queues = on_read(inspect.queues)
    page = on_read(inspect.page)
    dead_groups = on_read(inspect.dead_groups)
    find = on_short(inspect.find)
    raw = on_read(maintenance.raw)
    timeline = on_short(inspect.timeline)
    ahead = on_read(inspect.ahead)
    workers = on_short(inspect.workers)
    resources = on_read(inspect.resources)
    # control
    pause = on_short(control.pause)
    resume = on_short(control.resume)
    hold = on_short(control.hold)
    limit = on_short(control.limit)
    beat = on_short(control.beat)
    leave = on_short(control.leave)
    record_audit = on_short(audit.record_audit)
    audit_page = on_read(audit.audit_page)
    # maintenance
    prune = on_short(maintenance.prune)
    doctor = on_read(doctor.doctor)
    # events
    publish = on_short(pubsub.publish, repeatable=False)
    subscribed_queues = on_short(pubsub.subscribed_queues)
    # history
    count_runs = on_short(history.count_runs, repeatable=False)
    run_history = on_read(history.run_history)

    @property
    def room(self) -> int:
        """The largest arguments or result of a job, in bytes."""
        return arrays.LARGEST_ARRAY_CHARS // 2 - RESERVED_BYTES

    def __init__(self, url: str, *, namespace: str = "mita", clock: Clock | None = None) -> None:
        params, named = parse(url)
        space = check_namespace(named if named is not None and namespace == "mita" else namespace)
        statements = PostgresStatements(space, given_clock=clock is not None)
        self._state = StoreState(params, statements, clock)

    @property
    def ageing(self) -> Wait | None:
        """How long a job waits until it has risen by one priority; None: never."""
        return self._state.hints.ageing

    @ageing.setter
    def ageing(self, ageing: Wait | None) -> None:
        self._state.hints.ageing = ageing

    async def open(self, *, create: bool = True) -> None:
        """Connect and bring the schema up to date. Without `create`, raise unless it is."""
        self._state.silence = self.silence
        self._work = SerialConnection(self._state, WORK_SETTINGS)
        self._beside = SerialConnection(self._state, WORK_SETTINGS)
        self._short = SerialConnection(self._state, WORK_SETTINGS)
        self._read = SerialConnection(self._state, READ_SETTINGS, SCAN_TIMEOUT_S)
        self._turn = ParallelTurn(self._work, self._beside, self._state.hints)
        self._batcher = EnqueueBatcher(self._enqueue_together)
        self._subscriptions = pubsub.PostgresSubscriptions(self._state, self._short, self._read)
        self._notifier = PostgresNotifier(self._state)
        self._state.notify = self._notifier.notify
        self._commits = CommitWatcher(self._short, self._notifier.notify)
        self._state.identity.opened(self._ask_identity)
        try:
            schema = await self._schema()
            await (schema.migrate(removing=False) if create else schema.check())
        except BaseException:
            await self.close()
            raise

    async def _schema(self) -> Schema:
        connection = await self._short.connected()
        return Schema(connection, self._state.params, self._state.statements)

    async def close(self) -> None:
        """End what `open` started."""
        self._state.identity.closed()
        await self._subscriptions.close()
        if self._commits is not None:
            await self._commits.close()
        connections = (self._work, self._beside, self._short, self._read)
        await asyncio.gather(*(connection.close() for connection in connections))
        await self._notifier.close()

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Enqueue jobs, together with those of other callers that wait."""
        if not jobs:
            return []
        receipts: list[Receipt] = []
        for part in rooms.parts(jobs, self.room):
            receipts += await self._batcher.enqueue(part)
        return receipts

    async def _enqueue_together(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        return await self._short.run(
            lambda context: enqueue.enqueue(context, jobs), repeatable=True
        )

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        """Settle runs and claim the next jobs. If that is rejected, first settle in halves."""
        try:
            return await self._turn.settle_and_claim(settlements, queues, limit, lease, worker)
        except Rejected:
            if not settlements:
                raise
            took = await self.settle(settlements)
        return replace(await self.claim(queues, limit, lease, worker), took=took)

    async def migrate(self) -> list[str]:
        """Run the missing migrations, also the ones that remove. Returns their names."""
        return await (await self._schema()).migrate(removing=True)

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a wake-up of these queues."""
        return await self._notifier.wait(queues, timeout)

    async def subscribe(self, queue: str | None) -> Subscription:
        """Receive the events of a queue, or of all queues."""
        return await self._subscriptions.subscribe(queue)
