"""The SQLite store: open, close, and a table of contents.

Every verb of the contract is one line of the table: `enqueue = written(enqueue.enqueue)`. The verb
itself is a plain function in the file of its name. It takes a context (the connection inside a
transaction, the statements, the store's time) and then the arguments of the contract. `written`
makes a method of it that runs on the thread that writes, `read` one that runs on the thread that
reads. A verb that is not one transaction is an async function that takes the store. All keep the
names and types of the arguments, so mypy proves that this class fulfils the contract
`mita.ports.store.Store`.
"""

import asyncio
from pathlib import Path

from mita.model.time import Wait
from mita.ports.clock import Clock
from mita.ports.store import SILENCE_S, Can
from mita.rules.names import check_namespace

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
    notify,
    once,
    pubsub,
    repeats,
    settle,
)
from .context import read, written
from .file.existing import check_existing
from .file.file_clock import FileClock
from .file.statements import Statements
from .thread.connection_thread import ConnectionThread


class SqliteStore:
    """`path` is the database file. The store has two threads: one writes, one reads."""

    can = (
        Can.OBEY_A_FAKE_CLOCK
        | Can.KEEP_EXACT_ORDER
        | Can.SHARE_EXACTLY
        | Can.ENQUEUE_AT_ONCE
        | Can.TELL_AT_ONCE
        | Can.TELL_WITH_SETTLE
    )
    silence = SILENCE_S  # there is no connection that could fall silent
    ageing: Wait | None = None
    room: int | None = None

    def __init__(self, path: Path, namespace: str = "mita", clock: Clock | None = None) -> None:
        self._path = path.absolute()  # the process may change its directory
        self._namespace = check_namespace(namespace)
        self._clock = clock

    async def open(self, *, create: bool = True) -> None:
        """Start the threads. `create`: create the file and bring its schema up to date."""
        if not create:
            await asyncio.to_thread(check_existing, self._path, self._namespace)
        self.notifier = notify.SqliteNotifier(self._path)
        self.writer, self.reader = self._thread(writes=True), self._thread(writes=False)
        self.subscriptions = pubsub.Subscriptions(self._path, self.writer, self.reader)
        try:
            if create:
                await self.migrate()
            self.room = await self.writer.call(lambda context: context.room, durable=False)
        except BaseException:
            await self.close()
            raise

    def _thread(self, *, writes: bool) -> ConnectionThread:
        sql = Statements(self._namespace)
        clock = FileClock(self._path, sql, self._clock)
        return ConnectionThread(self._path, sql, clock, self.notifier.notify, writes=writes)

    async def close(self) -> None:
        """End the subscriptions and the threads."""
        await self.subscriptions.close()
        self.notifier.close()
        await self.reader.close()
        await self.writer.close()

    wait = notify.wait
    subscribe = pubsub.subscribe

    enqueue = written(enqueue.enqueue)
    settle_and_claim = claim.settle_and_claim
    claim = claim.claim
    settle = settle.settle
    extend = written(leases.extend, durable=False)
    reap = written(leases.reap, durable=False)
    arrive = written(amend.arrive)
    amend = written(amend.amend)
    progress = written(once.progress)
    load_once = read(once.load_once)
    store_once = written(once.store_once)
    once_values = read(once.once_values)

    put_repeat = written(repeats.put_repeat)
    remove_repeats = written(repeats.remove_repeats)
    pause_repeats = written(repeats.pause_repeats)
    resume_repeats = written(repeats.resume_repeats)
    report_repeat = written(repeats.report_repeat)
    due_repeats = read(repeats.due_repeats)
    fire = written(repeats.fire)
    list_repeats = read(repeats.list_repeats)
    find_repeats = read(repeats.find_repeats)
    lock = written(repeats.lock, durable=False)
    unlock = written(repeats.unlock)

    now = read(inspect.now)
    queue_names = read(inspect.queue_names)
    queues = read(inspect.queues)
    page = read(inspect.page)
    dead_groups = read(inspect.dead_groups)
    find = read(inspect.find)
    raw = read(inspect.raw)
    timeline = read(inspect.timeline)
    ahead = inspect.ahead
    resources = read(inspect.resources)

    pause = written(control.pause)
    resume = written(control.resume)
    hold = written(control.hold)
    limit = written(control.limit)
    beat = written(control.beat, durable=False)
    leave = written(control.leave)
    record_audit = written(audit.record_audit)
    audit_page = read(audit.audit_page)
    workers = read(inspect.workers)

    prune = written(maintenance.prune)
    migrate = written(maintenance.migrate)
    doctor = read(doctor.doctor)

    publish = written(pubsub.publish, durable=False)
    subscribed_queues = read(pubsub.subscribed_queues)

    count_runs = written(history.count_runs, durable=False)
    run_history = read(history.run_history)
