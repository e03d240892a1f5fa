"""The SQLite store: open, close, and a table of contents.

Every verb of the contract is one line of the table: `enqueue = written(enqueue.enqueue)`. The verb
itself is a plain function in the file of its name. It takes a context (the connection inside a
transaction, the statements, the store's time) and then the arguments of the contract. `written`
makes a method of it that runs on the thread that writes, `read` one that runs on the thread that
reads. Both keep the names and types of the arguments, so mypy proves that this class fulfils the
contract `mita.ports.store.Store`.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.outcome import ClaimResult, Settlement
from mita.model.time import Wait
from mita.ports.clock import Clock
from mita.ports.pubsub import Subscription
from mita.ports.store import SILENCE, Can
from mita.rules.names import check_namespace
from mita.stores.shared.apart import in_halves

from . import (
    amend,
    aside,
    care,
    claim,
    connection,
    enqueue,
    inspect,
    once,
    pubsub,
    repeats,
    settle,
    timeline,
)
from .clock import FileClock
from .context import Tx
from .line import Line
from .notify import Notifier
from .peek import peek
from .statements import Statements

P = ParamSpec("P")
T = TypeVar("T")


def written(
    verb: Callable[Concatenate[Tx, P], T], *, durable: bool = True
) -> Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]:
    """A method that calls `verb` inside a transaction of the writing thread. `durable`: what it
    wrote is on disk when the method returns."""

    async def method(self: "SqliteStore", /, *args: P.args, **named: P.kwargs) -> T:
        return await self.writer.do(lambda tx: verb(tx, *args, **named), durable=durable)

    update_wrapper(method, verb)
    return method


def read(
    verb: Callable[Concatenate[Tx, P], T],
) -> Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]:
    """A method that calls `verb` on the reading thread."""

    async def method(self: "SqliteStore", /, *args: P.args, **named: P.kwargs) -> T:
        return await self.reader.do(lambda tx: verb(tx, *args, **named))

    update_wrapper(method, verb)
    return method


class SqliteStore:
    """`path` is the database file. The store has two threads: one writes, one reads."""

    can = Can.OBEY_A_FAKE_CLOCK | Can.KEEP_EXACT_ORDER
    silence = SILENCE  # there is no connection that could fall silent
    room: int | None = None

    def __init__(self, path: Path, namespace: str = "mita", clock: Clock | None = None) -> None:
        self._path = path.absolute()  # one file, wherever the process goes
        self._namespace = check_namespace(namespace)
        self._clock = clock

    async def open(self, *, create: bool = True) -> None:
        """Start the threads. `create`: make the file and bring its schema up to date first."""
        if not create:
            await asyncio.to_thread(peek, self._path, self._namespace)
        self._notifier = Notifier(self._path)
        self.writer = self._thread(writes=True)
        self.reader = self._thread(writes=False)
        self._subscriptions = pubsub.Subscriptions(self._path, self.writer, self.reader)
        try:
            if create:
                await self.migrate()
            self.room = await self.writer.do(
                lambda tx: connection.room(tx.connection), durable=False
            )
        except BaseException:
            await self.close()
            raise

    def _thread(self, *, writes: bool) -> Line:
        sql = Statements(self._namespace)
        clock = FileClock(self._path, sql, self._clock)
        return Line(self._path, sql, clock, self._notifier.ring, writes=writes)

    async def close(self) -> None:
        """End what `open` started."""
        await self._subscriptions.close()
        self._notifier.close()
        await self.reader.close()
        await self.writer.close()

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        """Both in one transaction. If that is rejected, the settlements are written apart."""
        if not settlements:
            return await self.claim(queues, limit, lease, worker)
        try:
            return await self._settle_and_claim(settlements, queues, limit, lease, worker)
        except Rejected:
            took = await self.settle(settlements)
        return replace(await self.claim(queues, limit, lease, worker), took=took)

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a notification of another store, in this process or in another."""
        return await self._notifier.wait(queues, timeout)

    async def subscribe(self, queue: str | None) -> Subscription:
        """Receive the events of a queue, or of all queues."""
        return await self._subscriptions.subscribe(queue)

    # jobs
    _settle_and_claim = written(claim.settle_and_claim)
    enqueue = written(enqueue.enqueue)
    extend = written(claim.extend, durable=False)
    reap = written(claim.reap, durable=False)
    claim = written(claim.claim, durable=False)
    settle = in_halves(written(settle.settle))
    amend = written(amend.amend)
    progress = written(once.progress)
    load_once = read(once.load_once)
    store_once = written(once.store_once)
    # repeats
    put_repeat = written(repeats.put_repeat)
    remove_repeats = written(repeats.remove_repeats)
    pause_repeats = written(repeats.pause_repeats)
    resume_repeats = written(repeats.resume_repeats)
    due_repeats = read(repeats.due_repeats)
    fire = written(repeats.fire)
    list_repeats = read(repeats.list_repeats)
    find_repeats = read(repeats.find_repeats)
    lock = written(repeats.lock, durable=False)
    unlock = written(repeats.unlock)
    # inspect
    now = read(inspect.now)
    queue_names = read(inspect.queue_names)
    queues = read(inspect.queues)
    page = read(inspect.page)
    find = read(inspect.find)
    raw = read(aside.raw)
    timeline = read(timeline.timeline)
    ahead = read(inspect.ahead)
    workers = read(inspect.workers)
    resources = read(inspect.resources)
    # control
    pause = written(care.pause)
    resume = written(care.resume)
    hold = written(care.hold)
    beat = written(care.beat, durable=False)
    leave = written(care.leave)
    # maintenance
    prune = written(care.prune)
    migrate = written(care.migrate)
    doctor = read(care.doctor)
    # events
    publish = written(pubsub.publish, durable=False)
    subscribed_queues = read(pubsub.subscribed_queues)
