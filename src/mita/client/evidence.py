"""Gathering what bears on one job, for `explain`."""

import msgspec

from mita.model.job import Job, State
from mita.model.policy import JobOptions, Retry
from mita.model.view import JobFilter, QueueView, ResourceView
from mita.ports.store import Store
from mita.rules.explain import Evidence
from mita.rules.states import TERMINAL

from .intake import unknown_job

_options = msgspec.msgpack.Decoder(JobOptions)
_TWINS_LOOKED_AT = 100


async def gather(store: Store, id: str) -> Evidence:
    [job] = await store.find([id])
    if job is None:
        raise unknown_job(id)
    return Evidence(
        job=job,
        now=await store.now(),
        events=tuple(await store.timeline(id)),
        retry=_retry(job),
        queue=await _queue(store, job.queue),
        ahead=await store.ahead(id),
        resource=await _resource(store, job),
        workers=tuple(await store.workers()),
        twin=await _twin(store, job),
    )


def _retry(job: Job) -> Retry:
    try:
        return _options.decode(job.options).retry if job.options else Retry()
    except msgspec.MsgspecError:
        return Retry()


async def _queue(store: Store, name: str) -> QueueView | None:
    return next((view for view in await store.queues() if view.name == name), None)


async def _resource(store: Store, job: Job) -> ResourceView | None:
    if job.resource is None:
        return None
    return next(iter(await store.resources(job.queue, job.resource)), None)


async def _twin(store: Store, job: Job) -> str | None:
    if job.unique is None or job.state not in (State.FAILED, State.CANCELLED):
        return None
    page = await store.page(JobFilter(queue=job.queue, unique=job.unique), None, _TWINS_LOOKED_AT)
    return next((other.id for other in page.jobs if other.id != job.id and other.state not in TERMINAL), None)
