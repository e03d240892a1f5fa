"""Stored rules that make jobs: `repeats ls`, `next`, `pause`, `resume`, `trigger`, `rm`."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from mita.errors import UsageError
from mita.model.record import RepeatRecord

from .desk import Desk, at_desk
from .exits import Exit, NotFound
from .parser import Commands
from .screen import Report, listed
from .table import Column, Table
from .values import count
from .words import clock, relative

VERBS = ("ls", "next", "pause", "resume", "trigger", "rm")


def add(commands: Commands) -> None:
    about = "`next` shows\nthe coming fires, `trigger` makes one job now, `rm` forgets the repeat and keeps\nits jobs."
    parser = commands.add(
        "repeats", at_desk(repeats), "list, preview, pause, resume, trigger or remove repeats", about=about
    )
    parser.add_argument("verb", nargs="?", choices=VERBS, default="ls")
    parser.add_argument("key", metavar="KEY", nargs="?", help="of the repeat; all verbs but ls need it")
    parser.add_argument("-n", type=count, default=10, metavar="N", help="how many fires `next` shows (10)")


async def repeats(desk: Desk) -> Report:
    verb, key = desk.options.verb, desk.options.key
    if verb == "ls":
        return await _list(desk)
    known = [repeat.key for repeat in await desk.app.repeats.all()]
    there = f"there are: {listed(known) or 'none'}"
    if key is None:
        raise UsageError(f"which repeat? Say `mita repeats {verb} KEY`; {there}")
    if key not in known:
        raise NotFound(f"no repeat {key!r} is in the store; {there}")
    return await _VERBS[verb](desk, key)


async def _list(desk: Desk) -> Report:
    records = await desk.app.repeats.all()
    data = {"repeats": records}
    if not records:
        return Report(data, "no repeats: make one with app.repeat(key, task.call(…), Every(60))")
    now = await desk.now()
    columns = (
        Column("key", gives=1),
        "state",
        "next",
        "last",
        Column("fired", right=True),
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
        record.task,
        record.words,
        record.reason,
    )


async def _next(desk: Desk, key: str) -> Report:
    fires = await desk.app.repeats.preview(key, desk.options.n)
    now = await desk.now()
    return Report({"key": key, "fires": fires}, *([clock(fire, now) for fire in fires] or ["it fires no more"]))


async def _trigger(desk: Desk, key: str) -> Report:
    job = await desk.app.repeats.trigger(key)
    return Report({"key": key, "id": job.id, "created": job.created}, f"{job.id}  enqueued by {key}")


def _switch(act: str, done: str, otherwise: str) -> Callable[[Desk, str], Awaitable[Report]]:
    async def run(desk: Desk, key: str) -> Report:
        took: bool = await getattr(desk.app.repeats, act)(key)
        code = Exit.OK if took else Exit.FAILED
        return Report({"key": key, "done": took}, f"{key}  {done if took else otherwise}", code=code)

    return run


_VERBS: dict[str, Callable[[Desk, str], Awaitable[Report]]] = {
    "next": _next,
    "trigger": _trigger,
    "pause": _switch("pause", "paused", "not paused: it is not active"),
    "resume": _switch("resume", "active", "not resumed: it is not paused"),
    "rm": _switch("remove", "removed; its jobs stay", "was gone already"),
}
