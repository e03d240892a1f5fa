"""Reading jobs: `jobs`, `show`."""

from datetime import datetime
from typing import Any

from mita.client.filters import FILTERS
from mita.model.record import WITHHELD, DisplayState, JobRecord
from mita.rules.failures import failure
from mita.rules.words import clock, first_line, length, progress, relative, when

from . import raw
from .argtypes import count, failure_group
from .context import CommandContext, store_command
from .durable import due_text, durable_parts
from .exits import NotFound
from .flows import is_flow, show_flow
from .ids import STEP_DIGITS
from .parser import Commands, Parser
from .screen import Report, listed, plain
from .table import Column, Table

_NEIGHBOUR_JOBS = 200  # jobs to look at for the shortest ids of a choice among them
# what a page of jobs does not have
_ONLY_WHOLE = ("timeline", "failures", "steps", "sleeps", "signals", "waits_for")
ID_HELP = "the id of a job or a flow, or its first digits; FLOW.7 is step 7 of a flow"
COUNTERS = ("attempts", "reschedules", "busy", "interruptions", "crashes")


def add(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    jobs = commands.add("jobs", store_command(show_jobs))
    filters(jobs, states=[state.value for state in DisplayState])
    jobs.add_argument("--limit", type=count, default=20, help="jobs on one page (20; at most 1000)")
    jobs.add_argument(
        "--after", metavar="CURSOR", help="continue after this id, the last one of the page before"
    )
    show = commands.add("show", store_command(show_job))
    show.add_argument("id", metavar="ID", help=ID_HELP)
    show.add_argument(
        "--args", action="store_true", help="show its arguments too, which may be secret"
    )
    show.add_argument(
        "--raw",
        metavar="FILE",
        help="write the stored record to a new file, even if it cannot be read",
    )


def filters(parser: Parser, *, states: list[str]) -> None:
    """Add the options that choose jobs. `states` are the values of `--state`."""
    group = parser.add_argument_group("which jobs")
    group.add_argument("--queue")
    group.add_argument("--task")
    group.add_argument("--state", choices=states)
    group.add_argument("--resource", metavar="KEY")
    group.add_argument("--unique", metavar="KEY")
    group.add_argument("--repeat", metavar="KEY", help="jobs that this repeat made")
    group.add_argument(
        "--error", metavar="TEXT", help="jobs with this text in the type or message of their error"
    )
    group.add_argument("--tag", help="jobs with this tag")
    group.add_argument(
        "--group",
        type=failure_group,
        help="failed jobs of this group, which `mita dead` shows; none: those without a group",
    )


# ---------------------------------------------------------------- jobs


async def show_jobs(context: CommandContext) -> Report:
    """Run `mita jobs`."""
    options = context.options
    want = {name: getattr(options, name) for name in FILTERS}
    page = await context.app.jobs(**want, after=options.after, limit=options.limit)
    data = {"jobs": [job_data(job) for job in page.jobs], "after": page.after}
    if not page.jobs:
        return Report(data, await _nothing(context))
    more = ["", f"more: add --after {page.after}"] if page.after else []
    asked = any(value is not None for value in want.values())
    short = await context.short_ids(
        [job.id for job in page.jobs], _NEIGHBOUR_JOBS if asked else len(page.jobs) + 2
    )
    return Report(data, jobs_table(page.jobs, short, await context.now()), *more)


async def _nothing(context: CommandContext) -> str:
    queues = [view.name for view in await context.app.queues()]
    if context.options.queue and context.options.queue not in queues:
        return (
            f"no jobs: queue {context.options.queue!r} never had any (there are: "
            f"{listed(queues) or 'none yet'})"
        )
    given = [getattr(context.options, name) for name in FILTERS]
    asked = context.options.after or any(value is not None for value in given)
    return "no jobs match" if asked else "no jobs"


def jobs_table(jobs: tuple[JobRecord, ...], short: dict[str, str], now: datetime) -> Table:
    """The jobs as a table. `short` has their shortened ids."""
    task = Column("task", drop_order=1, min_width=10)
    columns = (
        "id",
        "state",
        "when",
        task,
        Column("queue", drop_order=3),
        Column("note", drop_order=2),
    )
    rows = [
        (short[job.id], job.state.value, when(job, now), job.task, job.queue, note(job))
        for job in jobs
    ]
    return Table(columns, rows)


def note(job: JobRecord) -> str:
    """The most important remark about a job."""
    parts = [f"{job.asked} asked"] if job.asked else []
    parts += (
        [first_line(job.error)] if job.error and job.state is not DisplayState.SUCCEEDED else []
    )
    parts += [f"{name} {getattr(job, name)}" for name in COUNTERS if getattr(job, name)]
    key = job.blocked_at or job.resource
    parts += [f"key {key}"] if key else []
    return " · ".join(parts)


def job_data(job: JobRecord, *, whole: bool = False, arguments: bool = False) -> dict[str, Any]:
    """The job as a document, for `--json`. Arguments may be secret, so they are included only on
    request."""
    data: dict[str, Any] = plain(job)
    if not arguments:
        del data["arguments"]
    if not whole:
        for field in _ONLY_WHOLE:
            del data[field]
    return data


# ---------------------------------------------------------------- show


async def show_job(context: CommandContext) -> Report:
    """Run `mita show`."""
    id = await context.id_of(context.options.id)
    if context.options.raw is not None:
        return await raw.export(context, id)
    if await is_flow(context, id):
        return await show_flow(context, id)
    job = await context.app.get(id)
    if job is None:
        raise NotFound(f"job {id} was deleted just now")
    now = await context.now()
    data = {"job": job_data(job, whole=True, arguments=context.options.args)}
    return Report(
        data,
        *_facts(job, now, arguments=context.options.args),
        "",
        _timeline(job, now),
        *durable_parts(job, now),
        *_errors(job),
        *raw.hint(id, job.error),
    )


def _facts(job: JobRecord, now: datetime, *, arguments: bool) -> list[str]:
    facts: dict[str, Any] = {
        "id": job.id,
        "task": job.task,
        "flow": _flow(job.id),
        "queue": f"{job.queue}, priority {job.priority}",
        "state": f"{job.state.value}{f', {job.asked} asked' if job.asked else ''}",
        "created": clock(job.created, now),
        "due": due_text(job, now),
        "started": clock(job.started, now),
        "finished": clock(job.finished, now),
        "counters": listed([f"{name} {getattr(job, name)}" for name in COUNTERS]),
        "options": _options(job),
        "keys": _keys(job),
        "fair": job.fair and f"group {job.fair}",
        "dead group": job.group and f"{job.group} (`mita dead {job.group}` shows it)",
        "unique": job.unique,
        "tags": listed(job.tags),
        "metadata": job.metadata and repr(job.metadata),
        "repeat": job.repeat and f"{job.repeat}, fire of {clock(job.fire_time, now)}",
        "worker": job.worker,
        "progress": progress(job),
        "result": _result(job),
        "arguments": _arguments(job, shown=arguments),
    }
    return [f"{name:<10}  {value}" for name, value in facts.items() if value]


def _flow(id: str) -> str:
    """The flow of a step, or the parent of a child; empty for other jobs."""
    above, point, rest = id.rpartition(".")
    if not point:
        return ""
    is_step = rest.isdecimal() and len(rest) == STEP_DIGITS
    return f"step {int(rest)} of flow {above}" if is_step else f"child of job {above}"


def _options(job: JobRecord) -> str:
    """The limits that the job was given."""
    lengths = {"timeout": job.timeout, "expires": job.expires, "deadline": job.deadline}
    parts = [f"{name} {value:g} s" for name, value in lengths.items() if value is not None]
    most = job.max_reschedules
    return listed(parts if most is None else [*parts, f"max_reschedules {most}"])


def _keys(job: JobRecord) -> str:
    """Its resource keys and the key of its rate; with several, the one at which it waits."""
    waits = f" (waits at {job.blocked_at})" if job.blocked_at and len(job.keys) > 1 else ""
    return f"{listed(job.keys)}{waits}"


def _result(job: JobRecord) -> str:
    if job.secret:
        return WITHHELD if job.state is DisplayState.SUCCEEDED else ""
    return "" if job.result is None else repr(job.result)


def _arguments(job: JobRecord, *, shown: bool) -> str:
    if job.secret and job.arguments is None:
        return WITHHELD
    if job.encrypted:
        return f"encrypted: {job.encrypted}"
    if not shown:
        return "hidden (--args shows them)"
    if job.arguments is None:
        return "they cannot be read"
    return listed([f"{name}={value!r}" for name, value in job.arguments.items()]) or "none"


def _timeline(job: JobRecord, now: datetime) -> Table:
    rows = [
        (_time(line.at), relative(line.at, now), line.kind, line.note, line.worker or "")
        for line in job.timeline
    ]
    return Table(
        ("time", "when", "event", Column("note", drop_order=1), Column("worker", drop_order=2)),
        rows,
    )


def _time(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"


def _errors(job: JobRecord) -> list[str]:
    """Each attempt that failed, and the whole text of the last error."""
    lines: list[str] = []
    for number, attempt in enumerate(job.failures, 1):
        last = (
            attempt is job.failures[-1]
            and job.error is not None
            and failure(job.error) == attempt.text
        )
        ran = "" if attempt.started is None else f" after {length(attempt.ended - attempt.started)}"
        lines += [
            "",
            (
                f"failure {number}: {attempt.kind} at {_time(attempt.ended)}{ran}, by "
                f"{attempt.worker or 'no worker'}"
            ),
        ]
        if last:
            return [*lines, *indented(job.error)]
        lines += indented(attempt.text)
    return [*lines, "", *indented(job.error)] if job.error else lines


def indented(text: str | None) -> list[str]:
    """Indent text, so that none of its lines looks like a line of this report."""
    return [f"  {line}" for line in (text or "").split("\n")]
