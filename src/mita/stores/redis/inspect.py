"""Reading. None of this changes anything of a job."""

import asyncio
import heapq
from collections.abc import Sequence
from typing import Any

import msgspec

from mita.model.job import Job
from mita.model.outcome import TimelineEntry
from mita.model.view import Holder, JobFilter, Page, QueueView, ResourceView, WorkerView
from mita.stores.shared.views import as_moment, as_name, as_worker

from .codec import as_job, as_timeline
from .context import Room, parts


async def queues(room: Room) -> list[QueueView]:
    names = await room.queues()
    return [
        QueueView(
            name=name,
            scheduled=row[0],
            ready=row[1],
            blocked=row[2],
            running=row[3],
            succeeded=row[4],
            failed=row[5],
            cancelled=row[6],
            oldest=row[7],
            paused=_moment(row[8]),
        )
        for name, row in zip(names, await room.in_each("count", names, room.now()), strict=True)
    ]


async def find(room: Room, ids: Sequence[str]) -> list[Job | None]:
    found = await room.by_id("find", ids)
    return [as_job(found[id][1], found[id][0], id) if id in found else None for id in ids]


async def page(room: Room, want: JobFilter, after: str | None, limit: int) -> Page:
    names = [want.queue] if want.queue is not None else await room.queues()
    wish = _wish(want)
    matching = await asyncio.gather(
        *(_matching(room, queue, wish, after or "", limit + 1) for queue in names)
    )
    ids = heapq.nlargest(limit + 1, (id for some in matching for id in some))
    where = {id: queue for queue, some in zip(names, matching, strict=True) for id in some}
    jobs = [job for job in await _fetch(room, ids[:limit], where) if job is not None]
    return Page(jobs, ids[limit - 1] if len(ids) > limit else None)


def _wish(want: JobFilter) -> list[str]:
    scheduled = "" if want.scheduled is None else str(int(want.scheduled))
    fields = (want.task, want.resource, want.unique, want.repeat, want.error)
    return [
        "" if want.state is None else want.state.value,
        scheduled,
        *(field or "" for field in fields),
    ]


async def _matching(room: Room, queue: str, wish: list[str], after: str, limit: int) -> list[str]:
    """The newest ids of one queue that match: a slice at a time, so that the server is never busy
    with this for long."""
    found: list[str] = []
    start: str | None = after
    while start is not None and len(found) < limit:
        said = await room.in_queue(
            "page", queue, room.now(), start, min(limit - len(found), 1000), *wish
        )
        if said is None:
            await _index(room, queue)
            continue
        ids, following = said
        found += [id.decode("utf-8", "backslashreplace") for id in ids]
        start = None if following is None else following.decode("utf-8", "replace")
    return found


async def _index(room: Room, queue: str) -> None:
    """Ids are kept in order only while somebody looks: the first look brings them in order, a slice
    at a time."""
    while not await room.in_queue("index", queue, room.now()):
        pass


async def _fetch(room: Room, ids: list[str], where: dict[str, str]) -> list[Job | None]:
    by_queue: dict[str, list[str]] = {}
    for id in ids:
        by_queue.setdefault(where[id], []).append(id)
    jobs: dict[str, Job] = {}
    for queue, some in by_queue.items():
        for part in parts(some):
            rows: list[Any] = await room.in_queue("find", queue, *part)
            jobs.update(
                {
                    id: as_job(row, queue, id)
                    for id, row in zip(part, rows, strict=True)
                    if row is not None
                }
            )
    return [jobs.get(id) for id in ids]


async def raw(room: Room, id: str) -> dict[str, bytes] | None:
    """The parts of a job by the name of the hash they lie in."""
    found = await room.by_id("raw", [id])
    if id not in found:
        return None
    parts = found[id][1]
    return {name.decode(): text for name, text in zip(parts[::2], parts[1::2], strict=True)}


async def timeline(room: Room, id: str) -> list[TimelineEntry]:
    for said in await _about(room, "timeline", id):
        return as_timeline(said)
    return []


async def ahead(room: Room, id: str) -> int | None:
    for said in await _about(room, "ahead", room.now(), id):
        return None if said < 0 else int(said)
    return None


async def _about(room: Room, name: str, *args: Any) -> list[Any]:
    """What the queue that has the job says of it."""
    return [
        said for said in await room.in_each(name, await room.queues(), *args) if said is not None
    ]


async def workers(room: Room) -> list[WorkerView]:
    rows = await room.shared("workers", room.now())
    views = [
        msgspec.structs.replace(view, seen=seen or 0)
        for packed, seen in rows
        if (view := as_worker(packed)) is not None
    ]
    return sorted(views, key=lambda view: view.id)


async def resources(room: Room, queue: str | None, key: str | None) -> list[ResourceView]:
    names = [queue] if queue is not None else await room.places()
    views = []
    for name, rows in zip(
        names, await room.in_each("resources", names, room.now(), key or ""), strict=True
    ):
        for found, waiting, until, holders in rows:
            holding = [Holder(as_name(id), _name(worker), since) for id, worker, since in holders]
            holding.sort(key=lambda holder: holder.since or 0)
            views.append(
                ResourceView(
                    queue=name,
                    key=as_name(found),
                    holders=tuple(holding),
                    waiting=waiting,
                    held_until=_moment(until),
                )
            )
    return sorted(views, key=lambda view: (view.queue, view.key))


def _name(worker: Any) -> str | None:
    return as_name(worker) if isinstance(worker, bytes) else None


def _moment(until: Any) -> int | None:
    return None if until is None else as_moment(until)
