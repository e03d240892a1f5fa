"""A thread with its own connection, and the queue of calls that leads to it.

    event loop                   thread that writes
    ----------                   ------------------
    call A ──► queue ─┐
    call B ──► queue ─┼──► take the file lock · begin
    call C ──► queue ─┘        savepoint  A  release   (an error undoes A alone)
                               savepoint  B  release
                               savepoint  C  release
                             commit (one sync to disk for all) · release the lock
      results ◄───────────── notify waiting stores · answer each event loop once

Calls that arrive during a transaction share the next one. A call that is alone needs no savepoint.

Some writes need no sync, because nothing was promised to a caller: a claim, an extended lease, a
heartbeat. The operating system has them when the call returns, so they survive the death of the
process. If the whole machine dies, the workers die with it.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from mita import forks
from mita.errors import StoreError
from mita.stores.sqlite import connection, maintenance
from mita.stores.sqlite.context import SqliteContext, VerbCall, set_results
from mita.stores.sqlite.file.file_clock import FileClock
from mita.stores.sqlite.file.statements import Statements

from .file_lock import FileLock
from .fork_pause import ForkPause

T = TypeVar("T")

TRANSACTION_CALLS = 64
LOCK_TIMEOUT_S = 30.0  # a call that waits longer than this for the lock fails


class ConnectionThread:
    """Runs verbs, one after the other, each with a context. `writes=False`: the thread has no
    transactions, and takes the file lock only to open and to close its connection."""

    def __init__(
        self,
        path: Path,
        sql: Statements,
        clock: FileClock,
        notify: Callable[[set[str]], None],
        *,
        writes: bool,
    ) -> None:
        self._path, self._sql, self._clock = path, sql, clock
        self._notify, self._writes = notify, writes
        self._calls: queue.SimpleQueue[VerbCall | ForkPause] = queue.SimpleQueue()
        self._closed = False
        self._lock: FileLock | None = None
        self._waits_for_lock = False  # read on the event loop
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._room = 0
        self._durable = True  # the connection syncs its commits to disk
        self._thread = threading.Thread(
            target=self._serve, name=f"mita-sqlite-{'write' if writes else 'read'}", daemon=True
        )
        self._fork_pause = ForkPause(self._thread, self._calls.put)
        self._thread.start()
        forks.paused(self._fork_pause)

    # ------------------------------------------------------------ on the event loop

    async def call(
        self,
        verb: Callable[..., T],
        args: tuple[Any, ...] = (),
        named: Mapping[str, Any] | None = None,
        *,
        durable: bool = True,
    ) -> T:
        """Run `verb(context, *args, **named)` on the thread. `durable`: what it wrote is on disk
        when this returns."""
        if self._closed or self._fork_pause.in_child:
            raise self._unusable()
        loop = asyncio.get_running_loop()
        call = VerbCall(verb, args, named or {}, durable, loop, loop.create_future())
        self._calls.put(call)
        timer = loop.call_later(LOCK_TIMEOUT_S, self._check_lock, call)
        try:
            result: T = await call.future
        finally:
            timer.cancel()
        return result

    def _unusable(self) -> StoreError:
        what = (
            "was closed"
            if self._closed
            else "was opened before this process was forked: open it again"
        )
        return StoreError(f"{self._path} {what}", transient=False)

    def _check_lock(self, call: VerbCall) -> None:
        """A process that is stopped inside a transaction keeps the lock for as long as it is
        stopped; the kernel has no limit. So a call that waits for the lock is given up."""
        if call.future.done():
            return
        if not self._waits_for_lock:
            call.loop.call_later(LOCK_TIMEOUT_S, self._check_lock, call)
            return
        call.given_up = True  # the caller gets an error, so the call must not be made later
        call.future.set_exception(
            StoreError(
                f"{self._path}: another process has kept the lock {self._path}-lock for "
                f"{LOCK_TIMEOUT_S:g} s. Is one stopped (Ctrl-Z, SIGSTOP, a debugger)? Let it go "
                "on, or end it",
                transient=True,
            )
        )

    async def close(self) -> None:
        """Finish the calls that wait, close the connection and end the thread."""
        if self._closed:
            return
        last = asyncio.ensure_future(self.call(_end_thread))
        await asyncio.sleep(0)  # now it is in the queue
        self._closed = True
        with suppress(StoreError):
            await last
            self._thread.join()  # this was the last thing that it did

    # ------------------------------------------------------------ on the thread

    def _serve(self) -> None:
        is_open = True
        while is_open:
            calls = self._next_calls()
            if self._fork_pause.wanted:
                self._disconnect()
                self._fork_pause.wait_for_fork()
            if not calls:
                continue
            if calls[0].verb is _end_thread:
                self._disconnect()
                is_open = False
            else:
                self._run_calls(calls)
            for loop in {call.loop for call in calls}:  # each event loop is woken once
                mine = [call for call in calls if call.loop is loop]
                with suppress(RuntimeError):  # the loop is closed, and the caller is gone with it
                    loop.call_soon_threadsafe(set_results, mine)

    def _run_calls(self, calls: list[VerbCall]) -> None:
        """Run the calls, on a connection to the same file as ever: jobs that are written to a file
        that was deleted or replaced would be lost."""
        try:
            if self._connection is None:
                self._connect()
            if self._path.stat().st_ino != self._inode:
                raise self._replaced()
            if self._writes:
                self._write(calls)
            elif self._connection is not None:
                now = self._clock.now(self._connection, writes=False)
                parts = (self._connection, self._sql, self._path, self._room, now)
                self._run(SqliteContext(*parts), calls[0])
        except FileNotFoundError:
            for call in calls:
                call.error = self._replaced()
        except Exception as error:  # noqa: BLE001 - the callers get it
            for call in calls:
                call.error = connection.translated(error, self._path)

    def _replaced(self) -> StoreError:
        return StoreError(
            f"deleted or replaced while it was open: {self._path}. Put the file back, or restart "
            "to use the new one",
            transient=False,
        )

    def _next_calls(self) -> list[VerbCall]:
        """Wait for a call, and take the calls behind it. Empty: the process is about to
        fork."""
        first = self._calls.get()
        if isinstance(first, ForkPause):
            return []
        calls = [first]
        while self._writes and len(calls) < TRANSACTION_CALLS and not self._calls.empty():
            another = self._calls.get()
            if isinstance(another, VerbCall):
                if another.verb is _end_thread:
                    self._calls.put(another)  # these calls first
                    break
                calls.append(another)
        return calls

    def _connect(self) -> None:
        """Under the lock, for readers too: two connections that create the write-ahead log of a new
        file at the same time find it locked."""
        connection.prepare(self._path)
        if self._writes:
            self._sql.load()
        self._lock = self._lock or FileLock(Path(f"{self._path}-lock"))
        self._waits_for_lock = True
        self._lock.acquire()
        self._waits_for_lock = False
        try:
            self._connection = connection.connect(self._path)
        finally:
            self._lock.release()
        self._durable = True
        self._room = connection.room(self._connection)
        self._inode = self._inode or self._path.stat().st_ino

    def _disconnect(self) -> None:
        """Under the lock: the last connection to close writes the log back into the file."""
        if self._lock is None:
            return
        if self._connection is not None:
            self._waits_for_lock = True
            self._lock.acquire()
            self._waits_for_lock = False
            try:
                self._connection.close()
            finally:
                self._lock.release()
            self._connection = None
        self._lock.close()
        self._lock = None

    def _write(self, calls: list[VerbCall]) -> None:
        """Run the calls in one transaction."""
        database, lock = self._connection, self._lock
        assert database is not None and lock is not None  # noqa: S101, PT018
        self._waits_for_lock = True
        lock.acquire()
        self._waits_for_lock = False
        try:
            wanted = [call for call in calls if not call.given_up]
            durable = any(call.durable for call in wanted)
            if durable is not self._durable:
                # a commit with a sync also takes everything to disk that was written before it
                database.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
                self._durable = durable
            database.execute("begin immediate")
            try:
                now = self._clock.now(database, writes=True)
                context = SqliteContext(database, self._sql, self._path, self._room, now)
                alone = len(wanted) == 1  # then the transaction is its savepoint
                for call in wanted:
                    if not alone:
                        database.execute("savepoint one")
                    self._run(context, call)
                    if call.error is not None:
                        self._recover(context, call, alone=alone)
                    if not alone:
                        database.execute("release one")
                if database.in_transaction:
                    database.execute("commit")
            finally:
                if database.in_transaction:
                    database.execute("rollback")
        finally:
            lock.release()
        if context.topics:
            self._notify(context.topics)

    def _recover(self, context: SqliteContext, call: VerbCall, *, alone: bool) -> None:
        """Undo a call that failed, and no other call. If it failed because of records that cannot
        be read, set them aside and run it once more."""
        database = context.connection
        undo = "rollback" if alone else "rollback to one"
        if call.error is not None and maintenance.may_be_a_record(call.error):
            database.execute(undo)
            if alone:
                database.execute("begin immediate")
                context.now = self._clock.now(database, writes=True)
            if maintenance.set_aside(context):
                call.error = None
                self._run(context, call)
        if call.error is not None and database.in_transaction:  # a full disk ends it by itself
            database.execute(undo)

    def _run(self, context: SqliteContext, call: VerbCall) -> None:
        try:
            call.result = call.verb(context, *call.args, **call.named)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            call.error = connection.translated(error, self._path)


def _end_thread(_: SqliteContext) -> None:
    """The last call of a thread."""
