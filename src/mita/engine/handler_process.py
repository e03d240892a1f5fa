"""One handler process as its worker sees it: a new interpreter, a socket to it, and at most one job
at a time."""

import asyncio
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from mita import traces
from mita.errors import MitaError
from mita.model.ending import Died, Ending
from mita.model.job import Claim

from .execution import Execution
from .frames import (
    AskForChild,
    CannotStart,
    Completed,
    Completing,
    FromChild,
    Hello,
    LoadOnce,
    LoadOnceValues,
    Ready,
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
    cut,
    from_child,
    pack,
    pack_values,
)
from .run import stopped
from .run_context import Stop

log = logging.getLogger("mita.worker")

MODULE = "mita.handler_main"
# for a cancelled handler to end by itself before its process is killed
CANCEL_GRACE_S = 2.0
LAST_READ_S = 1.0  # for reading what a process sent before its end


class CannotStartError(Exception):
    """A handler process could not be started; the text says why."""


class HandlerProcess(asyncio.Protocol):
    """Made by `launch`. Its process leads its own process group, so that a kill also ends what the
    handler started, and Ctrl-C at the terminal reaches only the worker."""

    def __init__(self, process: Process) -> None:
        loop = asyncio.get_running_loop()
        self._process = process
        self._ended = False
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._execution: Execution | None = None
        self.began = False  # the process has begun the last job
        self._ending: asyncio.Future[Ending] = loop.create_future()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._answering: set[asyncio.Task[None]] = set()
        self._gone = loop.create_task(self._watch())

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return not self._gone.done()

    # ------------------------------------------------------------ its life

    @classmethod
    async def launch(cls, hello: Hello) -> "HandlerProcess":
        """Start a process and wait until it has imported the app. It is a new interpreter and not a
        fork: the worker has threads, and a fork would copy the locks that they hold. Raises
        CannotStartError."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                MODULE,
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise CannotStartError(f"{type(error).__name__}: {error}") from error
        finally:
            theirs.close()
        child = cls(process)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: child, sock=ours)
            child._send(hello)
            await child._ready
        except BaseException:
            child.kill()
            raise
        return child

    async def _watch(self) -> None:
        """Wait for the end of the process. What it sent before is read first, for a limited time,
        because a grandchild may keep the socket open."""
        code = await self._process.wait()
        self.kill()  # also what it left in its group
        self._ended = True
        await asyncio.wait([self._closed], timeout=LAST_READ_S)
        for task in self._answering:
            task.cancel()
        if not self._ready.done():
            self._ready.set_exception(
                CannotStartError(f"the process {how_it_ended(code)} before it was ready")
            )
        if self._execution is not None and not self._ending.done():
            self._ending.set_result(Died(f"the handler's process {how_it_ended(code)}"))
        if self._transport is not None:
            self._transport.abort()

    def kill(self) -> None:
        """Kill the process and its whole group. Does nothing after its end: the system may have
        given its number to another process."""
        if self._ended:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def close(self, timeout: float) -> None:
        """Let an idle process end by itself, by closing its socket, and kill it if it takes too
        long."""
        if self._transport is not None:
            self._transport.close()
        await asyncio.wait([self._gone], timeout=timeout)
        self.kill()
        await asyncio.wait([self._gone], timeout=timeout)

    # ------------------------------------------------------------ one run

    async def run(self, execution: Execution) -> Ending:
        """Send the job and wait for its ending. To stop the run, the worker cancels the task around
        this and says why in `stop`."""
        self._execution, self.began = execution, False
        self._ending = asyncio.get_running_loop().create_future()
        headers = b"" if execution.context.tracer is None else traces.carried()
        self._send(RunJob(_portable(execution.claim), headers))
        try:
            return await asyncio.shield(self._ending)
        except asyncio.CancelledError:
            return await self._stop(execution)
        finally:
            self._execution = None

    async def _stop(self, execution: Execution) -> Ending:
        if execution.stop is Stop.CANCELLED:
            self._send(StopRun())
            with suppress(asyncio.CancelledError):  # the worker shuts down: no more time
                await asyncio.wait([self._ending], timeout=CANCEL_GRACE_S)
        if self._ending.done():
            return self._ending.result()
        self.kill()
        while not self._gone.done():  # the resource key must not be free before the handler is gone
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._gone])
        return stopped(execution)

    # ------------------------------------------------------------ the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        # uvloop's transport does not declare it
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._buffer += data
        for packed in cut(self._buffer):
            self._receive(from_child.decode(packed))

    def connection_lost(self, _: Exception | None) -> None:
        """Called by asyncio."""
        if not self._closed.done():
            self._closed.set_result(None)

    def _receive(self, frame: FromChild) -> None:
        match frame:
            case Ready():
                self._ready.set_result(None)
            case CannotStart(reason):
                self._ready.set_exception(CannotStartError(reason))
            case RunBegan():
                self.began = True
            case RunEnded(ending):
                if not self._ending.done():
                    self._ending.set_result(ending)
            case Request() if self._execution is not None:
                task = asyncio.get_running_loop().create_task(self._answer(frame, self._execution))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)

    async def _answer(self, ask: Request, execution: Execution) -> None:
        try:
            self._send(Reply(ask.number, await _answered(ask.question, execution)))
        except MitaError as error:
            self._send(Reply(ask.number, error=type(error).__name__, text=str(error)))
        except Exception as error:
            # a bug in Mita: without a reply the handler would wait for ever
            log.exception("a question of job %s failed", execution.claim.id)
            self._send(
                Reply(ask.number, error=MitaError.__name__, text=f"{type(error).__name__}: {error}")
            )

    def _send(self, frame: Hello | RunJob | StopRun | Reply) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack(frame))


async def _answered(question: RequestBody, execution: Execution) -> bytes | None:
    match question:
        case ReportProgress(packed):
            await execution.report(packed)
        case LoadOnce(name, shared):
            return await execution.recall(name, shared)
        case LoadOnceValues():
            return pack_values(await execution.recall_all())
        case StartChild(job):
            await execution.start_child(job)
        case AskForChild(id):
            return await execution.child_outcome(id)
        case TakeOnce(name):
            return await execution.take_once(name)
        case ReleaseOnce(name):
            await execution.release_once(name)
        case StoreOnce(name, value, keep):
            return await execution.remember(name, value, keep)
        case Completing():
            await execution.flush_reports()
        case Completed():
            execution.completed()
    return None


def _portable(claim: Claim) -> Claim:
    """Returns the claim without the store's own reference, unless that is a plain value, which
    `complete_in_sync` needs."""
    return claim if isinstance(claim.ref, int | str | bytes | None) else replace(claim, ref=None)


def how_it_ended(code: int) -> str:
    """Returns a text that says how a process ended, by its exit code."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
