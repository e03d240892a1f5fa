"""The commands for repeats: `repeats ls`, `add`, `rm`, `pause`, `resume`, `trigger`, `backfill`,
`next`, `show`, `explain`."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from mita.model.record import RepeatRecord
from mita.rules.words import relative

from . import repeat_add, repeat_backfill, repeat_fires
from .context import CommandContext, store_command
from .exits import Exit
from .parser import Commands, reason_option
from .repeat_fires import known
from .screen import Report
from .table import Column, Table


def add(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    parser = commands.add("repeats", store_command(repeats))
    verbs = Commands(parser, verbs=True)
    verbs.add(
        "ls", store_command(repeats), "list the repeats, with their next fire (this is the default)"
    )
    repeat_add.add(verbs)
    for name, run, help in (
        (
            "rm",
            _switch("remove", "removed; its jobs stay", "was gone already"),
            "remove a repeat; the jobs that it made stay",
        ),
        (
            "pause",
            _switch("pause", "paused", "not paused: it is not active"),
            "make no more jobs of a repeat for now",
        ),
        (
            "resume",
            _switch("resume", "active", "not resumed: it is not paused"),
            "continue a paused repeat",
        ),
        ("trigger", _trigger, "enqueue one job of a repeat now; its schedule does not change"),
    ):
        verb = verbs.add(name, store_command(_known(run)), help)
        verb.add_argument("key", metavar="KEY", help="of the repeat")
        reason_option(verb)
    repeat_backfill.add(verbs)
    repeat_fires.add(verbs)


def _known(
    act: Callable[[CommandContext, str], Awaitable[Report]],
) -> Callable[[CommandContext], Awaitable[Report]]:
    async def run(context: CommandContext) -> Report:
        return await act(context, (await known(context, context.options.key)).key)

    return run


async def repeats(context: CommandContext) -> Report:
    """Run `mita repeats`: list them."""
    records = await context.app.repeats.all()
    data = {"repeats": records}
    if not records:
        return Report(
            data,
            "no repeats: make one with app.repeat(key, task.call(…), Every(60)), or with `mita "
            "repeats add`",
        )
    now = await context.now()
    columns = (
        Column("key", drop_order=1),
        "state",
        "next",
        "last",
        Column("fired", right=True),
        Column("missed", drop_order=5),
        Column("task", drop_order=2),
        Column("pattern", drop_order=3),
        Column("note", drop_order=4),
    )
    return Report(data, Table(columns, [_row(record, now) for record in records]))


def _row(record: RepeatRecord, now: datetime) -> tuple[object, ...]:
    return (
        record.key,
        record.state.value,
        relative(record.next, now),
        relative(record.last, now),
        record.count,
        record.missed,
        record.task,
        record.words,
        record.reason,
    )


async def _trigger(context: CommandContext, key: str) -> Report:
    job = await context.app.repeats.trigger(key)
    said = (
        f"enqueued by {key}"
        if job.created
        else f"not enqueued: this earlier job of {key} has not ended"
    )
    return Report({"key": key, "id": job.id, "created": job.created}, f"{job.id}  {said}")


def _switch(
    act: str, done: str, otherwise: str
) -> Callable[[CommandContext, str], Awaitable[Report]]:
    async def run(context: CommandContext, key: str) -> Report:
        took: bool = await getattr(context.app.repeats, act)(key)
        code = Exit.OK if took else Exit.FAILED
        return Report(
            {"key": key, "done": took}, f"{key}  {done if took else otherwise}", code=code
        )

    return run
