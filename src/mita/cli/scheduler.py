"""The command `scheduler`: fire repeats, run no jobs."""

import argparse
import asyncio
import logging

from .argtypes import duration
from .context import open_app, store_text
from .defaults import chosen_app
from .exits import Exit
from .logs import LEVELS, write_logs
from .parser import Commands
from .screen import Report, Screen
from .signals import on_stop

log = logging.getLogger("mita.cli")

_ABOUT = """Every worker does that
too. Start a scheduler if no worker runs all the time, or if workers should not
fire repeats. Several schedulers may run: no repeat fires twice. With MODULE:APP
it also stores the repeats that this app declares."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add("scheduler", schedule, about=_ABOUT, app=False)
    parser.add_argument(
        "target",
        metavar="MODULE:APP",
        nargs="?",
        help="the app, for example jobs:app (default: $MITA_APP, or app of [tool.mita])",
    )
    parser.add_argument(
        "--lock",
        type=duration,
        default=3.0,
        metavar="DURATION",
        help="how long one of several schedulers fires for all; 0: each on its own (3s)",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve metrics for Prometheus there, and /live and /ready",
    )
    parser.add_argument(
        "--health",
        metavar="HOST:PORT",
        help="serve only /live and /ready there, without the extra 'metrics'",
    )
    parser.add_argument(
        "--name", default="", help="the scheduler's name in the log (host and process id)"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    parser.add_argument(
        "--log-json", action="store_true", help="write each log line as JSON; --json does so too"
    )


def schedule(options: argparse.Namespace, screen: Screen) -> int:
    """Run `mita scheduler` until it is stopped. Returns the exit code."""
    write_logs(options.log_level, as_json=options.log_json or screen.json)
    asyncio.run(_serve(options))
    return screen.show(Report({"stopped": True}, code=Exit.OK))


async def _serve(options: argparse.Namespace) -> None:
    async with open_app(options, options.target or (None if options.url else chosen_app())) as app:
        scheduler = app.scheduler(
            lock=options.lock, name=options.name, metrics=options.metrics, health=options.health
        )
        on_stop(scheduler.stop)
        log.info(
            "scheduler %s (%s) fires the repeats of %s",
            scheduler.name,
            scheduler.id,
            store_text(app),
        )
        await scheduler.run()
