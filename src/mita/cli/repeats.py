"""The commands for repeats: `repeats ls`, `add`, `rm`, `pause`, `resume`, `trigger`, `next`,
`show`, `explain`."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from mita.model.record import RepeatRecord

from . import repeat_add, repeat_fires
from .context import Desk, at_desk
from .exits import Exit
from .format import relative
from .parser import Commands
from .repeat_fires import known
from .screen import Report
from .table import Column, Table


def add(commands: Commands) -> None:
    parser = commands.add("repeats", at_desk(repeats), "list, add, explain or remove repeats")
    verbs = Commands(parser, verbs=True)
    verbs.add(
        "ls", at_desk(repeats), "list the repeats, with their next fire (this is the default)"
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
        verb = verbs.add(name, at_desk(_known(run)), help)
        verb.add_argument("key", metavar="KEY", help="of the repeat")
    repeat_fires.add(verbs)


def _known(act: Callable[[Desk, str], Awaitable[Report]]) -> Callable[[Desk], Awaitable[Report]]:
    async def run(desk: Desk) -> Report:
        return await act(desk, (await known(desk, desk.options.key)).key)

    return run


async def repeats(desk: Desk) -> Report:
    records = await desk.app.repeats.all()
    data = {"repeats": records}
    if not records:
        return Report(
            data,
            "no repeats: make one with app.repeat(key, task.call(…), Every(60)), or with `mita "
            "repeats add`",
        )
    now = await desk.now()
    columns = (
        Column("key", gives=1),
        "state",
        "next",
        "last",
        Column("fired", right=True),
        Column("missed", gives=5),
        Column("task", gives=2),
        Column("pattern", gives=3),
        Column("note", gives=4),
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


async def _trigger(desk: Desk, key: str) -> Report:
    job = await desk.app.repeats.trigger(key)
    said = (
        f"enqueued by {key}"
        if job.created
        else f"not enqueued: this earlier job of {key} has not ended"
    )
    return Report({"key": key, "id": job.id, "created": job.created}, f"{job.id}  {said}")


def _switch(act: str, done: str, otherwise: str) -> Callable[[Desk, str], Awaitable[Report]]:
    async def run(desk: Desk, key: str) -> Report:
        took: bool = await getattr(desk.app.repeats, act)(key)
        code = Exit.OK if took else Exit.FAILED
        return Report(
            {"key": key, "done": took}, f"{key}  {done if took else otherwise}", code=code
        )

    return run
