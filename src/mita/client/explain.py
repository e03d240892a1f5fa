"""The evidence about one job, for `explain`."""

import asyncio

from mita.model.job import Job, State
from mita.model.repeat import Repeat
from mita.model.view import JobFilter, ResourceView
from mita.ports.store import Store
from mita.rules.explain.reasons.evidence import Evidence
from mita.rules.options import options_of
from mita.rules.states import TERMINAL

from .calls import unknown_job

_TWIN_JOBS = 100
_EVIDENCE_TRIES = 3


async def gather(store: Store, id: str) -> Evidence:
    """Return what the store knows about a job. It asks again if the job changed between two
    questions, so that the answers belong together. Raises `UsageError` for an unknown id."""
    job = await _find(store, id)
    for _ in range(_EVIDENCE_TRIES):
        evidence = await _about(store, job)
        before, job = job, await _find(store, id)
        if (before.state, before.due, before.token) == (job.state, job.due, job.token):
            break
    return evidence


async def _find(store: Store, id: str) -> Job:
    [job] = await store.find([id])
    if job is None:
        raise unknown_job(id)
    return job


async def _about(store: Store, job: Job) -> Evidence:
    """Ask everything at once: no answer depends on another."""
    now, events, queues, ahead, workers, (resource, twin, repeat) = await asyncio.gather(
        store.now(),
        store.timeline(job.id),
        store.queues(),
        store.ahead(job.id),
        store.workers(),
        asyncio.gather(_resource(store, job), _twin(store, job), _repeat(store, job)),
    )
    options = options_of(job.options)
    return Evidence(
        job=job,
        now=now,
        events=tuple(events),
        retry=options.retry,
        timeout=options.timeout,
        queues=tuple(queues),
        ahead=ahead,
        resource=resource,
        workers=tuple(workers),
        twin=twin,
        repeat=repeat,
    )


async def _resource(store: Store, job: Job) -> ResourceView | None:
    if job.resource is None:
        return None
    return next(iter(await store.resources(job.queue, job.resource)), None)


async def _repeat(store: Store, job: Job) -> Repeat | None:
    return None if job.repeat is None else (await store.find_repeats([job.repeat]))[0]


async def _twin(store: Store, job: Job) -> str | None:
    if job.unique is None or job.state not in (State.FAILED, State.CANCELLED):
        return None
    page = await store.page(JobFilter(queue=job.queue, unique=job.unique), None, _TWIN_JOBS)
    return next(
        (other.id for other in page.jobs if other.id != job.id and other.state not in TERMINAL),
        None,
    )
