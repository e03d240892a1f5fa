"""The command `worker`."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable

from msgspec.structs import replace

from mita import Mita
from mita.engine.worker import Worker
from mita.errors import UsageError
from mita.rules.words import counted
from mita.settings import Address

from .argtypes import count, duration, names
from .context import location, open_app
from .defaults import chosen_app, fill_worker_options
from .exits import Exit, kind
from .gc_tuning import freeze_startup_objects
from .logs import LEVELS, write_logs
from .parser import Commands
from .reload import Reloader, source_folders
from .screen import Report, Screen, listed
from .shutdown import end_within, run_and_abandon_handlers
from .stopping import STOP_MARGIN_S, Stopper
from .supervisor import Supervisor

log = logging.getLogger("mita.cli")

_ABOUT = """After SIGTERM, Ctrl-C or the end of its terminal
it waits for running jobs until the grace time is over, then returns them to the
queue; after a second signal it returns them at once. Each option may also be a key
of [tool.mita] in pyproject.toml (log_level = "debug"), or $MITA_LOG_LEVEL."""

_DURABILITY = {
    "sqlite": "what is acknowledged is on disk (WAL, synchronous=FULL)",
    "memory": "in memory only: everything is gone when the process ends",
}


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add("worker", work, about=_ABOUT, app=False)
    parser.add_argument(
        "target",
        metavar="MODULE:APP",
        nargs="?",
        help="the app, for example jobs:app (default: $MITA_APP, or app of [tool.mita])",
    )
    parser.add_argument(
        "--queues", type=names, metavar="A,B", help="only these queues (default: all queues)"
    )
    parser.add_argument(
        "--exclude",
        type=names,
        action="extend",
        default=[],
        metavar="QUEUE",
        help="serve all queues except this one; may be repeated",
    )
    parser.add_argument(
        "--concurrency",
        type=count,
        default=100,
        metavar="N",
        help="how many jobs run at once (100)",
    )
    parser.add_argument(
        "--threads",
        type=count,
        default=16,
        metavar="N",
        help="how many of them may be sync functions (16)",
    )
    parser.add_argument(
        "--handler-processes",
        type=count,
        metavar="N",
        help="handlers of tasks with executor='process' at once, each in a process of its own "
        "(number of processors)",
    )
    parser.add_argument(
        "--lease",
        type=duration,
        default=30.0,
        metavar="DURATION",
        help="after this time the jobs of a dead worker are taken over (30s)",
    )
    parser.add_argument(
        "--grace",
        type=duration,
        default=20.0,
        metavar="DURATION",
        help="how long running jobs may take to end when the worker stops (20s)",
    )
    parser.add_argument(
        "--processes",
        type=count,
        default=1,
        metavar="N",
        help="how many worker processes; one that dies is restarted (1)",
    )
    parser.add_argument(
        "--name", default="", help="the worker's name in `mita workers` (host and process id)"
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="restart the worker when a source file changes, for development",
    )
    parser.add_argument(
        "--until-empty",
        action="store_true",
        help="end when no job is ready or running; scheduled jobs and paused queues are left",
    )
    parser.add_argument(
        "--max-jobs",
        type=count,
        metavar="N",
        help="end after N jobs; with --processes each process is restarted",
    )
    parser.add_argument(
        "--no-schedule", dest="schedule", action="store_false", help="do not fire repeats"
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve metrics for Prometheus there, and /live and /ready; process N of --processes "
        "on PORT + N - 1",
    )
    parser.add_argument(
        "--health",
        metavar="HOST:PORT",
        help="serve only /live and /ready there, without the extra 'metrics'; ports as for "
        "--metrics",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="log each job that succeeds, with its duration"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    parser.add_argument(
        "--log-json", action="store_true", help="write each log line as JSON; --json does so too"
    )


def work(options: argparse.Namespace, screen: Screen) -> int:
    """Run `mita worker` until it is stopped. Returns the exit code."""
    options.target = options.target or chosen_app()
    if options.target is None:
        raise UsageError(
            "which app's jobs are to run? Name it: mita worker MODULE:APP, or set $MITA_APP, or "
            "app in [tool.mita] of pyproject.toml"
        )
    fill_worker_options(options)
    options.log_json = options.log_json or screen.json
    write_logs(options.log_level, as_json=options.log_json)
    if (options.reload or options.processes > 1) and not hasattr(os, "fork"):
        option = "--reload" if options.reload else "--processes"
        raise UsageError(
            f"{option} needs Linux or macOS. Start one worker, or several, each by itself"
        )
    stop_timeout = options.grace + STOP_MARGIN_S + 5
    if options.reload and options.lifeline is None:
        code = _reload(options, stop_timeout)
    elif options.processes > 1 and options.lifeline is None:
        with asyncio.Runner() as runner:
            code = runner.run(
                Supervisor(options.argv, options.processes, stop_timeout, options.until_empty).run()
            )
    else:
        with Stopper(options.grace, options.lifeline) as stopper:
            code = run_and_abandon_handlers(serve(options, stopper), _fast_loop())
        if options.is_process:
            end_within(stopper.left, code)
    return code if options.lifeline is not None else screen.show(_report(code))


def _reload(options: argparse.Namespace, stop_timeout: float) -> Exit:
    if options.processes > 1:
        raise UsageError("--reload restarts one process: leave --processes out")
    folders = source_folders(options.target)
    with asyncio.Runner() as runner:
        return runner.run(Reloader(options.argv, folders, stop_timeout).run())


def _report(code: Exit) -> Report:
    data = (
        {"stopped": True}
        if code is Exit.OK
        else {"error": "a worker process failed: its log says why", "kind": kind(code)}
    )
    return Report(data, code=code)


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop, if it is installed. On Windows the one that psycopg can use."""
    if sys.platform == "win32":
        return asyncio.SelectorEventLoop
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


