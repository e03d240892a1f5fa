"""Reading jobs, queues, workers and resource keys. Nothing here changes anything."""

from collections.abc import Sequence
from typing import Any

from mita.model.gate import StoredLimit
from mita.model.job import Job
from mita.model.outcome import TimelineEntry
from mita.model.time import HOUR, Moment
from mita.model.view import (
    Holder,
    JobFilter,
    Page,
    QueueView,
    ResourceView,
    StoredGroup,
    WorkerView,
)
from mita.rules.dead_groups import SHOWN_HOURS, GroupPart, merged
from mita.rules.gates import tokens_left
from mita.rules.timeline import for_people
from mita.stores.shared import sql
from mita.stores.shared.views import (
    KeyRecord,
    QueueKey,
    as_moment,
    as_name,
    as_worker,
    next_start,
    resource_views,
)

from . import codec
from .codec import Row, ShownJob
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .limits.ready_order import ReadyOrder
from .server.arrays import storable, texts

_DIALECT = sql.Dialect(
    bound="%({})s",
    now="{now}",
    contains="strpos",
    head="""split_part(error, E'\\n  File "', 1)""",
    has_key="(resource = {0} or gates @> jsonb_build_array(jsonb_build_array({0}::text)))",
    has_tag="tags @> jsonb_build_array({}::text)",
)


def now(_: PostgresContext) -> RoundTrips[Moment]:
    """The store's clock."""
    [[(moment,)]] = yield RoundTrip(query("now"), last=True)
    return int(moment)


def queue_names(_: PostgresContext) -> RoundTrips[list[str]]:
    """The names of all queues."""
    [rows] = yield RoundTrip(query("queues"), last=True)
    return [name for name, _ in rows]


def queues(_: PostgresContext) -> RoundTrips[list[QueueView]]:
    """All queues with their counts. One snapshot: otherwise a job that starts between two of the
    statements would be counted as scheduled."""
    names, counts, queued, limits = yield RoundTrip(
        query("queues"),
        query("queues_counts"),
        query("queues_waiting"),
        query("queues_limits"),
        last=True,
        snapshot=True,
    )
    views: dict[str, dict[str, Any]] = {
        name: {"paused": None if paused is None else as_moment(paused)} for name, paused in names
    }
    for name, state, count in counts:
        views.setdefault(name, {})[state] = count
    for name, ready, later, waiting, oldest in queued:
        view = views.setdefault(name, {})
        view["ready"] = view.get("ready", 0) + ready
        view["scheduled"] = view.get("scheduled", 0) + later - waiting
        view["waiting"] = view.get("waiting", 0) + waiting
        if ready:
            view["oldest"] = max(view.get("oldest", 0), oldest)
    for name, found, tat_us, now in limits:
        limit = codec.stored_limit(found)
        views.setdefault(name, {}).update(
            limit=limit,
            tokens=tokens_left(limit, tat_us, now),
            next_start=next_start(limit, tat_us, now),
        )
    return [QueueView(name=name, **view) for name, view in sorted(views.items())]


def find(_: PostgresContext, ids: Sequence[str]) -> RoundTrips[list[Job | None]]:
    """The job of each id; None where there is none."""
    if not ids:
        return []
    [rows] = yield RoundTrip(query("find", ids=texts(list(ids))), last=True)
    found = {job.id: job for job in map(sql.as_job, rows)}
    return [found.get(id) for id in ids]


def page(
    context: PostgresContext, want: JobFilter, after: str | None, limit: int
) -> RoundTrips[Page]:
    """The jobs that match a filter, newest first, from the cursor `after` on."""
    text = context.statements.made("page", where=sql.where(want, after, _DIALECT))
    used = {
        name: value
        for name, value in sql.values(want, after, limit).items()
        if _DIALECT.bound.format(name) in text
    }
    [rows] = yield RoundTrip(Query("page", used, text), last=True)
    return sql.as_page(rows, limit)


def dead_groups(
    _: PostgresContext, queue: str | None, task: str | None, limit: int
) -> RoundTrips[list[StoredGroup]]:
    """Groups of failed jobs, the largest first."""
    asked = {"queue": queue, "task": task, "limit": limit, "hours": SHOWN_HOURS, "hour": HOUR}
    [rows] = yield RoundTrip(query("dead_groups", **asked), last=True)
    return merged([GroupPart(*row) for row in rows], limit)


def timeline(_: PostgresContext, id: str) -> RoundTrips[list[TimelineEntry]]:
    """The timeline of a job."""
    [rows] = yield RoundTrip(query("timeline", id=storable(id)), last=True)
    return for_people([codec.timeline_entry(line) for (lines,) in rows for line in lines or ()])


def ahead(context: PostgresContext, id: str) -> RoundTrips[int | None]:
    """How many jobs run before this one; None if the job is neither ready nor blocked."""
    ageing = context.hints.ageing
    [rows] = yield RoundTrip(query("ahead", id=storable(id), ageing=ageing), last=True)
    if not rows or rows[0][0] is not None:
        return int(rows[0][0]) if rows else None
    [[(turns, *_), *found]] = yield RoundTrip(query("ahead_in_turn", id=storable(id)), last=True)
    jobs = [
        ShownJob(group, priority, due, seq, other, weight=weight)
        for _, priority, group, due, seq, other, weight in found
    ]
    return ReadyOrder(jobs, codec.turns(turns), ageing).before(id)


def workers(_: PostgresContext) -> RoundTrips[list[WorkerView]]:
    """The workers whose heartbeats have not expired."""
    [rows] = yield RoundTrip(query("workers"), last=True)
    return [view for (packed,) in rows if (view := as_worker(packed)) is not None]


def resources(
    _: PostgresContext, queue: str | None = None, key: str | None = None
) -> RoundTrips[list[ResourceView]]:
    """The keys that are held, waited for, on hold or limited, of one queue and key or of all."""
    which = {"queue": queue, "key": key}
    held_by, waited_for, on_hold, limited = yield RoundTrip(
        query("resources_holders", **which),
        query("resources_waiting", **which),
        query("resources_holds", **which),
        query("resources_limits", **which),
        last=True,
        snapshot=True,
    )
    holders: dict[tuple[str, str], list[Holder]] = {}
    for where, name, id, worker, since in held_by:
        holders.setdefault((where, name), []).append(Holder(id, worker, since and as_moment(since)))
    waiting = {(where, as_name(name)): count for where, name, count in waited_for}
    held = {(where, name): as_moment(until) for where, name, until in on_hold}
    return resource_views(holders, waiting, held, dict(map(_key_record, limited)))


def _key_record(row: Row) -> tuple[QueueKey, KeyRecord]:
    queue, key, tat_us, interval_us, burst, found, now = row
    rate = StoredLimit(None, interval_us, burst) if interval_us > 0 < burst else StoredLimit()
    record = KeyRecord(
        codec.stored_limit(found), rate.interval_us, rate.burst, next_start(rate, tat_us, now)
    )
    return (queue, key), record
