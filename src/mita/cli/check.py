"""The command `check`: can this app, store and worker do their work? For people, and for probes of
process managers."""

import argparse
import asyncio

from mita import Mita
from mita.errors import MitaError, StoreError, StoreMissing, UsageError
from mita.model.view import Finding, Health, WorkerView
from mita.rules.words import counted

from .argtypes import duration
from .context import location, open_app
from .defaults import shown_settings
from .exits import Exit, exit_of
from .loading import load
from .parser import Commands
from .screen import Report, Screen, listed
from .table import Table

_ABOUT = """It imports
the app, if one is given, checks its tasks, asks the store for its time, and looks
for workers. With --url the app is not imported, which is faster. It also lists the
settings that it found, and where."""
_NOTHING_ALIVE = "start one: mita worker MODULE:APP"


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add("check", check, about=_ABOUT)
    parser.add_argument(
        "--worker",
        nargs="?",
        const="",
        metavar="NAME",
        help="fail unless a worker is alive; with NAME, unless that one is",
    )
    parser.add_argument(
        "--timeout",
        type=duration,
        default=10.0,
        metavar="DURATION",
        help="how long the store may take to answer (10s)",
    )


def check(options: argparse.Namespace, screen: Screen) -> int:
    """Run `mita check`. Returns the exit code: 0, or that of the first thing that is wrong."""
    findings: list[Finding] = []
    code = Exit.OK
    try:
        if options.app is not None:
            findings.append(_app(load(options.app), options.app))
    except MitaError as error:
        findings.append(Finding("app", str(error), Health.BAD))
        code = exit_of(error)
    if code is Exit.OK:
        found, code = asyncio.run(_store(options))
        findings += found
    return screen.show(_report(findings, shown_settings(options), code))


def _app(app: Mita, target: str) -> Finding:
    """The app, whose tasks are declared right. Raises `UsageError` if they are not."""
    if not app.tasks:
        raise UsageError(
            f"{target} has no tasks: declare some with @app.task, or import the modules that do"
        )
    app.worker(target=target)  # it checks what the tasks depend on, and starts nothing
    return Finding("app", f"{target}, {counted(len(app.tasks), 'task')}")


async def _store(options: argparse.Namespace) -> tuple[list[Finding], Exit]:
    async with open_app(options, options.app, create=False) as app:
        where = location(app)
        try:
            async with asyncio.timeout(options.timeout):
                workers = await app.workers()
        except TimeoutError:
            text = f"{where} has not answered for {options.timeout:g} s"
            return [Finding("store", text, Health.BAD)], Exit.STORE
        except StoreError as error:
            remedy = "make it: mita migrate" if isinstance(error, StoreMissing) else ""
            return [Finding("store", f"{where}: {error}", Health.BAD, remedy)], Exit.STORE
    worker, code = _worker(workers, options.worker)
    return [Finding("store", where), worker], code


def _worker(alive: list[WorkerView], wanted: str | None) -> tuple[Finding, Exit]:
    """What is said of the workers. `wanted`: None if none needs to be alive, empty if any."""
    names = [view.name for view in alive]
    if wanted and wanted not in names:
        others = f"; alive are {listed(names)}" if names else ""
        text = f"worker {wanted} is not alive{others}"
        return Finding("workers", text, Health.BAD, _NOTHING_ALIVE), Exit.FAILED
    if not names:
        is_bad = wanted is not None
        health = Health.BAD if is_bad else Health.WARN
        text = "none is alive"
        return Finding("workers", text, health, _NOTHING_ALIVE), (
            Exit.FAILED if is_bad else Exit.OK
        )
    return Finding("workers", f"{len(names)} alive: {listed(names)}"), Exit.OK


def _report(findings: list[Finding], found: list[tuple[str, str, str]], code: Exit) -> Report:
    rows = [(finding.health.value, finding.what, finding.found) for finding in findings]
    remedies = [f"  → {finding.what}: {finding.remedy}" for finding in findings if finding.remedy]
    table = Table(("health", "what", "found"), rows)
    settings = [{"name": name, "value": value, "from": source} for name, value, source in found]
    of_settings: list[str | Table]
    of_settings = ["", Table(("setting", "value", "from"), found)] if found else []
    data = {"findings": findings, "settings": settings}
    return Report(data, table, *remedies, *of_settings, code=code)
