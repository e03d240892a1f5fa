"""`mita demo`: example jobs on one file, now, delayed, retried, one at a time, repeated, in a flow
and waiting for a person. Each step is checked."""

import argparse
import asyncio
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mita import Mita
from mita.cli.parser import Commands
from mita.cli.screen import Report, Screen
from mita.cli.table import Column, Table
from mita.errors import UsageError
from mita.model.record import JobRecord
from mita.rules.words import counted

from .commands import mita_command, url_of
from .feed import Feed
from .live_shop import show_shop
from .run import DemoFailed, DemoRun
from .steps import STEPS

DEMO_POLL_S = 0.1  # seconds; the demo's repeat is too quick for the usual second
BETWEEN_STEPS_S = 0.6  # time to read
PATIENCE_S = 15.0  # for a viewer who may answer
COUNTERS = ("attempts", "reschedules", "busy")


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "demo",
        demo,
        app=False,
    )
    parser.add_argument(
        "--web", action="store_true", help="show the dashboard of a shop that works, until Ctrl-C"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="use this new file, and keep it")


def demo(options: argparse.Namespace, screen: Screen) -> int:
    """Run the demo. Returns the exit code."""
    if options.url or options.namespace or options.app:
        raise UsageError(
            "the demo runs on a file of its own, with tasks of its own: --keep FILE names the file"
        )
    quiet = logging.getLogger("mita")  # the feed shows the same
    quiet.addHandler(logging.NullHandler())
    with _file(options.keep) as path:
        run = show_shop if options.web else _run
        return screen.show(asyncio.run(run(path, screen, options.keep)))


@contextmanager
def _file(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        if keep.exists():
            raise UsageError(f"--keep {keep}: that file is there already; name a new one")
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="mita-") as folder:
        yield Path(folder) / "demo.db"


async def _run(path: Path, screen: Screen, keep: Path | None) -> Report:
    async with Mita(url_of(path)) as app:
        feed = Feed(screen)
        screen.print_line("Mita: one SQLite file, one worker, no server.", "bold")
        demo = DemoRun(app, feed, url_of(path), PATIENCE_S if screen.terminal else 0)
        worker = app.worker(poll=DEMO_POLL_S)
        working = asyncio.create_task(worker.run())
        try:
            await demo.ready()
            for step in STEPS:
                feed.heading(step.title, step.sentence)
                await step.run(demo)
                await asyncio.sleep(BETWEEN_STEPS_S if screen.terminal else 0)
        except DemoFailed:
            feed.flush(everything=True)
            raise
        finally:
            worker.stop()
            await working
        return _report(demo, await demo.records(), keep)


def _report(demo: DemoRun, records: list[JobRecord], keep: Path | None) -> Report:
    names = ("job", "runs", *COUNTERS, "outcome")
    rows = [
        (
            demo.names[job.id],
            len(demo.runs[job.id]),
            *(getattr(job, name) for name in COUNTERS),
            _outcome(job),
        )
        for job in records
    ]
    columns = [Column(name, right=name not in ("job", "outcome")) for name in names]
    data = {
        "steps": len(STEPS),
        "events": demo.feed.printed,
        "jobs": [dict(zip(names, row, strict=True)) for row in rows],
    }
    runs = sum(len(demo.runs[job.id]) for job in records)
    end = f"{counted(len(records), 'job')}, {counted(runs, 'run')}, all as expected. Try next:"
    return Report(data, "", Table(columns, rows), "", end, *_next(keep, records[-1].id))


def _next(keep: Path | None, id: str) -> list[str]:
    """Commands to continue with."""
    mita, url = mita_command(), "sqlite:///demo.db" if keep is None else url_of(keep)
    if keep is None:
        commands = {
            f"{mita} demo --web": "the dashboard of a shop, in your browser",
            f"{mita} demo --keep demo.db": "the same, on a file that stays",
            f"{mita} jobs --url {url}": "then show its jobs",
            f"{mita} flows --url {url}": "and its flow",
        }
    else:
        commands = {
            f"{mita} jobs --url {url}": "show these jobs",
            f"{mita} show {id} --url {url}": "and one of them",
            f"{mita} flows --url {url}": "and the flow",
        }
    width = max(map(len, commands))
    return [f"  {command:<{width}}   # {remark}" for command, remark in commands.items()]


def _outcome(job: JobRecord) -> str:
    before = [line.kind for line in job.timeline if line.kind in ("failed", "cancelled")]
    back = any(line.kind == "revived" for line in job.timeline)
    return f"{before[0]}, retried, {job.state.value}" if back else job.state.value
