"""Maintenance: `doctor`, `migrate`."""

from mita.model.repeat import RepeatState
from mita.model.view import Finding, Health, WorkerView
from mita.rules.explain.reasons.obstacles import CLOCK_TOLERANCE_MS
from mita.rules.explain.reasons.words import span

from .context import Desk, at_desk, location, shown
from .exits import Exit
from .format import counted
from .parser import Commands
from .screen import Report, listed
from .table import Table


def add(commands: Commands) -> None:
    commands.add(
        "doctor",
        at_desk(doctor),
        "check the store, its workers and its repeats",
    )
    commands.add(
        "migrate", at_desk(migrate, makes=True), "create the database, or update its schema"
    )


async def doctor(desk: Desk) -> Report:
    store = await desk.store()
    findings = [
        Finding("store", location(desk.app)),
        *await store.doctor(),
    ]
    findings += _workers(await store.workers())
    findings += await _repeats(desk)
    ill = any(finding.health is Health.BAD for finding in findings)
    rows = [(finding.health.value, finding.what, finding.found) for finding in findings]
    remedies = [f"  → {finding.what}: {finding.remedy}" for finding in findings if finding.remedy]
    table = Table(("health", "what", "found"), rows)
    return Report(
        {"findings": findings},
        table,
        *([""] if remedies else []),
        *remedies,
        code=Exit.FAILED if ill else Exit.OK,
    )


def _workers(views: list[WorkerView]) -> list[Finding]:
    if not views:
        return [
            Finding("workers", "none is alive", Health.WARN, "start one: mita worker module:app")
        ]
    found = [Finding("workers", f"{len(views)} alive: {listed([view.name for view in views])}")]
    for view in views:
        if abs(view.offset) >= CLOCK_TOLERANCE_MS:
            way = "ahead of" if view.offset > 0 else "behind"
            text = f"the clock of {view.name} is {span(view.offset)} {way} the store's"
            found.append(
                Finding("clock", text, Health.WARN, f"synchronise the clock of {view.host}")
            )
    return found


async def _repeats(desk: Desk) -> list[Finding]:
    records = await desk.app.repeats.all()
    parked = [record for record in records if record.state is RepeatState.PARKED]
    if not parked:
        return [Finding("repeats", counted(len(records), "repeat"))] if records else []
    return [
        Finding(
            "repeats",
            f"{record.key} is parked: {record.reason}",
            Health.BAD,
            "put it again, mended, or `mita repeats rm` it",
        )
        for record in parked
    ]


async def migrate(desk: Desk) -> Report:
    """Report the migration: opening the store has already done it."""
    steps = await (await desk.store()).migrate()
    place = shown(desk.app)
    done = [f"{step}  done" for step in steps]
    return Report({"store": place, "steps": steps}, *done, f"the schema of {place} is up to date")
