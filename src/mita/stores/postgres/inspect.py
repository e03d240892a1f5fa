"""Reading. None of this changes anything."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry
from mita.model.time import Moment
from mita.model.view import Holder, JobFilter, Page, QueueView, ResourceView, WorkerView
from mita.rules.readable import BAD
from mita.rules.timeline import told
from mita.stores.shared import sql
from mita.stores.shared.views import as_moment, as_worker, resource_views

from .arrays import storable, texts
from .statements import Statements
from .steps import Act, Ask, Step, Steps, ask

_DIALECT = sql.Dialect(
    bound="%({})s", now="{now}", contains="strpos", head="""split_part(error, E'\\n  File "', 1)"""
)


class _Line(TimelineEntry, array_like=True, frozen=True):
    """A line of a timeline as it is written down. Only one that tells of a failed run has its last
    two parts."""


_read_line = msgspec.json.Decoder(_Line).decode


def now(_: Act) -> Steps[Moment]:
    [[(moment,)]] = yield Step(ask("now"), last=True)
    return int(moment)


def queue_names(_: Act) -> Steps[list[str]]:
    [rows] = yield Step(ask("queues"), last=True)
    return [name for name, _ in rows]


def queues(_: Act) -> Steps[list[QueueView]]:
    """A job that starts between two of these questions would be counted as one that is not due."""
    names, counts, ready = yield Step(
        ask("queues"), ask("counts"), ask("ready"), last=True, still=True
    )
    views: dict[str, dict[str, Any]] = {
        name: {"scheduled": 0, "paused": None if paused is None else as_moment(paused)}
        for name, paused in names
    }
    for name, state, count in counts:
        views.setdefault(name, {"scheduled": 0})[
            "scheduled" if state == State.QUEUED else state
        ] = count
    for name, count, oldest in ready:
        views[name].update(
            ready=count, scheduled=max(0, views[name]["scheduled"] - count), oldest=oldest
        )
    return [QueueView(name=name, **view) for name, view in sorted(views.items())]


def find(_: Act, ids: Sequence[str]) -> Steps[list[Job | None]]:
    [rows] = yield Step(ask("find", ids=texts(list(ids))), last=True)
    found = {job.id: job for job in map(sql.as_job, rows)}
    return [found.get(id) for id in ids]


def page(
    _: Act, statements: Statements, want: JobFilter, after: str | None, limit: int
) -> Steps[Page]:
    text = statements["page"].replace("{where}", statements.fill(sql.where(want, after, _DIALECT)))
    used = {
        name: value
        for name, value in sql.values(want, after, limit).items()
        if _DIALECT.bound.format(name) in text
    }
    [rows] = yield Step(Ask("page", used, text), last=True)
    return sql.as_page(rows, limit)


def timeline(_: Act, id: str) -> Steps[list[TimelineEntry]]:
    [rows] = yield Step(ask("timeline", id=storable(id)), last=True)
    return told([_event(line) for (lines,) in rows for line in lines or ()])


def _event(line: Any) -> TimelineEntry:
    try:
        return TimelineEntry(*astuple(_read_line(line)))
    except BAD as error:
        return TimelineEntry(0, "unreadable", f"this line cannot be read: {error}")


def ahead(_: Act, id: str) -> Steps[int | None]:
    [rows] = yield Step(ask("ahead", id=storable(id)), last=True)
    return int(rows[0][0]) if rows else None


def workers(_: Act) -> Steps[list[WorkerView]]:
    [rows] = yield Step(ask("workers"), last=True)
    return [view for (packed,) in rows if (view := as_worker(packed)) is not None]


def resources(_: Act, queue: str | None, key: str | None) -> Steps[list[ResourceView]]:
    which = {"queue": queue, "key": key}
    held_by, waited_for, on_hold = yield Step(
        ask("holders", **which),
        ask("waiting", **which),
        ask("holds", **which),
        last=True,
        still=True,
    )
    holders: dict[tuple[str, str], list[Holder]] = {}
    for where, name, id, worker, since in held_by:
        holders.setdefault((where, name), []).append(Holder(id, worker, since and as_moment(since)))
    waiting = {(where, name): count for where, name, count in waited_for}
    held = {(where, name): as_moment(until) for where, name, until in on_hold}
    return resource_views(holders, waiting, held)
