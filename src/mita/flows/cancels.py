"""Cancelling jobs because of others: dependants of a step that did not succeed, and children."""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from mita.events.signals import Amended
from mita.model.job import Job, State
from mita.model.outcome import Answer, CancelJob
from mita.model.time import Wait
from mita.ports.clock import wall_clock
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.durable import WAIT, signal_name
from mita.rules.flow import CHILD, child_of_signal, receivers
from mita.rules.states import ALIVE
from mita.rules.text import note

from .arrivals import PARALLEL_CALLS, read_values
from .ended import EndedJob, cancelled_job, reason_of


async def cancel_dependants(
    store: Store, ended: Iterable[EndedJob], keep: Wait, cancelled: list[Amended], seen: set[str]
) -> list[EndedJob]:
    """Cancel the dependants of the jobs that did not succeed, except jobs that were `seen` before.
    Returns the cancelled jobs."""
    because: dict[str, list[str]] = {}
    for job in ended:
        if job.state is State.SUCCEEDED:
            continue
        for to in job.place.dependants:
            ids = () if to.always else receivers(job.place.flow, to)
            if new := [id for id in ids if id not in seen]:
                seen.update(new)
                because.setdefault(reason_of(job), []).extend(new)
    reasons, stopped = list(because), list[EndedJob]()
    for at in range(0, len(reasons), PARALLEL_CALLS):
        some = reasons[at : at + PARALLEL_CALLS]
        calls = [cancel(store, because[reason], reason, keep, cancelled) for reason in some]
        for jobs in await asyncio.gather(*calls):
            stopped += jobs
    return stopped


def may_have_children(job: Job) -> bool:
    """Whether this job may have waited for children: it was put back, and a worker has had it. A
    job that only people have moved never ran."""
    return job.reschedules > 0 and job.token > 0


async def cancel_children(store: Store, parents: Iterable[str], keep: Wait) -> list[Amended]:
    """Cancel the children for which these jobs wait, and theirs. Returns what was cancelled."""
    cancelled: list[Amended] = []
    todo = list(parents)
    while todo:
        values = await read_values(store, todo)
        todo = [child for waits in values for child in _awaited_children(waits)]
        await cancel(store, todo, "its parent was cancelled", keep, cancelled)
    return cancelled


def _awaited_children(once_values: Collection[str]) -> list[str]:
    """The children whose end the job with these once values waits for."""
    waits = (name.removeprefix(WAIT) for name in once_values if name.startswith(WAIT + CHILD))
    return [child_of_signal(signal) for signal in waits if signal_name(signal) not in once_values]


async def cancel(
    store: Store, ids: Sequence[str], reason: str, keep: Wait, cancelled: list[Amended]
) -> list[EndedJob]:
    """Cancel these jobs. Adds what happened to `cancelled`, and returns those in flows that were
    cancelled. Their places are read first: with a `keep` of 0 they are gone afterwards."""
    change, done = CancelJob(keep, note(reason)), list[EndedJob]()
    for at in range(0, len(ids), CALL_JOBS):
        found = await store.find(ids[at : at + CALL_JOBS])
        alive = [job for job in found if job is not None and job.state in ALIVE]
        answers = await store.amend([job.id for job in alive], change) if alive else []
        now = wall_clock()
        for job, answer in zip(alive, answers, strict=True):
            if answer is Answer.DONE:
                cancelled.append(Amended(job.id, change, answer, now, job.task, job.queue))
                done += cancelled_job(job)
    return done
