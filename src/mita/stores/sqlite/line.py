"""A thread of our own with a connection of its own, and the queue of calls that leads to it.

Calls that arrive while a transaction is under way share the next one (one sync to disk for all of
them), each inside a savepoint, so that one that fails undoes only itself.

What nobody was promised needs no sync: a claim, a longer lease, a worker's beat. They are in the
operating system's hands when the call returns, so no dying process takes them along; when the whole
machine dies, whoever held them dies with it."""

import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from mita.errors import Rejected, StoreError

from . import aside, connection
from .call import Call, answer
from .clock import FileClock
from .context import Tx
from .lock import FairLock
from .rest import Rest
from .statements import Statements

T = TypeVar("T")
Ring = Callable[[set[str]], None]

TOGETHER = 64  # calls that share one transaction at most


class Line:
    """`writes=False` makes a line of readers: no transaction of ours, and the lock only to come and
    to go."""

    def __init__(
        self, path: Path, sql: Statements, clock: FileClock, ring: Ring, *, writes: bool
    ) -> None:
        self._path, self._sql, self._clock, self._ring, self._writes = (
            path,
            sql,
            clock,
            ring,
            writes,
        )
        self._calls: queue.SimpleQueue[Call | Rest | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._serve, name=f"mita-sqlite-{'write' if writes else 'read'}", daemon=True
        )
        self._closed = False
        self._patience = FairLock.patience
        self._lock: FairLock | None = None
        self._syncs = True
        self._last: Call
        self._thread.start()
        self._rest = Rest(self._thread, self._calls.put)

    async def do(self, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        """`durable`: what was written is on disk when this returns."""
        if self._closed:
            raise StoreError(f"{self._path} was closed", transient=False)
        if self._rest.in_child:
            raise StoreError(
                f"{self._path} was opened before this process was forked: open it again",
                transient=False,
            )
        call = Call(work, durable)
        self._calls.put(call)
        result: T = await call.answered(self._patience, self._stuck)
        return result

    def _stuck(self) -> StoreError | None:
        """Somebody who stopped inside a transaction keeps the lock for as long as that lasts; the
        kernel knows no limit."""
        if self._lock is None or not self._lock.waiting:
            return None
        return StoreError(
            f"{self._path}: another process has kept the lock {self._path}-lock for "
            f"{self._patience:g} s. "
            "Is one stopped (Ctrl-Z, SIGSTOP, a debugger)? Let it go on, or end it",
            transient=True,
        )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._last = Call(lambda _: None)
        self._calls.put(None)
        with suppress(StoreError):
            await self._last.answered(self._patience, self._stuck)
            self._thread.join()  # it has said its last word

    # ------------------------------------------------------------ the thread

    def _serve(self) -> None:
        database: sqlite3.Connection | None = None
        inode = 0
        while (calls := self._next()) is not None:
            if self._rest.wanted:
                self._leave(database)
                database = None
                self._rest.take()
            if not calls:
                continue
            try:
                if database is None or self._lock is None:
                    database, self._lock = self._open()
                    inode = inode or self._path.stat().st_ino
                self._check_file(inode)
                self._run(database, self._lock, calls)
            except Exception as error:  # noqa: BLE001 - it is handed to whoever asked
                for call in calls:
                    call.error = self._translated(error)
            answer(calls)
        self._leave(database)
        answer([self._last])

    def _open(self) -> tuple[sqlite3.Connection, FairLock]:
        """Under the lock, readers too: two who make a fresh file's write-ahead log at once find it
        locked."""
        connection.prepare(self._path)
        lock = self._lock = self._lock or FairLock(Path(f"{self._path}-lock"))
        with lock:
            return connection.connect(self._path), lock

    def _check_file(self, inode: int) -> None:
        """A file that was deleted or replaced under us would take jobs that nobody ever finds."""
        try:
            if self._path.stat().st_ino == inode:
                return
        except FileNotFoundError:
            pass
        raise StoreError(
            f"deleted or replaced while it was open: {self._path}. Put the file back, or restart "
            "to use the new one",
            transient=False,
        )

    def _next(self) -> list[Call] | None:
        """None: leave. An empty list: somebody is about to fork."""
        first = self._calls.get()
        if first is None or isinstance(first, Rest):
            return None if first is None else []
        calls = [first]
        while self._writes and len(calls) < TOGETHER and not self._calls.empty():
            another = self._calls.get()
            if another is None:
                self._calls.put(None)  # finish these first, then leave
                break
            if isinstance(another, Call):
                calls.append(another)
        return calls

    def _run(self, database: sqlite3.Connection, lock: FairLock, calls: list[Call]) -> None:
        if not self._writes:
            self._attempt(
                Tx(database, self._path, self._sql, self._clock.shown(database)), calls[0]
            )
            return
        with lock:
            wanted = [call for call in calls if not call.given_up]
            self._sync(database, any(call.durable for call in wanted))
            database.execute("begin immediate")
            try:
                tx = Tx(database, self._path, self._sql, self._clock.followed(database))
                for call in wanted:
                    self._guarded(tx, call, alone=len(wanted) == 1)
                if database.in_transaction:
                    database.execute("commit")
            except BaseException:
                if database.in_transaction:
                    database.execute("rollback")
                raise
        if tx.topics:
            self._ring(tx.topics)

    def _sync(self, database: sqlite3.Connection, wanted: bool) -> None:
        """A commit with a sync takes all that was written before it to disk too, so order is
        kept."""
        if wanted is not self._syncs:
            database.execute(f"pragma synchronous = {'full' if wanted else 'normal'}")
            self._syncs = wanted

    def _guarded(self, tx: Tx, call: Call, *, alone: bool) -> None:
        """A call on its own needs no savepoint: the transaction is its own."""
        if not alone:
            tx.connection.execute("savepoint one")
        self._attempt(tx, call)
        if call.error is not None and aside.may_be_a_record(call.error):
            self._set_aside(tx, call, alone=alone)
        if not alone:
            if call.error is not None:
                tx.connection.execute("rollback to one")
            tx.connection.execute("release one")
        elif call.error is not None and tx.connection.in_transaction:
            # a full disk ends the transaction by itself
            tx.connection.execute("rollback")

    def _set_aside(self, tx: Tx, call: Call, *, alone: bool) -> None:
        """The call may have met records that cannot be read: they are set aside, and it is done
        again."""
        if alone:
            tx.connection.execute("rollback")
            tx.connection.execute("begin immediate")
            tx.now = self._clock.followed(tx.connection)
        else:
            tx.connection.execute("rollback to one")
        if aside.set_aside(tx):
            call.error = None
            self._attempt(tx, call)

    def _attempt(self, tx: Tx, call: Call) -> None:
        try:
            call.result = call.work(tx)
        except Exception as error:  # noqa: BLE001 - it is handed to whoever asked
            call.error = self._translated(error)

    def _translated(self, error: Exception) -> Exception:
        ours: Exception
        # what the driver raises for a value that does not fit
        if isinstance(error, OverflowError | UnicodeEncodeError):
            ours = Rejected(f"{self._path}: {error}")
        elif isinstance(error, sqlite3.Error | OSError):
            ours = connection.translated(error, self._path)
        else:
            return error
        ours.__cause__ = error
        return ours

    def _leave(self, database: sqlite3.Connection | None) -> None:
        """Under the lock: the last one to leave writes the log back into the file, and everybody
        looks whether he is."""
        if self._lock is None:
            return
        if database is not None:
            with self._lock:
                database.close()
        self._lock.close()
        self._lock = None
