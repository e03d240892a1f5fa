"""`python -m mita.handler_main FD`: the process in which a worker runs the handlers of tasks with
executor='process'.

It imports the app by the MODULE:APP that the worker was started with, and looks tasks up in its
registry. Nothing is unpickled, and no name from a job is imported."""

import ctypes
import importlib
import os
import signal
import socket
import sys
from contextlib import suppress

from mita import Mita
from mita.cli.loading import load
from mita.cli.logs import write_logs
from mita.engine.frames import CannotStart, Hello, Ready
from mita.engine.remote import Connection, Handlers, RemoteRunContext, enter
from mita.errors import MitaError, UsageError
from mita.ports.store import SILENCE_S, Store, StoreFactory
from mita.settings import StoreURL
from mita.store_pool import StorePool, shown_factory

_PR_SET_PDEATHSIG = 1


class _NoStore(StorePool):
    """For a store that only the worker's own process can use. A store made in this process would
    lose the jobs that a handler enqueues."""

    def __init__(self, source: StoreURL | StoreFactory) -> None:
        super().__init__(source)
        self._given = "memory://" if isinstance(source, StoreURL) else shown_factory(source)

    async def new(self, silence: float = SILENCE_S) -> Store:  # noqa: ARG002 - the parent has it
        raise UsageError(
            f"the app's store is {self._given}, which only the worker's own process can use: a "
            "task with executor='process' cannot enqueue or look at jobs there. Use a store with "
            "a URL that other processes can open"
        )


def main() -> None:
    """Run a handler process until its worker closes the connection."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # what a handler starts must not keep the socket open
    _leave_signals_to_the_worker()
    connection = Connection(socket.socket(fileno=descriptor))
    hello = connection.receive()
    if not isinstance(hello, Hello):
        return
    _die_with(hello.worker)
    enter()
    try:
        app = _app(hello)
    except MitaError as error:
        connection.send(CannotStart(str(error)))
        return
    connection.send(Ready())
    tasks, wiring = app._known, app._registry.wiring  # noqa: SLF001
    context = RemoteRunContext(
        connection, hello.keep, hello.room, lambda: _store(app), tasks, wiring
    )
    Handlers(connection, tasks, context).serve()


def _leave_signals_to_the_worker() -> None:
    """Ignore signals: a process manager may signal every process of a service, but the worker
    decides what happens to its jobs. Unlike SIG_IGN, these functions are not inherited by programs
    that a handler starts."""
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: None)


def _die_with(worker: int) -> None:
    """Let Linux kill this process when the worker ends, even while a handler keeps the interpreter
    lock. On other systems the closed socket ends it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != worker:  # it ended before we asked
        os._exit(1)


def _app(hello: Hello) -> Mita:
    if hello.logs is not None:
        level, as_json = hello.logs
        write_logs(level, as_json=as_json)
    sys.path[:] = hello.path
    app = load(hello.target)
    for module in hello.modules:
        _import(module)
    app._use(_store_pool(app, hello))  # noqa: SLF001
    app._registry.check()  # noqa: SLF001
    return app


def _store_pool(app: Mita, hello: Hello) -> StorePool:
    """The stores of this process: those of its worker's URL. A store in memory, or one that a
    factory makes, cannot be reached from here; its use raises an error."""
    if not hello.url:
        return _NoStore(app._pool.source)  # noqa: SLF001
    url = StoreURL.parse(hello.url, hello.namespace)
    return _NoStore(url) if url.scheme == "memory" else StorePool(url)


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:
        raise UsageError(f"cannot import {module!r}: {type(error).__name__}: {error}") from error


def _store(app: Mita) -> Store:
    # opened once, on the loop of the `_sync` methods
    return app._portal(app._pool.store())  # noqa: SLF001


if __name__ == "__main__":
    main()
