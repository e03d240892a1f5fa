"""Maintenance: `doctor`, `migrate`."""

from mita.flows.ended import is_step
from mita.model.job import State
from mita.model.repeat import RepeatState
from mita.model.view import Finding, Health, JobFilter, WorkerView
from mita.ports.store import Store
from mita.printable import shell_command
from mita.rules.display import span
from mita.rules.explain.waiting import CLOCK_TOLERANCE_MS
from mita.rules.flow import FLOW_TASKS
from mita.rules.readable import UNREADABLE
from mita.rules.sealed import is_sealed, key_of
from mita.rules.words import counted

from .context import CommandContext, location, store_command, store_text
from .exits import Exit
from .parser import Commands
from .screen import Report, listed
from .table import Table

NAMED_JOBS = 20  # that cannot be read
DECRYPTED_JOBS = 1000  # of each state


def add(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    commands.add(
        "doctor",
        store_command(doctor),
    )
    commands.add(
        "migrate",
        store_command(migrate, creates_store=True),
    )


async def doctor(context: CommandContext) -> Report:
    """Run `mita doctor`: the findings of the store, its workers and its repeats."""
    store = await context.store()
    findings = [
        Finding("store", location(context.app)),
        *await store.doctor(),
    ]
    findings += _workers(await store.workers())
    findings += await _repeats(context)
    findings += await unreadable_flows(store)
    if context.app.has_outbox:
        findings += await context.app.outbox.doctor()
    findings += await encrypted_jobs(store)
    has_bad_finding = any(finding.health is Health.BAD for finding in findings)
    rows = [(finding.health.value, finding.what, finding.found) for finding in findings]
    remedies = [f"  → {finding.what}: {finding.remedy}" for finding in findings if finding.remedy]
    table = Table(("health", "what", "found"), rows)
    return Report(
        {"findings": findings},
        table,
        *([""] if remedies else []),
        *remedies,
        code=Exit.FAILED if has_bad_finding else Exit.OK,
    )


def _workers(views: list[WorkerView]) -> list[Finding]:
    if not views:
        return [
            Finding("workers", "none is alive", Health.WARN, "start one: mita worker module:app")
        ]
    found = [Finding("workers", f"{len(views)} alive: {listed([view.name for view in views])}")]
    for view in views:
        if abs(view.offset) >= CLOCK_TOLERANCE_MS:
            direction = "ahead of" if view.offset > 0 else "behind"
            text = f"the clock of {view.name} is {span(view.offset)} {direction} the store's"
            found.append(
                Finding("clock", text, Health.WARN, f"synchronise the clock of {view.host}")
            )
    return found


async def _repeats(context: CommandContext) -> list[Finding]:
    records = await context.app.repeats.all()
    parked = [record for record in records if record.state is RepeatState.PARKED]
    if not parked:
        return [Finding("repeats", counted(len(records), "repeat"))] if records else []
    return [
        Finding(
            "repeats",
            f"{record.key} is parked: {record.reason}",
            Health.BAD,
            f"put it again without the error, or remove it: {_command(context, record.key)}",
        )
        for record in parked
    ]


async def unreadable_flows(store: Store) -> list[Finding]:
    """Flows, and steps of flows, that failed because what is stored of them cannot be read."""
    want = JobFilter(state=State.FAILED, error=f"{UNREADABLE}: ")
    page = await store.page(want, None, NAMED_JOBS)
    ids = [job.id for job in page.jobs if job.task in FLOW_TASKS or is_step(job.id)]
    if not ids:
        return []
    text = f"cannot be read: {', '.join(ids)}"
    return [Finding("flows", text, Health.WARN, "`mita show ID` says why; enqueue the flow again")]


async def encrypted_jobs(store: Store) -> list[Finding]:
    """Jobs that have not ended and that this app cannot decrypt, among the newest of each state."""
    closed = [
        job
        for state in (State.QUEUED, State.BLOCKED, State.RUNNING)
        for job in (await store.page(JobFilter(state=state), None, DECRYPTED_JOBS)).jobs
        if is_sealed(job.payload)
    ]
    if not closed:
        return []
    keys = sorted({key_of(job.payload) or "none" for job in closed})
    named = ", ".join(job.id for job in closed[:NAMED_JOBS])
    more = f" and {len(closed) - NAMED_JOBS:,} more" if len(closed) > NAMED_JOBS else ""
    text = f"cannot decrypt {named}{more}; keys: {', '.join(keys)}"
    remedy = "give --app an app whose keyring has these keys; `mita why ID` says what is wrong"
    return [Finding("encryption", text, Health.WARN, remedy)]


def _command(context: CommandContext, key: str) -> str:
    return shell_command(("mita", *context.command("repeats", "rm", key)))


async def migrate(context: CommandContext) -> Report:
    """Report the migration: opening the store has already done it."""
    steps = await (await context.store()).migrate()
    store = store_text(context.app)
    done = [f"{step}  done" for step in steps]
    return Report({"store": store, "steps": steps}, *done, f"the schema of {store} is up to date")
