"""Stopping the process of a worker in time, even if handlers block it or its store is
unreachable."""

import asyncio
import logging
import math
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Self

from mita.engine.worker import Worker
from mita.rules.words import counted

from .exits import Exit
from .shutdown import end_process
from .signals import stop_signals
from .supervisor import HURRY

log = logging.getLogger("mita.cli")

# after the grace time, or after a second signal, the time to return running jobs to the queue
STOP_MARGIN_S = 5.0
# without an answer to a second signal for this long, the event loop counts as blocked
LOOP_ANSWER_S = 1.0
PUT_BACK_S = 2.0  # for the last attempt to return running jobs to the queue


class Stopper:
    """Handles requests to stop: the first stops the worker, the second returns running jobs to the
    queue, the third ends the process.

    Requests come as signals, and from the supervisor through a pipe (not on Windows). A process
    manager may signal the whole group, so the two are counted separately: one signal and one
    request of the supervisor are the same request.

    It runs on a thread of its own, and the system writes each signal into its pipe. So a handler
    that blocks the event loop cannot keep the process alive: after the grace time this thread
    returns the running jobs to the queue and ends the process."""

    def __init__(self, grace: float, lifeline: int | None) -> None:
        self._grace, self._lifeline = grace, lifeline
        self._numbers = stop_signals()
        self._received = 0  # signals that the system wrote into the pipe
        self._handled = 0  # signals for which Python called our handler: either count may miss some
        self._supervisor_request = 0  # what the supervisor asked for: 1 stop, 2 hurry
        self._requests = 0
        self._end = self._end_if_loop_answers = math.inf
        self._attached = False
        # the signals that each thread had blocked before it began to fork
        self._masks: dict[int, set[int]] = {}

    def __enter__(self) -> Self:
        return self

    def attach(self, worker: Worker) -> None:
        """Start to listen. The worker calls it on the main thread, on its event loop."""
        self._worker, self._loop = worker, asyncio.get_running_loop()
        # sockets and not a pipe: Windows can wait only for these
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        if self._lifeline is not None:
            os.set_inheritable(self._lifeline, False)
        for number in self._numbers:
            signal.signal(number, self._on_signal)
        self._previous_wakeup_fd = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        self._attached = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._block_signals,
                after_in_parent=self._unblock_signals,
                after_in_child=self._start_as_child,
            )
        self._thread = threading.Thread(target=self._watch, name="mita-stopper", daemon=True)
        self._thread.start()

    @property
    def left(self) -> float:
        """How many seconds are left until the process must have ended. Before a request to stop, it
        is the whole time."""
        return (
            self._grace + STOP_MARGIN_S
            if self._end == math.inf
            else max(self._end - time.monotonic(), LOOP_ANSWER_S)
        )

    def __exit__(self, *_: object) -> None:
        if self._attached:
            self._detach()
            self._wake()
            self._thread.join(1)

    def _detach(self) -> None:
        """Reset the signal handlers in a forked child: it must not act on its parent's signals."""
        if self._attached:
            self._attached = False
            with suppress(ValueError, OSError):
                signal.set_wakeup_fd(-1)
                for number in self._numbers:
                    signal.signal(
                        number,
                        signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL,
                    )

    def _block_signals(self) -> None:
        """Block signals before a fork: a signal that reached the child before its handlers are
        reset would be lost."""
        self._masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def _unblock_signals(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.pop(threading.get_ident(), set()))

    def _start_as_child(self) -> None:
        self._detach()
        self._unblock_signals()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._handled += 1
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):
            self._writer.send(b"\0")

    # ------------------------------------------------------------ on the thread

    def _watch(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            if self._lifeline is not None:
                selector.register(self._lifeline, selectors.EVENT_READ)
            while True:
                left = self._end - time.monotonic()
                ready = selector.select(None if left == math.inf else max(left, 0.0))
                if not self._attached:
                    return
                for key, _ in ready:
                    self._read(key.fd, selector)
                self._handle_requests(max(self._received, self._handled, self._supervisor_request))
                if time.monotonic() >= self._end:
                    self._end_unfinished()

    def _read(self, fd: int, selector: selectors.BaseSelector) -> None:
        if fd == self._lifeline:
            data = os.read(fd, 64)
            self._supervisor_request = max(self._supervisor_request, 2 if HURRY in data else 1)
            if not data:  # the supervisor has ended
                selector.unregister(fd)
            return
        for number in self._reader.recv(64):
            if number in self._numbers:
                self._received += 1
            elif number and self._previous_wakeup_fd >= 0:
                # a signal that another part of the program waits for
                with suppress(OSError):
                    os.write(self._previous_wakeup_fd, bytes([number]))

    def _handle_requests(self, times: int) -> None:
        """Act on the requests up to this number that have not been handled."""
        while self._requests < times:
            self._requests += 1
            now = time.monotonic()
            match self._requests:
                case 1:
                    log.info(
                        "stopping: running jobs have %g s to end; a second signal returns them "
                        "at once",
                        self._grace,
                    )
                    self._end = now + self._grace + STOP_MARGIN_S
                case 2:
                    log.info("returning running jobs to the queue")
                    self._end_if_loop_answers = min(self._end, now + STOP_MARGIN_S)
                    self._end = min(self._end, now + LOOP_ANSWER_S)
                    self._on_loop(self._loop_answers)
                case _:
                    end_process(Exit.INTERRUPTED)
            self._on_loop(self._worker.stop)

    def _on_loop(self, act: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: the worker has ended
            self._loop.call_soon_threadsafe(act)

    def _loop_answers(self) -> None:
        self._end = self._end_if_loop_answers
        self._wake()

    def _end_unfinished(self) -> None:
        """The time is over: log what still runs, and end the process."""
        # if even the log is blocked
        at_last = threading.Timer(PUT_BACK_S + STOP_MARGIN_S, os._exit, [Exit.FAILED])
        at_last.daemon = True
        at_last.start()
        running = self._worker.running()
        if not running:
            log.warning(
                "ending although the store is unreachable, or a connection to it cannot be closed"
            )
            end_process(Exit.OK)
        done = self._worker.put_back(PUT_BACK_S)
        outcome = (
            "returned to the queue"
            if done
            else "not returned to the queue, because the store does not answer: they run again "
            "when their leases end"
        )
        log.warning(
            "ending with %s still running, %s: %s",
            counted(len(running), "job"),
            outcome,
            "; ".join(running),
        )
        end_process(Exit.OK if done else Exit.FAILED)
