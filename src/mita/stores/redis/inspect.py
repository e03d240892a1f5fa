"""Reading jobs, queues and workers. Nothing here changes a job."""

import asyncio
import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry
from mita.model.time import Moment
from mita.model.view import JobFilter, Page, QueueView, StoredGroup, WorkerView
from mita.rules.dead_groups import GroupPart, counted, hour_starts, largest, merged
from mita.rules.matching import stored_state
from mita.rules.options import options_of
from mita.stores.shared.views import as_moment, as_worker

from .codec import as_job, as_limit, as_timeline
from .context import RedisContext, parts
from .scripting.constants import CALL_ITEMS

HOURS_CALL_GROUPS = 40  # so that the server is never busy with a call for long
# what `lua/queues.lua` returns, before the moment of the pause, the limit and the next start
_COUNTS = (
    "waiting",
    "scheduled",
    "ready",
    "blocked",
    "running",
    "succeeded",
    "failed",
    "cancelled",
    "oldest",
)


async def now(context: RedisContext) -> Moment:
    """The store's time."""
    return await context.read_clock()


async def queue_names(context: RedisContext) -> list[str]:
    """Every queue that ever had a job or was paused, sorted."""
    return await context.queues()


async def queues(context: RedisContext) -> list[QueueView]:
    """The same queues with their counts."""
    names = await context.queues()
    rows = await context.in_each("queues", names, context.now())
    views = []
    for name, (*counts, paused, limit, tokens, next_start) in zip(names, rows, strict=True):
        view = QueueView(
            name=name,
            paused=None if paused is None else as_moment(paused),
            limit=as_limit(limit),
            tokens=tokens,
            next_start=next_start,
            **dict(zip(_COUNTS, counts, strict=True)),
        )
        views.append(view)
    return views


async def find(context: RedisContext, ids: Sequence[str]) -> list[Job | None]:
    """The jobs with these ids; None for one that is not stored."""
    found = await context.by_id("find", ids) if ids else {}
    return [as_job(found[id][1], found[id][0], id) if id in found else None for id in ids]


async def page(context: RedisContext, want: JobFilter, after: str | None, limit: int) -> Page:
    """Up to `limit` jobs that match, newest id first, with ids below `after`."""
    if want.tag is None:
        return await _page(context, want, after, limit)
    found: list[Job] = []
    while True:
        part = await _page(context, want, after, limit + 1)
        found += [job for job in part.jobs if want.tag in options_of(job.options).tags]
        if len(found) > limit or part.after is None:
            return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)
        after = part.after


async def _page(context: RedisContext, want: JobFilter, after: str | None, limit: int) -> Page:
    """The same, but with a tag also jobs whose records only contain its text: the scripts do not
    read the options of a job."""
    names = [want.queue] if want.queue is not None else await context.queues()
    args = _filter_args(want)
    matching = await asyncio.gather(
        *(_matching_ids(context, queue, args, after or "", limit + 1) for queue in names)
    )
    ids = heapq.nlargest(limit + 1, (id for some in matching for id in some))
    queue_of = {id: queue for queue, some in zip(names, matching, strict=True) for id in some}
    jobs = [job for job in await _read_jobs(context, ids[:limit], queue_of) if job is not None]
    return Page(jobs, ids[limit - 1] if len(ids) > limit else None)


def _filter_args(want: JobFilter) -> list[str]:
    """The filter as `lua/page.lua` reads it."""
    state = want.state
    if state is None and want.shown is not None:
        state = stored_state(want.shown)
    fields = (state, want.shown, want.task, want.resource, want.unique, want.repeat, want.error)
    group = None if want.group is None else f"={want.group}"
    return [field or "" for field in (*fields, want.tag, group)]


async def _matching_ids(
    context: RedisContext, queue: str, args: list[str], after: str, limit: int
) -> list[str]:
    """The newest ids of one queue that match. Each call looks at a part of the queue, so that the
    server is never busy with this for long."""
    found: list[str] = []
    start: str | None = after
    while start is not None and len(found) < limit:
        wanted = min(limit - len(found), CALL_ITEMS)
        answer = await context.in_queue("page", queue, context.now(), start, wanted, *args)
        if answer is None:
            await _build_index(context, queue)
            continue
        ids, following = answer
        found += [id.decode("utf-8", "backslashreplace") for id in ids]
        start = None if following is None else following.decode("utf-8", "replace")
    return found


async def _build_index(context: RedisContext, queue: str) -> None:
    """Sort the ids of a queue, a part in each call. They are kept sorted only while pages of the
    queue are read."""
    while not await context.in_queue("page_index", queue, context.now()):
        pass


async def _read_jobs(
    context: RedisContext, ids: list[str], queue_of: dict[str, str]
) -> list[Job | None]:
    by_queue: dict[str, list[str]] = {}
    for id in ids:
        by_queue.setdefault(queue_of[id], []).append(id)
    jobs: dict[str, Job] = {}
    for queue, some in by_queue.items():
        for part in parts(some):
            rows = await context.in_queue("find", queue, *part)
            found = zip(part, rows, strict=True)
            jobs.update({id: as_job(row, queue, id) for id, row in found if row is not None})
    return [jobs.get(id) for id in ids]


