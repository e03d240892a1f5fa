"""`mita worker --processes N`: starts the processes, restarts a process that dies, and passes
on requests to stop.

Each child has the reading end of a pipe, its lifeline. The supervisor writes its requests into it,
and when the supervisor dies it is closed, so no child outlives the supervisor. Children are in
sessions of their own, so a Ctrl-C reaches them once, through the supervisor."""

import asyncio
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mita.ports.backoff import Backoff
from mita.rules.words import counted

from .exits import Exit
from .signals import on_stop

log = logging.getLogger("mita.cli")

STOP, HURRY = b"s", b"h"
# seconds that children have to stop after a second signal before they are killed
HURRY_TIMEOUT_S = 10.0
STABLE_AFTER_S = 10.0  # a process that ran this long is restarted at once
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0


class Child:
    """One of the worker processes: it is started again and again."""

    def __init__(self, number: int, arguments: Sequence[str]) -> None:
        self.number = number
        self._arguments = arguments
        self._process: Process | None = None
        self._lifeline: int | None = None
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, jitter=False)
        self.started = 0.0

    async def run(self) -> int:
        """Start a process and wait until it ends. Returns its exit code; below 0 for a signal."""
        reads, self._lifeline = os.pipe()
        self.started = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "mita",
            f"--lifeline={reads}",
            f"--number={self.number}",
            *self._arguments,
        ]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, pass_fds=(reads,), start_new_session=True
            )
        finally:
            os.close(reads)
        log.info("process %d is %d", self.number, self._process.pid)
        try:
            return await self._process.wait()
        finally:
            self._process = None
            os.close(self._lifeline)
            self._lifeline = None

    def send(self, request: bytes) -> None:
        """Send STOP or HURRY to the process, if it is running."""
        if self._lifeline is not None:
            with suppress(BrokenPipeError):
                os.write(self._lifeline, request)

    def kill(self) -> None:
        """Kill the process, if it is running."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def pause(self) -> float:
        """How long to wait before the next start: 0 after a long run, longer and
        longer after short ones."""
        if time.monotonic() - self.started >= STABLE_AFTER_S:
            self._backoff.reset()
            return 0.0
        return self._backoff.fail()


class Supervisor:
    """Runs the processes. `stop_timeout` is how long they may take to stop before they are killed.
    `until_empty`: a process that ends by itself is not restarted."""

    def __init__(
        self,
        arguments: Sequence[str],
        processes: int,
        stop_timeout: float,
        until_empty: bool = False,
    ) -> None:
        self._until_empty = until_empty
        self._children = [Child(number, arguments) for number in range(1, processes + 1)]
        self._stop_timeout = stop_timeout
        self._stopping = asyncio.Event()
        self._limit: asyncio.Timeout | None = None
        self._requests = 0
        self._code = Exit.OK

    async def run(self) -> Exit:
        """Run the processes until all have ended. Returns the exit code."""
        on_stop(self.request_stop)
        log.info(
            "supervisor %d keeps %s running",
            os.getpid(),
            counted(len(self._children), "worker process", "worker processes"),
        )
        loops = [asyncio.create_task(self._keep_running(child)) for child in self._children]
        all_ended: asyncio.Future[Any] = asyncio.gather(*loops)
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([stopping, all_ended], return_when=asyncio.FIRST_COMPLETED)
        await self._wait_for(loops)
        log.info("all worker processes have ended")
        return self._code

    def request_stop(self) -> None:
        """Handle a request to stop: the first means stop, the second hurry, the third kill."""
        self._requests += 1
        self._stopping.set()
        if self._requests == 2:
            self._stop_timeout = min(self._stop_timeout, HURRY_TIMEOUT_S)
            if self._limit is not None:
                self._limit.reschedule(asyncio.get_running_loop().time() + self._stop_timeout)
        for child in self._children:
            match self._requests:
                case 1:
                    child.send(STOP)
                case 2:
                    child.send(HURRY)
                case _:
                    child.kill()

    async def _keep_running(self, child: Child) -> None:
        while not self._stopping.is_set():
            code = await child.run()
            if self._stopping.is_set():
                self._note_end(child, code)
                return
            if code == Exit.USAGE:  # a restart would end in the same error
                self._give_up(Exit.USAGE)
                return
            if code == Exit.OK and self._until_empty:
                return
            if code == Exit.AGAIN:
                log.info("process %d has run its jobs; another is started", child.number)
            else:
                await self._wait_before_restart(child, code)

    async def _wait_before_restart(self, child: Child, code: int) -> None:
        pause = child.pause()
        log.warning(
            "process %d %s; another is started in %g s", child.number, how_it_ended(code), pause
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._stopping.wait()

    def _give_up(self, code: Exit) -> None:
        self._code = code
        if not self._requests:
            self.request_stop()

    def _note_end(self, child: Child, code: int) -> None:
        if code not in (Exit.OK, Exit.AGAIN) and self._code is Exit.OK:
            log.warning(
                "process %d %s instead of stopping cleanly", child.number, how_it_ended(code)
            )
            self._code = Exit.FAILED

    async def _wait_for(self, loops: list[asyncio.Task[None]]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._stop_timeout) as self._limit:
                await asyncio.wait(loops)
        if left := [loop for loop in loops if not loop.done()]:
            log.warning(
                "%s did not stop in time and are killed", counted(len(left), "process", "processes")
            )
            for child in self._children:
                child.kill()
        await asyncio.gather(*loops)


def how_it_ended(code: int) -> str:
    """How a process ended, in words."""
    return (
        f"was killed by {signal.Signals(-code).name}"
        if code < 0
        else f"ended with exit code {code}"
    )
