"""Reading jobs, queues, resource keys and workers. Nothing here changes anything."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.model.gate import Gate
from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry
from mita.model.time import Moment, Wait
from mita.model.view import (
    Holder,
    JobFilter,
    Page,
    QueueView,
    ResourceView,
    StoredGroup,
    WorkerView,
)
from mita.rules.dead_groups import GroupPart, hour_starts, largest, merged
from mita.rules.gates import tokens_left
from mita.rules.readable import BAD
from mita.rules.timeline import for_people
from mita.stores.shared import sql
from mita.stores.shared.views import (
    KeyRecord,
    as_moment,
    as_name,
    as_worker,
    next_start,
    resource_views,
)

from .codec import is_text, to_timeline_entry
from .context import HasThreads, SqliteContext, as_json
from .file.few_jobs import few_jobs
from .limits import turns
from .limits.key_states import as_limit, as_number_us

# those of `queues_counts`; queued jobs are counted by `queues_queued`
_COUNTED_STATES = frozenset(State) - {State.QUEUED}
_TRACEBACK = """char(10) || '  File "'"""
_HAS_KEY = """\
(resource = {0} or (gates <> '[]' and case when json_valid(gates) then exists (
  select 1 from json_each(gates) as g where json_extract(g.value, '$[0]') = {0}) end))"""
_DIALECT = sql.Dialect(
    bound=":{}",
    now=":now",
    contains="instr",
    head=f"substr(error, 1, instr(error || {_TRACEBACK}, {_TRACEBACK}) - 1)",
    has_key=_HAS_KEY,
    has_tag="seq in (select job from _mita_tag where tag = {})",
)


def now(context: SqliteContext) -> Moment:
    """The store's clock."""
    return context.now


def queue_names(context: SqliteContext) -> list[str]:
    """The names of all queues, sorted."""
    return [name for name, *_ in context.rows("queues") if is_text([name])]


def queues(context: SqliteContext) -> list[QueueView]:
    """All queues with their counts. The three statements read one snapshot: a job that starts
    between two of them would be counted in no state."""
    context.connection.execute("begin")
    try:
        return _queues(context)
    finally:
        context.connection.execute("commit")


def _queues(context: SqliteContext) -> list[QueueView]:
    counts: dict[str, dict[str, Any]] = {
        as_name(name): {
            "paused": None if paused is None else as_moment(paused),
            "limit": (limit := as_limit(text)),
            "tokens": tokens_left(limit, as_number_us(tat_us), context.now),
            "next_start": next_start(limit, as_number_us(tat_us), context.now),
        }
        for name, paused, text, tat_us in context.rows("queues")
    }
    for name, state, count in context.rows("queues_counts"):
        if state in _COUNTED_STATES:  # a record that cannot be read may say anything
            counts.setdefault(as_name(name), {})[state] = count
    for name, ready, oldest, later, waiting in context.rows("queues_queued", now=context.now):
        view = counts.setdefault(as_name(name), {})
        view.update(ready=ready, scheduled=later - waiting, waiting=waiting)
        view["oldest"] = None if oldest is None else context.now - as_moment(oldest)
    return [QueueView(name=name, **view) for name, view in sorted(counts.items())]


def find(context: SqliteContext, ids: Sequence[str]) -> list[Job | None]:
    """The jobs with these ids; None where there is none."""
    found = {job.id: job for job in map(sql.as_job, context.rows("find", ids=as_json(ids)))}
    return [found.get(id) for id in ids]


def page(context: SqliteContext, want: JobFilter, after: str | None, limit: int) -> Page:
    """Jobs that match, newest first, with ids below `after`."""
    where = context.sql.filled_in(sql.where(want, after, _DIALECT))
    values = sql.values(want, after, limit) | {"now": context.now}
    few = few_jobs(context, want)
    if few is not None:
        where += " and seq in (select value from json_each(:few))"
        values["few"] = as_json(few)
    text = context.sql["page"].replace("{where}", where)
    return sql.as_page(context.connection.execute(text, values).fetchall(), limit)


