"""What the newest fire of a repeat with `overlap="cancel"` does to the older jobs.

The store keeps two of these jobs from running at once: they share a resource key. So all that is
left is to cancel the older ones. That happens right after the firing was applied, and again when a
scheduler begins to work, in case the one before died in between."""

import logging
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mita.errors import UsageError
from mita.events import Emit
from mita.events.signals import Amended
from mita.flows.acts import amend_jobs
from mita.model.job import Job
from mita.model.outcome import Answer, CancelJob
from mita.model.repeat import Firing, Repeat
from mita.model.time import Moment, Wait
from mita.ports.store import Store
from mita.rules.schedule.jobs import fire_id, is_superseded, repeat_key
from mita.rules.schedule.spec import unpack
from mita.rules.schedule.times import before

log = logging.getLogger("mita.scheduler")

_MARK = b"cancel"  # in the spec of every repeat with this policy: few others are unpacked
CALL_JOBS = 500  # in one call to the store
REASON = "a newer fire of its repeat takes its place"

# ids of jobs that may be older than the newest fire of a repeat: its key, and that fire time
_Candidates: TypeAlias = dict[str, tuple[str, Moment]]


async def cancel_older(store: Store, firings: Iterable[Firing], keep: Wait, emit: Emit) -> None:
    """Cancel the older jobs of the repeats whose firings were applied. `keep` is how long they are
    kept."""
    candidates = {
        id: (firing.key, firing.last)
        for firing in firings
        if firing.last is not None
        for id in firing.cancels or ()
    }
    await _cancel(store, candidates, keep, emit)


async def cancel_left_over(store: Store, keep: Wait, emit: Emit) -> None:
    """Cancel the jobs that a scheduler which died should have cancelled, for all repeats: those
    that run, and those of the fire before the newest one."""
    newest: dict[str, tuple[str, Moment]] = {}  # by the resource key of the repeat
    candidates: _Candidates = {}
    for repeat in await store.list_repeats():
        older = _fire_before_the_last(repeat)
        if older is not None and repeat.last is not None:
            newest[repeat_key(repeat.key)] = candidates[older] = repeat.key, repeat.last
    if not newest:
        return
    for view in await store.resources():
        if view.key in newest:
            candidates |= {holder.id: newest[view.key] for holder in view.holders}
    await _cancel(store, candidates, keep, emit)


def _fire_before_the_last(repeat: Repeat) -> str | None:
    """Returns the id of the job before the newest one; None if the repeat does not cancel."""
    if repeat.last is None or _MARK not in repeat.spec:
        return None
    try:
        spec = unpack(repeat.spec)
    except UsageError:
        return None  # it is parked, with the reason, when it is due
    return fire_id(repeat.key, before(spec, repeat.last)) if spec.overlap == "cancel" else None


async def _cancel(
    store: Store, candidates: Mapping[str, tuple[str, Moment]], keep: Wait, emit: Emit
) -> None:
    """Cancel those of these jobs that a newer fire supersedes."""
    change, ids = CancelJob(keep, REASON), sorted(candidates)
    for at in range(0, len(ids), CALL_JOBS):
        found = await store.find(ids[at : at + CALL_JOBS])
        older = [job for job in found if job and is_superseded(job, *candidates[job.id])]
        if not older:
            continue
        acts = await amend_jobs(store, older, change, keep)
        now = await store.now()
        for job, answer in zip(older, acts.answers, strict=True):
            _report(job, answer, change, now, emit)
        for signal in acts.followed:
            emit(signal)


def _report(job: Job, answer: Answer, change: CancelJob, now: Moment, emit: Emit) -> None:
    if answer in (Answer.DONE, Answer.ASKED):
        facts = {"event": "cancelled", "job": job.id, "task": job.task, "queue": job.queue}
        text = "job %s of %s is cancelled: a newer fire of repeat %s takes its place"
        log.info(text, job.id, job.task, job.repeat, extra=facts)
    emit(Amended(job.id, change, answer, now, job.task, job.queue))
