"""A thread of our own with a connection of its own, and the queue of calls that leads to it.

Calls that arrive while a transaction is under way share the next one (one sync to disk for all of them), each inside a
savepoint, so that one that fails undoes only itself.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from mita.errors import StoreError
from mita.ports.clock import Clock

from .connection import connect, prepare, translated
from .lock import FairLock
from .statements import Statements
from .tx import Tx

T = TypeVar("T")
Work = Callable[[Tx], Any]
Ring = Callable[[set[str]], None]

TOGETHER = 64  # calls that share one transaction at most


class _Call:
    """One call on its way to the thread and back."""

    __slots__ = ("error", "future", "loop", "result", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None

    def answer(self) -> None:
        if self.future.done():  # the caller was cancelled; the work is done all the same
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def _answer_all(calls: list[_Call]) -> None:
    for call in calls:
        call.answer()


class Line:
    """`writes=False` makes a line of readers: no transaction of ours, and the lock only to come and to go."""

    def __init__(self, path: Path, sql: Statements, clock: Clock, ring: Ring, *, writes: bool) -> None:
        self._path, self._sql, self._clock, self._ring, self._writes = path, sql, clock, ring, writes
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"mita-sqlite-{'write' if writes else 'read'}", daemon=True)
        self._closed = False
        self._last: _Call
        self._thread.start()

    async def do(self, work: Callable[[Tx], T]) -> T:
        if self._closed:
            raise StoreError(f"{self._path} was closed", transient=False)
        call = _Call(work)
        self._calls.put(call)
        return await call.future  # type: ignore[no-any-return]

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._last = _Call(lambda _: None)
        self._calls.put(None)
        await self._last.future
        self._thread.join()  # it has said its last word

    def _serve(self) -> None:
        connection: sqlite3.Connection | None = None
        lock: FairLock | None = None
        inode = 0
        while (calls := self._next()) is not None:
            try:
                if connection is None or lock is None:
                    connection, lock = self._open()
                    inode = self._path.stat().st_ino
                self._check_file(inode)
                self._run(connection, lock, calls)
            except Exception as error:  # noqa: BLE001 - it is handed to whoever asked
                for call in calls:
                    call.error = self._translated(error)
            self._answer(calls)
        self._leave(connection, lock)
        self._answer([self._last])

    def _open(self) -> tuple[sqlite3.Connection, FairLock]:
        """Under the lock, readers too: two who make a fresh file's write-ahead log at once find it locked."""
        prepare(self._path)
        lock = FairLock(Path(f"{self._path}-lock"))
        try:
            with lock:
                connection = connect(self._path)
        except BaseException:
            lock.close()
            raise
        return connection, lock

    def _check_file(self, inode: int) -> None:
        """A file that was deleted or replaced under us would take jobs that nobody ever finds."""
        try:
            if self._path.stat().st_ino == inode:
                return
        except FileNotFoundError:
            pass
        raise StoreError(
            f"{self._path} was deleted or replaced while it was open: put it back, or restart to use the new one",
            transient=False,
        )

    def _next(self) -> list[_Call] | None:
        calls = [first] if (first := self._calls.get()) is not None else None
        while calls is not None and self._writes and len(calls) < TOGETHER and not self._calls.empty():
            another = self._calls.get()
            if another is None:
                self._calls.put(None)  # finish these first, then leave
                break
            calls.append(another)
        return calls

    def _run(self, connection: sqlite3.Connection, lock: FairLock, calls: list[_Call]) -> None:
        if not self._writes:
            tx = Tx(connection, self._sql, self._clock.now())
            self._attempt(tx, calls[0])
            return
        with lock:
            connection.execute("begin immediate")
            try:
                tx = Tx(connection, self._sql, self._clock.now())
                for call in calls:
                    self._guarded(tx, call, alone=len(calls) == 1)
                if connection.in_transaction:
                    connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        if tx.topics:
            self._ring(tx.topics)

    def _guarded(self, tx: Tx, call: _Call, *, alone: bool) -> None:
        """A call on its own needs no savepoint: the transaction is its own."""
        if not alone:
            tx.connection.execute("savepoint one")
        self._attempt(tx, call)
        if not alone:
            if call.error is not None:
                tx.connection.execute("rollback to one")
            tx.connection.execute("release one")
        elif call.error is not None and tx.connection.in_transaction:  # a full disk ends the transaction by itself
            tx.connection.execute("rollback")

    def _attempt(self, tx: Tx, call: _Call) -> None:
        try:
            call.result = call.work(tx)
        except Exception as error:  # noqa: BLE001 - it is handed to whoever asked
            call.error = self._translated(error)

    def _translated(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error | OSError):
            return error
        ours = translated(error, self._path)
        ours.__cause__ = error
        return ours

    @staticmethod
    def _answer(calls: list[_Call]) -> None:
        """One knock at each loop for all its calls."""
        for loop in {call.loop for call in calls}:
            mine = [call for call in calls if call.loop is loop]
            with suppress(RuntimeError):  # the loop is gone, and with it whoever asked
                loop.call_soon_threadsafe(_answer_all, mine)

    @staticmethod
    def _leave(connection: sqlite3.Connection | None, lock: FairLock | None) -> None:
        """Under the lock: the last one to leave writes the log back into the file, and everybody looks whether he is."""
        if connection is None or lock is None:
            return
        with lock:
            connection.close()
        lock.close()
