"""Reading jobs, queues and workers. Nothing here changes anything."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence

from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry
from mita.model.record import DisplayState
from mita.model.time import Moment, Wait
from mita.model.view import JobFilter, Page, QueueView, StoredGroup, WorkerView
from mita.rules.dead_groups import counted, merged
from mita.rules.gates import tokens_left
from mita.rules.matching import matches, shown_as

from . import codec
from .codec import NatsJob, QueueRecord, QueueUseRecord, as_job
from .context import NatsContext
from .resources import next_start
from .stream.counts import count_jobs, is_small
from .stream.decode import decode_job, decode_queue, decode_worker
from .stream.job_records import LocatedJob, locate
from .stream.line import tickets_ahead, waiters_ahead
from .stream.queue_use import queue_use
from .stream.subjects import RecordKind, name
from .stream.transaction import StreamTransaction

PAGE_READ_JOBS = 200


async def now(context: NatsContext) -> Moment:
    """Returns the server's time."""
    return context.clock.now()


async def find(context: NatsContext, ids: Sequence[str]) -> list[Job | None]:
    """Returns the job of each id, None if there is none."""
    located = await locate(context, dict.fromkeys(ids))
    return [_job(located[id]) for id in ids]


def _job(located: LocatedJob) -> Job | None:
    return None if located.record is None else as_job(located.record)


async def raw(context: NatsContext, id: str) -> dict[str, bytes] | None:
    """Returns the stored messages of a job by their subjects, None if there are none."""
    found = await context.reader.last([context.subjects.any_of_id(id)])
    return {message.subject: message.body for message in found if message.body} or None


async def timeline(context: NatsContext, id: str) -> list[TimelineEntry]:
    """Returns the timeline of a job, oldest entry first."""
    record = (await StreamTransaction(context).job(id)).record
    return [] if record is None else codec.timeline(record)


async def _all_jobs(context: NatsContext, queue: str | None) -> list[NatsJob]:
    """Returns every job of a queue, or of all. If a job has both a record and a ticket, the later
    one is valid."""
    newest: dict[str, NatsJob] = {}
    async for found in context.reader.scan(context.subjects.jobs(queue)):
        for message in found:
            if message.body:
                id = message.subject.rsplit(".", 1)[1]
                newest[id] = decode_job(message.body, message.subject)
    return [record for record in newest.values() if record.id]


async def _queue_records(context: NatsContext) -> list[QueueRecord]:
    found = await context.reader.all(context.subjects.all(RecordKind.QUEUE))
    records = [decode_queue(message.body, message.subject) for message in found]
    return sorted(records, key=lambda record: record.name)


async def queue_names(context: NatsContext) -> list[str]:
    """Returns the names of all queues, sorted."""
    return [record.name for record in await _queue_records(context)]


async def queues(context: NatsContext) -> list[QueueView]:
    """Returns all queues with their counts, by name."""
    known, counts = await asyncio.gather(_queue_records(context), count_jobs(context))
    now = context.clock.now()
    uses = {record.name: await _use(context, record) for record in known if record.limited}
    return [
        QueueView(
            name=record.name,
            paused=record.paused,
            oldest=max(0, now - due) if (due := counts.oldest.get(record.name)) else None,
            limit=None if (use := uses.get(record.name)) is None else use.limit,
            tokens=None if use is None else tokens_left(use.limit, use.tat_us, now),
            next_start=None if use is None else next_start(use.limit, use.tat_us, now),
            counted=None if counts.counted is None else max(0, now - counts.counted),
            **counts.by_queue.get(record.name, Counter()),
        )
        for record in known
    ]


async def _use(context: NatsContext, record: QueueRecord) -> QueueUseRecord | None:
    return await queue_use(StreamTransaction(context), record.name)


async def page(context: NatsContext, want: JobFilter, after: str | None, limit: int) -> Page:
    """Returns up to `limit` jobs that match, newest id first, with ids below `after`."""
    ids = sorted(
        (id for id in await _ids(context, want.queue) if after is None or id < after), reverse=True
    )
    now = context.clock.now()
    jobs: list[Job] = []
    for at in range(0, len(ids), PAGE_READ_JOBS):
        found = await find(context, ids[at : at + PAGE_READ_JOBS])
        jobs += [job for job in found if job is not None and matches(job, want, now)]
        if len(jobs) > limit:
            break
    return Page(jobs[:limit], jobs[limit - 1].id if len(jobs) > limit else None)


async def dead_groups(
    context: NatsContext, queue: str | None, task: str | None, limit: int
) -> list[StoredGroup]:
    """Returns groups of failed jobs, the largest first. Reads every job."""
    now = context.clock.now()
    want = JobFilter(queue=queue, task=task, state=State.FAILED)
    jobs = await _all_jobs(context, queue)
    return merged(counted((job for job in jobs if matches(job, want, now)), now), limit)


async def _ids(context: NatsContext, queue: str | None) -> set[str]:
    """Returns the ids of all jobs, read from the subjects alone; some may be deleted."""
    ids: set[str] = set()
    async for found in _stored_subjects(context, context.subjects.jobs(queue)):
        ids.update(name(one.rsplit(".", 1)[1]) for one in found)
    return ids


async def _stored_subjects(context: NatsContext, pattern: str) -> AsyncIterator[Iterable[str]]:
    """Yields the subjects that have a message, some thousands at a time."""
    offset = 0
    while True:
        request = {"subjects_filter": pattern, "offset": offset}
        answer = await context.wire.api(f"STREAM.INFO.{context.subjects.stream}", request)
        found = answer.get("state", {}).get("subjects") or {}
        yield found
        offset += len(found)
        if not found or offset >= answer.get("total", 0):
            return


async def ahead(context: NatsContext, id: str) -> int | None:
    """Returns how many jobs come before a ready job in its queue, or before a blocked job at its
    key; None for other jobs. In a large stream the tickets before its own are counted by the
    server, which keeps them in the order of their arrival."""
    located = await StreamTransaction(context).job(id)
    record, now = located.record, context.clock.now()
    if record is None:
        return None
    shown = shown_as(record.state, record.due, now)
    if shown == DisplayState.BLOCKED:
        return await waiters_ahead(context, record)
    if shown != DisplayState.READY:
        return None
    if not await is_small(context):
        return await tickets_ahead(context, located, record)
    own = _rank(record, context.ageing)
    jobs = await _all_jobs(context, record.queue)
    ready = [job for job in jobs if shown_as(job.state, job.due, now) == shown]
    # The job itself need not be among them: it may have started since it was read.
    return sum(_rank(job, context.ageing) < own for job in ready)


def _rank(record: NatsJob, ageing: Wait | None) -> tuple[int, int, Moment, int, str]:
    """Returns the place of a job in its queue: the smallest goes first."""
    rise = 0 if ageing is None else record.due - record.priority * ageing
    return rise, -record.priority, record.due, record.age, record.id


async def workers(context: NatsContext) -> list[WorkerView]:
    """Returns the workers that are alive, by id."""
    now = context.clock.now()
    found = await context.reader.all(context.subjects.all(RecordKind.WORKER))
    records = [decode_worker(message.body) for message in found if message.body]
    alive = [one.worker for one in records if one is not None and one.until > now]
    return sorted(alive, key=lambda worker: worker.id)