# ------------------------------------------------------------ groups of failed jobs


async def dead_groups(
    context: RedisContext, queue: str | None, task: str | None, limit: int
) -> list[StoredGroup]:
    """Groups of failed jobs, the largest first. Only the hours of these are counted."""
    names = [queue] if queue is not None else await context.queues()
    now = await context.read_clock()
    found = await asyncio.gather(*(_group_parts(context, name, task, now) for name in names))
    chosen = largest([part for parts in found for part in parts], limit)
    by_queue: dict[str, list[GroupPart]] = {}
    for part in chosen:
        by_queue.setdefault(part.of, []).append(part)
    timed = await asyncio.gather(
        *(_with_hours(context, name, parts, now) for name, parts in by_queue.items())
    )
    return merged([part for parts in timed for part in parts], limit)


async def _group_parts(
    context: RedisContext, queue: str, task: str | None, now: Moment
) -> list[GroupPart]:
    """The groups of one queue. All jobs of a group have one task, except those of the group ''."""
    failed, rows = await _group_rows(context, queue)
    if failed != sum(row[1] for row in rows):
        await context.in_queue("dead_groups_correct", queue)
        _, rows = await _group_rows(context, queue)
    parts = [
        GroupPart(
            group.decode(), count, int(first), int(last), id.decode("utf-8", "replace"), of=queue
        )
        for group, count, first, last, id, name in rows
        if task is None or (group and name == task.encode())
    ]
    if task is not None and any(row[0] == b"" for row in rows):
        want = JobFilter(queue=queue, task=task, state=State.FAILED, group="")
        parts += counted(await _all_that_match(context, want), now)
    return parts


async def _group_rows(context: RedisContext, queue: str) -> tuple[int, list[Any]]:
    """How many jobs of a queue have failed, and what `lua/dead_groups.lua` says of its groups."""
    rows: dict[bytes, Any] = {}
    start = b"0"
    while True:
        start, failed, part = await context.in_queue("dead_groups", queue, start)
        rows |= {row[0]: row for row in part}
        if start == b"0":
            return failed, list(rows.values())


async def _all_that_match(context: RedisContext, want: JobFilter) -> list[Job]:
    found, after = list[Job](), None
    while True:
        part = await page(context, want, after, CALL_ITEMS)
        found += part.jobs
        if (after := part.after) is None:
            return found


async def _with_hours(
    context: RedisContext, queue: str | None, parts: list[GroupPart], now: Moment
) -> list[GroupPart]:
    """The same parts with their hours. Parts of no queue have them already."""
    if queue is None:
        return parts
    starts, timed = hour_starts(now), list[GroupPart]()
    for at in range(0, len(parts), HOURS_CALL_GROUPS):
        some = parts[at : at + HOURS_CALL_GROUPS]
        groups = [part.group for part in some]
        rows = await context.in_queue("dead_groups_hours", queue, len(starts), *starts, *groups)
        for part, since in zip(some, rows, strict=True):
            hours = [more - less for more, less in pairwise([*since, 0])]
            timed.append(replace(part, hours=hours))
    return timed


async def raw(context: RedisContext, id: str) -> dict[str, bytes] | None:
    """The stored bytes of a job, by the name of the hash they are in; None without such a job."""
    found = await context.by_id("raw", [id])
    if id not in found:
        return None
    fields = found[id][1]
    return {name.decode(): value for name, value in zip(fields[::2], fields[1::2], strict=True)}


async def timeline(context: RedisContext, id: str) -> list[TimelineEntry]:
    """The timeline of a job, oldest first; empty without such a job."""
    lines = await _from_its_queue(context, "timeline", id)
    return [] if lines is None else as_timeline(lines)


async def ahead(context: RedisContext, id: str) -> int | None:
    """How many jobs go before this one; None if it is not waiting."""
    ageing = "" if context.ageing is None else context.ageing
    jobs = await _from_its_queue(context, "ahead", context.now(), id, ageing)
    return None if jobs is None or jobs < 0 else int(jobs)


async def _from_its_queue(context: RedisContext, name: str, *args: Any) -> Any:
    """The answer of the queue that has the job; None if no queue has it."""
    answers = await context.in_each(name, await context.queues(), *args)
    return next((answer for answer in answers if answer is not None), None)


async def workers(context: RedisContext) -> list[WorkerView]:
    """The workers whose last heartbeat still counts, by id."""
    rows = await context.in_namespace("workers", context.now())
    views = [
        msgspec.structs.replace(view, seen=seen or 0)
        for packed, seen in rows
        if (view := as_worker(packed)) is not None
    ]
    return sorted(views, key=lambda view: view.id)
