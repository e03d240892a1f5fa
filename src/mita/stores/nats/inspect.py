"""Reading: what people see. None of this changes anything."""

from collections import Counter as Counters
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

from mita.model.job import Job
from mita.model.outcome import TimelineEntry
from mita.model.time import Moment
from mita.model.view import Holder, JobFilter, Page, QueueView, ResourceView, WorkerView
from mita.rules.matching import matches, shown_as

from .codec import Glance, KeyRecord, Record, as_job, timeline
from .context import Context
from .job_records import Place, locate
from .reading import read_glance, read_key, read_presence, read_queue, read_record
from .subjects import name
from .tx import Tx

LOOK_AT = 200  # jobs read at once for a page

R = TypeVar("R", Record, Glance)


async def find(context: Context, ids: Sequence[str]) -> list[Job | None]:
    places = await locate(context, dict.fromkeys(ids))
    return [_as_job(places[id]) for id in ids]


def _as_job(place: Place) -> Job | None:
    return None if place.record is None else as_job(place.record)


async def raw(context: Context, id: str) -> dict[str, bytes] | None:
    """The messages of a job by their subjects."""
    found = await context.reader.last([context.subjects.anywhere(id)])
    return {message.subject: message.body for message in found if message.body} or None


async def events(context: Context, id: str) -> list[TimelineEntry]:
    record = (await Tx(context).job(id)).record
    return [] if record is None else timeline(record)


async def standing(context: Context, queue: str | None, read: Callable[[bytes, str], R]) -> list[R]:
    """What is read of every job of a queue, or of all. Of a home and a ticket the one that comes
    later is true."""
    newest: dict[str, R] = {}
    async for found in context.reader.scan(context.subjects.jobs(queue)):
        for message in found:
            if message.body:
                newest[message.subject.rsplit(".", 1)[1]] = read(message.body, message.subject)
    return [record for record in newest.values() if record.id]


async def queue_names(context: Context) -> list[str]:
    found = await context.reader.all(context.subjects.all("q"))
    return sorted(read_queue(message.body, message.subject).name for message in found)


async def queues(context: Context) -> list[QueueView]:
    known = [
        read_queue(message.body, message.subject)
        for message in await context.reader.all(context.subjects.all("q"))
    ]
    counts: dict[str, Counters[str]] = {record.name: Counters() for record in known}
    oldest: dict[str, Moment] = {}
    now = context.clock.now()
    for record in await standing(context, None, read_glance):
        shown = shown_as(record.state, record.due, now)
        counts.setdefault(record.queue, Counters())[shown] += 1
        if shown == "ready":
            oldest[record.queue] = min(record.due, oldest.get(record.queue, record.due))
    return [
        QueueView(
            name=record.name,
            paused=record.paused,
            oldest=now - oldest[record.name] if record.name in oldest else None,
            **counts[record.name],
        )
        for record in sorted(known, key=lambda record: record.name)
    ]


async def page(context: Context, want: JobFilter, after: str | None, limit: int) -> Page:
    ids = sorted(
        (id for id in await _ids(context, want.queue) if after is None or id < after), reverse=True
    )
    now = context.clock.now()
    jobs: list[Job] = []
    for at in range(0, len(ids), LOOK_AT):
        found = await find(context, ids[at : at + LOOK_AT])
        jobs += [job for job in found if job is not None and matches(job, want, now)]
        if len(jobs) > limit:
            break
    return Page(jobs[:limit], jobs[limit - 1].id if len(jobs) > limit else None)


async def _ids(context: Context, queue: str | None) -> set[str]:
    """The ids of all jobs there may be, from the subjects alone."""
    ids: set[str] = set()
    async for found in subjects_like(context, context.subjects.jobs(queue)):
        ids.update(name(one.rsplit(".", 1)[1]) for one in found)
    return ids


async def subjects_like(context: Context, subject: str) -> AsyncIterator[Iterable[str]]:
    """The subjects that have a message, some thousands at a time."""
    offset = 0
    while True:
        question = {"subjects_filter": subject, "offset": offset}
        answer = await context.wire.api(f"STREAM.INFO.{context.subjects.stream}", question)
        found = answer.get("state", {}).get("subjects") or {}
        yield found
        offset += len(found)
        if not found or offset >= answer.get("total", 0):
            return


async def ahead(context: Context, id: str) -> int | None:
    record = (await Tx(context).job(id)).record
    now = context.clock.now()
    if record is None:
        return None
    shown = shown_as(record.state, record.due, now)
    if shown not in ("ready", "blocked"):
        return None
    line = [
        (-other.priority, other.due, other.age, other.id)
        for other in await standing(context, record.queue, read_record)
        if shown_as(other.state, other.due, now) == shown
        and (shown == "ready" or other.resource == record.resource)
    ]
    # it may have left the line since it was read
    own = (-record.priority, record.due, record.age, record.id)
    return sum(other < own for other in line)


async def workers(context: Context) -> list[WorkerView]:
    now = context.clock.now()
    found = await context.reader.all(context.subjects.all("w"))
    present = [read_presence(message.body) for message in found if message.body]
    return sorted(
        (one.worker for one in present if one is not None and one.until > now),
        key=lambda worker: worker.id,
    )


async def resources(context: Context, queue: str | None, key: str | None) -> list[ResourceView]:
    now = context.clock.now()
    found = await context.reader.all(context.subjects.all("k"))
    read = [read_key(message.body, message.subject) for message in found if message.body]
    keys = {(one.queue, one.key): one for one in read if one is not None}
    holds: dict[tuple[str, str], Moment] = {}
    for message in await context.reader.all(context.subjects.all("q")):
        record = read_queue(message.body, message.subject)
        holds |= {(record.name, name): until for name, until in record.holds.items() if until > now}
    places = [
        where
        for where in sorted({*keys, *holds})
        if queue in (None, where[0]) and key in (None, where[1])
    ]
    return [
        await _resource(context, keys.get(where, KeyRecord(*where)), holds.get(where))
        for where in places
    ]


async def _resource(context: Context, key: KeyRecord, until: Moment | None) -> ResourceView:
    holders = [
        place.record
        for place in (await locate(context, key.holders)).values()
        if place.record is not None
    ]
    holders.sort(key=lambda record: (record.started or 0, record.age))
    return ResourceView(
        queue=key.queue,
        key=key.key,
        holders=tuple(Holder(record.id, record.worker, record.started) for record in holders),
        waiting=key.waiting,
        held_until=until,
    )
