"""Inside a handler process: runs one job after the other, and asks the worker for everything that
needs the store."""

import itertools
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from typing import Any, TypeVar

from mita import errors, traces
from mita.errors import MitaError, StoreAway, StoreError, UsageError
from mita.model.ending import Ending, Unknown
from mita.model.job import NewJob
from mita.model.time import Wait
from mita.ports.store import Store
from mita.ports.transactional import completing
from mita.rules.judge import Retention
from mita.tasks import Task
from mita.tasks.injection import Wiring

from .execution import Execution
from .frames import (
    HEAD,
    AskForChild,
    Completed,
    Completing,
    FromChild,
    LoadOnce,
    LoadOnceValues,
    ReleaseOnce,
    Reply,
    ReportProgress,
    Request,
    RequestBody,
    RunBegan,
    RunEnded,
    RunJob,
    StartChild,
    StopRun,
    StoreOnce,
    TakeOnce,
    ToChild,
    length,
    pack,
    read_values,
    to_child,
)
from .run import run_sync
from .run_context import RunContext, Stop
from .shared_values import ProcessValues, drive

T = TypeVar("T")

EXIT_TIMEOUT_S = 2.0  # for an idle process to end normally when its worker is gone

_inside = False


def is_inside() -> bool:
    """Whether this process is a handler process."""
    return _inside


def enter() -> None:
    """From now on this process is a handler process."""
    global _inside  # noqa: PLW0603 - it is a fact about the whole process
    _inside = True


