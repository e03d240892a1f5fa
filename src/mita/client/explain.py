"""The evidence about one job, for `explain`: the store is asked what the state of the job needs."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from msgspec.structs import replace

from mita.flows.ended import is_step
from mita.model.job import Job, State
from mita.model.repeat import Repeat
from mita.model.view import JobFilter, ResourceView
from mita.ports.store import Store
from mita.rules.durable import pending_waits
from mita.rules.explain.evidence import Evidence, Reason
from mita.rules.explain.reasons import explain
from mita.rules.flow import CHILD, child_of_signal
from mita.rules.gates import keys_of
from mita.rules.options import options_of
from mita.rules.states import TERMINAL, WAITING

from .calls import unknown_job
from .durable import values_of
from .explain_flow import (
    NEAR_STEPS,
    cause_of_cancel,
    failed_steps,
    flow_wait,
    is_flow,
    waits_for_steps,
)

_TWIN_JOBS = 100
_EVIDENCE_TRIES = 3
_OF_ALL_JOBS = ("now", "workers", "queues")  # the questions whose answers other jobs share


async def gather(store: Store, id: str) -> Evidence:
    """Return what the store knows about a job. It asks again if the job changed between two
    questions, so that the answers belong together. Raises `UsageError` for an unknown id."""
    job = await _find(store, id)
    for _ in range(_EVIDENCE_TRIES):
        evidence = await _with_children(store, await _about(store, job))
        if is_step(id) or is_flow(job):
            evidence = await _with_flow(store, evidence)
        before, job = job, await _find(store, id)
        if (before.state, before.due, before.token) == (job.state, job.due, job.token):
            break
    return evidence


async def _find(store: Store, id: str) -> Job:
    [job] = await store.find([id])
    if job is None:
        raise unknown_job(id)
    return job


async def _about(store: Store, job: Job, known: dict[str, Any] | None = None) -> Evidence:
    """Ask all questions at once: no answer depends on another. `known` are answers that another job
    has got already."""
    answers = dict(known or {})
    questions = _questions(store, job, answers)
    found = await asyncio.gather(*questions.values())
    answers |= dict(zip(questions, found, strict=True))
    options = options_of(job.options)
    return Evidence(job=job, retry=options.retry, timeout=options.timeout, **answers)


def _questions(store: Store, job: Job, known: dict[str, Any]) -> dict[str, Awaitable[Any]]:
    """The calls to the store, by the field of `Evidence` that they fill."""
    questions: dict[str, Awaitable[Any]] = {}
    if "now" not in known:
        questions["now"] = store.now()
    if job.state is not State.RUNNING:
        questions["events"] = store.timeline(job.id)
    if job.state not in TERMINAL and "workers" not in known:
        questions["workers"] = store.workers()
    if job.state in WAITING:
        if "queues" not in known:
            questions["queues"] = store.queues()
        questions |= {"ahead": store.ahead(job.id), "keys": _keys(store, job)}
    if job.state in WAITING or is_flow(job):
        questions["values"] = values_of(store, job.id)
    if job.unique is not None and job.state in (State.FAILED, State.CANCELLED):
        questions["twin"] = _twin(store, job)
    if job.repeat is not None and job.state in TERMINAL:
        questions["repeat"] = _repeat(store, job.repeat)
    return questions


async def _with_children(store: Store, evidence: Evidence) -> Evidence:
    """Add why the child jobs do not end for which a job waits; of many only the first few."""
    waits = [wait.name for wait in pending_waits(evidence.values)]
    ids = [child_of_signal(name) for name in waits if name.startswith(CHILD)]
    if evidence.job.state is not State.QUEUED or not ids:
        return evidence
    known = _known(evidence)
    children = [job for job in await store.find(ids[:NEAR_STEPS]) if job is not None]
    found = {job.id: explain(await _about(store, job, known))[0] for job in children}
    return replace(evidence, children=found)


def _known(evidence: Evidence) -> dict[str, Any]:
    return {name: getattr(evidence, name) for name in _OF_ALL_JOBS}


async def _with_flow(store: Store, evidence: Evidence) -> Evidence:
    """Add what a job of a flow waits for, or because of which steps it ended."""
    job = evidence.job
    if waits_for_steps(job):
        known = _known(evidence)

        async def reason(other: Job) -> Reason:
            return explain(await _with_children(store, await _about(store, other, known)))[0]

        wait = await flow_wait(store, job, evidence.values, evidence.now, reason)
        return replace(evidence, flow=wait)
    if is_flow(job) and job.state is State.FAILED:
        return replace(evidence, causes=await failed_steps(store, job, evidence.values))
    cause = await cause_of_cancel(store, job)
    return evidence if cause is None else replace(evidence, causes=(cause,))


async def _keys(store: Store, job: Job) -> list[ResourceView]:
    """What is known of the keys of a job, one question for each."""
    keys = keys_of(job.resource, job.gates)
    found = await asyncio.gather(*(store.resources(job.queue, key) for key in keys))
    return [view for views in found for view in views]


async def _repeat(store: Store, key: str) -> Repeat | None:
    return (await store.find_repeats([key]))[0]


async def _twin(store: Store, job: Job) -> str | None:
    """The id of another job that has the unique key of this one now."""
    page = await store.page(JobFilter(queue=job.queue, unique=job.unique), None, _TWIN_JOBS)
    others = (one for one in page.jobs if one.id != job.id and one.state not in TERMINAL)
    return next((other.id for other in others), None)