async def serve(options: argparse.Namespace, stopper: Stopper) -> Exit:
    """Run one worker until it ends. Returns the exit code of its process."""
    async with open_app(options, options.target) as app:
        worker = app.worker(
            options.queues,
            concurrency=options.concurrency,
            threads=options.threads,
            lease=options.lease,
            grace=options.grace,
            name=_name(options),
            schedule=options.schedule,
            metrics=_own_address(options, options.metrics),
            health=_own_address(options, options.health),
            handler_processes=options.handler_processes,
            target=options.target,
            exclude=options.exclude,
            until_empty=options.until_empty,
            max_jobs=options.max_jobs,
            verbose=options.verbose,
        )
        if worker.processes is not None:
            worker.processes = replace(worker.processes, logs=(options.log_level, options.log_json))
        _check_tasks(app, options.target)
        stopper.attach(worker)
        log.info("%s", greeting(app, worker, options))
        freeze_startup_objects()
        await worker.run()
        wants_another = options.lifeline is not None and worker.max_jobs_reached
    return Exit.AGAIN if wants_another else Exit.OK


def _name(options: argparse.Namespace) -> str:
    numbered = options.name and options.number is not None
    return f"{options.name}-{options.number}" if numbered else str(options.name)


def _own_address(options: argparse.Namespace, asked: str | None) -> str | None:
    """The address of this process: each process of `--processes` has its own port."""
    if asked is None or options.number is None:
        return asked
    address = Address.parse(asked)
    return str(replace(address, port=address.port + options.number - 1 if address.port else 0))


def _check_tasks(app: Mita, target: str) -> None:
    if not app.tasks:
        raise UsageError(
            f"{target} has no tasks: declare some with @app.task, or import the modules that do"
        )


def greeting(app: Mita, worker: Worker, options: argparse.Namespace) -> str:
    """The first log line: the queues, the store, and how durable it is."""
    served = f"queues {listed(options.queues)}" if options.queues else "all queues"
    if options.exclude:
        served += f" but {listed(options.exclude)}"
    scheme = "" if app.store_factory else app.url.scheme
    durable = _DURABILITY.get(scheme, "as durable as it is set up to be (see `mita doctor`)")
    tasks = counted(len(app.tasks), "task")
    return (
        f"worker {worker.name} serves {served}, {tasks}, {counted(options.concurrency, 'slot')}, "
        f"from {location(app)}: {durable}"
    )