class Connection:
    """The socket to the worker. Any thread may use it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._asked: dict[int, queue.SimpleQueue[Reply]] = {}

    def send(self, frame: FromChild) -> None:
        """Send one frame."""
        with self._sending:
            self._socket.sendall(pack(frame))

    def receive(self) -> ToChild | None:
        """Returns the next frame; None if the worker is gone."""
        head = self._read(HEAD)
        body = None if head is None else self._read(length(head))
        return None if body is None else to_child.decode(body)

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._socket.recv(min(size - len(data), 1 << 20))
            except OSError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def ask(self, question: RequestBody) -> bytes | None:
        """Send a request and wait for the reply. Returns its value; raises its error."""
        number, answers = next(self._numbers), queue.SimpleQueue[Reply]()
        self._asked[number] = answers
        self.send(Request(number, question))
        answer = answers.get()
        if answer.error:
            raise _error(answer)
        return answer.value

    def answered(self, answer: Reply) -> None:
        """Hand a reply to the thread that waits for it."""
        self._asked.pop(answer.number).put(answer)


def _error(answer: Reply) -> MitaError:
    """Returns an error of the same class. It is made without its arguments: the text already has
    them."""
    kind: type[MitaError] = getattr(errors, answer.error, MitaError)
    error = kind.__new__(kind)
    error.args = (answer.text,)
    if isinstance(error, StoreError):
        error.transient = isinstance(error, StoreAway)
    return error


class RemoteRunContext(RunContext):
    """What all runs of a handler process share. It has no event loop. It opens a store only when a
    handler completes its job in its own transaction."""

    __slots__ = ("connection", "open_store")

    def __init__(
        self,
        connection: Connection,
        keep: Retention,
        room: int | None,
        open_store: Callable[[], Store],
        tasks: Mapping[str, Task[Any, Any]],
        wiring: Wiring,
    ) -> None:
        self.connection, self.keep, self.room, self.open_store = connection, keep, room, open_store
        self.tasks = tasks
        self.shared = ProcessValues(wiring)
        self.lease = 0  # the worker keeps the locks
        self.tracer = None  # the worker makes the span of a run


class RemoteExecution(Execution):
    """One run in a handler process; the handler's `Job` uses it as its `Run`."""

    @property
    def _connection(self) -> Connection:
        assert isinstance(self.context, RemoteRunContext)  # noqa: S101
        return self.context.connection

    async def report(self, packed: bytes) -> None:
        """See `Execution`."""
        self._connection.ask(ReportProgress(packed))

    async def recall(self, name: str, shared: bool) -> bytes | None:
        """See `Execution`."""
        return self._connection.ask(LoadOnce(name, shared))

    async def recall_all(self) -> dict[str, bytes]:
        """See `Execution`."""
        return read_values(self._connection.ask(LoadOnceValues()) or b"")

    async def start_child(self, job: NewJob) -> None:
        """See `Execution`."""
        self._connection.ask(StartChild(job))

    async def child_outcome(self, id: str) -> bytes | None:
        """See `Execution`."""
        return self._connection.ask(AskForChild(id))

    async def take_once(self, name: str) -> bytes | None:
        """See `Execution`."""
        return self._connection.ask(TakeOnce(name))

    async def release_once(self, name: str) -> None:
        """See `Execution`."""
        self._connection.ask(ReleaseOnce(name))

    async def remember(self, name: str, value: bytes, keep: Wait | None) -> bytes | None:
        """See `Execution`."""
        return self._connection.ask(StoreOnce(name, value, keep))

    # the signature of `Run`
    async def complete(self, connection: Any, result: bytes) -> None:  # noqa: ARG002
        """Raises UsageError: a handler in a process is sync."""
        raise UsageError("a handler in a process is a plain function: use complete_in_sync")

    def complete_sync(self, connection: Any, result: bytes) -> None:
        """See `Execution`."""
        assert isinstance(self.context, RemoteRunContext)  # noqa: S101
        store = completing(self.context.open_store())
        self._connection.ask(Completing())
        store.complete_in_sync(connection, self.claim, result, self.context.keep.succeeded)
        self._connection.ask(Completed())

    def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run `coro` without an event loop: the methods above wait for the socket and never for a
        loop."""
        try:
            coro.send(None)
        except StopIteration as end:
            value: T = end.value
            return value
        coro.close()
        raise UsageError(
            "a handler in a process is a plain function: its job has only the _sync methods"
        )


class Handlers:
    """Runs the jobs on the main thread, because some libraries work only there. Another thread
    reads frames, and ends the process when the worker is gone."""

    def __init__(
        self, connection: Connection, tasks: Mapping[str, Task[Any, Any]], context: RemoteRunContext
    ) -> None:
        self._connection, self._tasks, self._context = connection, tasks, context
        self._todo: queue.SimpleQueue[RunJob | None] = queue.SimpleQueue()
        self._current: RemoteExecution | None = None

    def serve(self) -> None:
        """Run jobs until the worker closes the socket. Then clean up what they shared, within
        `EXIT_TIMEOUT_S`."""
        threading.Thread(target=self._read, name="mita-worker", daemon=True).start()
        while (run := self._todo.get()) is not None:
            self._connection.send(RunBegan())
            with traces.carrying(run.headers):
                ending = copy_context().run(self._run, run)  # what the handler sets ends with it
            self._connection.send(RunEnded(ending))
        drive(self._context.shared.close())

    def _run(self, run: RunJob) -> Ending:
        task = self._tasks.get(run.claim.task)
        if task is None:  # the code on disk has changed since the worker started
            return Unknown()
        self._current = execution = RemoteExecution(
            run.claim, task, self._context, 0.0, time.monotonic(), started=True
        )
        try:
            return run_sync(execution)
        finally:
            self._current = None

    def _read(self) -> None:
        while (frame := self._connection.receive()) is not None:
            match frame:
                case RunJob():
                    self._todo.put(frame)
                case Reply():
                    self._connection.answered(frame)
                case StopRun() if (execution := self._current) is not None:
                    execution.stop = Stop.CANCELLED
        if self._current is None:
            self._todo.put(None)
            time.sleep(EXIT_TIMEOUT_S)
        os._exit(1)  # a handler without a worker cannot report anything