def dead_groups(
    context: SqliteContext, queue: str | None, task: str | None, limit: int
) -> list[StoredGroup]:
    """Groups of failed jobs, the largest first. Only the hours of these are counted. All statements
    read one snapshot."""
    context.connection.execute("begin")
    try:
        found = [
            GroupPart(as_name(group), count, 0, as_moment(last), "", of=(group, where, name))
            for group, where, name, count, last in context.rows(
                "dead_groups", queue=queue, task=task
            )
        ]
        return merged([_group_part(context, part) for part in largest(found, limit)], limit)
    finally:
        context.connection.execute("commit")


def _group_part(context: SqliteContext, part: GroupPart) -> GroupPart:
    which = dict(zip(("group", "queue", "task"), part.of, strict=True))
    first, sample = context.row("dead_groups_times", **which)
    starts = as_json(hour_starts(context.now))
    hours = [count for (count,) in context.rows("dead_groups_hours", starts=starts, **which)]
    return replace(part, first=as_moment(first), sample=as_name(sample), hours=hours)


def raw(context: SqliteContext, id: str) -> dict[str, bytes] | None:
    """The columns of a job as they are in the file: a text as its bytes, a number in digits."""
    table = context.connection.execute(context.sql.filled_in("pragma table_info(_mita_job)"))
    names = [row[1] for row in table]
    columns = ", ".join(f"cast({name} as blob)" for name in names)
    text = context.sql.filled_in(f"select {columns} from _mita_job where id = :id")  # noqa: S608
    row: Any = context.connection.execute(text, {"id": id}).fetchone()
    if row is None:
        return None
    found = zip(names, row, strict=True)
    return {name: bytes(value) for name, value in found if value is not None}


def timeline(context: SqliteContext, id: str) -> list[TimelineEntry]:
    """The timeline of a job, oldest line first."""
    return for_people([to_timeline_entry(row) for row in context.rows("timeline", id=id)])


async def ahead(store: HasThreads, id: str) -> int | None:
    """How many jobs start before this ready or blocked job; None for other jobs."""
    return await store.reader.call(_ahead, (id, store.ageing), durable=False)


def _ahead(context: SqliteContext, id: str, ageing: Wait | None) -> int | None:
    found = context.row("ahead_state", id=id)
    if found is None:
        return None
    state, queue, priority, due, seq, has_groups = found
    if state == State.BLOCKED:
        return int(context.value("ahead_blocked", id=id))
    if state == State.QUEUED and isinstance(due, int) and due <= context.now:
        if has_groups:
            return turns.ahead(context, queue, seq, ageing)
        which = {"queue": queue, "priority": priority, "due": due, "seq": seq}
        return int(context.value("ahead_ready", now=context.now, ageing=ageing, **which))
    return None


def workers(context: SqliteContext) -> list[WorkerView]:
    """The workers whose last heartbeat has not expired."""
    views = [as_worker(packed) for (packed,) in context.rows("workers", now=context.now)]
    return [view for view in views if view is not None]


def resources(
    context: SqliteContext, queue: str | None = None, key: str | None = None
) -> list[ResourceView]:
    """Keys that running jobs have, that jobs wait for, that are on hold or limited."""
    which = {"queue": queue, "key": key}
    holders: dict[tuple[str, str], list[Holder]] = {}
    for where, name, id, worker, since in context.rows("resources_holders", **which):
        holder = Holder(
            as_name(id), None if worker is None else as_name(worker), since and as_moment(since)
        )
        holders.setdefault(_key(where, name), []).append(holder)
    waiting = {
        _key(where, name): count
        for where, name, count in context.rows("resources_waiting", **which)
    }
    held = {
        _key(where, name): as_moment(until)
        for where, name, until in context.rows("resources_holds", now=context.now, **which)
    }
    records = {
        _key(where, name): _key_record(context, name, *record)
        for where, name, *record in context.rows("resources_records", **which)
    }
    return resource_views(holders, waiting, held, records)


def _key_record(
    context: SqliteContext, key: str, tat_us: Any, interval_us: Any, burst: Any, limit: Any
) -> KeyRecord:
    try:
        rate = msgspec.convert([key, None, interval_us, burst], Gate)
    except BAD:
        rate = Gate(as_name(key))
    moment = next_start(rate, as_number_us(tat_us), context.now)
    return KeyRecord(as_limit(limit), rate.interval_us, rate.burst, moment)


def _key(queue: Any, key: Any) -> tuple[str, str]:
    return as_name(queue), as_name(key)
