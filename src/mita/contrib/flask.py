"""Mita in a Flask app.

    from mita.contrib.flask import MitaFlask

    MitaFlask(app, web)      # app = Mita(…), web = Flask(…)

Or, with a function that makes the Flask app: `extension = MitaFlask(app)` in the module, and
`extension.init_app(web)` in the function."""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  (see _at_the_end_of_the_program)
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from mita import forks
from mita.app import Mita
from mita.errors import UsageError
from mita.tasks import Job

from .embedded import WorkerChoice, embedded_worker, worker_factory

try:
    import flask
except ModuleNotFoundError as missing:
    raise UsageError("Flask is not installed: pip install 'mita[flask]'") from missing

__all__ = ["MitaFlask"]

EXTENSION = "mita"  # the name in `flask_app.extensions`

log = logging.getLogger("mita.worker")


class MitaFlask:
    """Runs the handlers of a Mita app inside the context of a Flask app: `current_app`, `g` and
    extensions such as Flask-SQLAlchemy work in them, and `teardown_appcontext` functions are called
    at the end of each run, before the job is settled.

    `worker=True` also runs a worker in the web process, for development. It starts with the first
    request, so that neither Flask's reloader nor a command such as `flask shell` starts one, and
    has 5 s to finish its jobs when the process ends. `worker=lambda: app.worker(…)` chooses its
    options.

    The extension is `flask_app.extensions["mita"]`, and its `app` is the Mita app."""

    def __init__(
        self, app: Mita, flask_app: flask.Flask | None = None, *, worker: WorkerChoice = False
    ) -> None:
        if not isinstance(app, Mita):
            raise UsageError(
                f"MitaFlask({type(app).__name__}): give your Mita app first, then the Flask app: "
                "MitaFlask(app, web)"
            )
        self.app = app
        self._flask_app: flask.Flask | None = None
        self._embedded = _WorkerThread(app, worker) if worker else None

        @app.lifespan
        def flask_app_is_there() -> Iterator[None]:
            self._context()  # otherwise the worker does not start, and says why
            yield

        @app.middleware
        def flask_context(job: Job) -> Iterator[None]:  # noqa: ARG001
            with self._context():
                yield

        if flask_app is not None:
            self.init_app(flask_app)

    def init_app(self, flask_app: flask.Flask) -> None:
        """Use this Flask app. If there are several, as in tests, handlers run in the last one."""
        self._flask_app = flask_app
        flask_app.extensions[EXTENSION] = self
        if self._embedded is not None:
            flask_app.before_request(self._embedded.start_once)

    def _context(self) -> "flask.ctx.AppContext":
        if self._flask_app is None:
            raise UsageError(
                "there is no Flask app for the handlers: call MitaFlask.init_app(web) in the "
                "module that the worker imports, for example with a file worker.py: "
                "`from shop import app, create_app` and `create_app()`; then `mita worker "
                "worker:app`"
            )
        return self._flask_app.app_context()


# `atexit` would be too late: the pools of threads that a worker needs are closed before it. What is
# registered last is called first, so `concurrent.futures.thread` must be imported by now.
_at_the_end_of_the_program: Callable[..., object] = getattr(
    threading, "_register_atexit", atexit.register
)


class _WorkerThread:
    """The embedded worker, on a thread with an event loop of its own."""

    def __init__(self, app: Mita, worker: WorkerChoice) -> None:
        self._app, self._worker = app, worker
        self._starting = forks.guarded(threading.Lock())
        self._process: int | None = None  # in which the thread was started
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start_once(self) -> None:
        """Start the thread, if this process has none. Flask calls it before each request."""
        if self._process != os.getpid():
            with self._starting:
                if self._process != os.getpid():
                    self._start()
                    self._process = os.getpid()

    def _start(self) -> None:
        loop = self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, args=[loop], name="mita-embedded-worker", daemon=True
        )
        self._thread.start()
        _at_the_end_of_the_program(self.stop)

    def stop(self) -> None:
        """Let the worker end within its grace time, and wait for it."""
        if self._thread is None or self._loop is None or self._process != os.getpid():
            return
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._serve())
        except Exception:
            log.exception("the embedded worker has ended")

    async def _serve(self) -> None:
        make = worker_factory(self._app, self._worker)
        if make is not None:
            async with embedded_worker(self._app, make):
                await self._stopping.wait()
