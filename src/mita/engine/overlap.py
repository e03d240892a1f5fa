"""What the newest fire of a repeat with `overlap="cancel"` does to the older jobs.

The store keeps two of these jobs from running at once: they share a resource key. So all that is
left is to cancel the older ones. That happens right after the firing was applied, and again when a
scheduler begins to work, in case the one before died in between."""

import logging
from collections.abc import Collection

from mita.errors import UsageError
from mita.events import Emit
from mita.events.signals import Amended
from mita.model.job import Job
from mita.model.outcome import Answer, CancelJob
from mita.model.repeat import Firing
from mita.model.time import Moment, Wait
from mita.ports.store import Store
from mita.rules.schedule.jobs import fire_id, is_superseded, repeat_key
from mita.rules.schedule.spec import unpack
from mita.rules.schedule.times import before

log = logging.getLogger("mita.scheduler")

_MARK = b"cancel"  # in the spec of every repeat with this policy: few others are unpacked


async def cancel_older(store: Store, firing: Firing, keep: Wait, emit: Emit) -> None:
    """Cancel the older jobs of a repeat whose firing was applied. `keep` is how long they are
    kept."""
    if firing.cancels is not None and firing.last is not None:
        queue = firing.jobs[-1].queue
        await _cancel(store, firing.key, queue, firing.cancels, firing.last, keep, emit)


async def cancel_left_over(store: Store, keep: Wait, emit: Emit) -> None:
    """Cancel the jobs that a scheduler which died should have cancelled, for all repeats."""
    for repeat in await store.list_repeats():
        if repeat.last is None or _MARK not in repeat.spec:
            continue
        try:
            spec = unpack(repeat.spec)
        except UsageError:
            continue  # it is parked, with the reason, when it is due
        if spec.overlap == "cancel":
            ids = (fire_id(repeat.key, before(spec, repeat.last)),)
            await _cancel(store, repeat.key, spec.job.queue, ids, repeat.last, keep, emit)


async def _cancel(
    store: Store,
    key: str,
    queue: str,
    ids: Collection[str],
    newest: Moment,
    keep: Wait,
    emit: Emit,
) -> None:
    """Cancel those of these jobs, and of the jobs that hold the repeat's key, that are older than
    the fire at `newest`."""
    views = await store.resources(queue, repeat_key(key))
    holders = [holder.id for view in views for holder in view.holders]
    found = await store.find(sorted({*ids, *holders}))
    older = [job for job in found if job is not None and is_superseded(job, key, newest)]
    if not older:
        return
    change = CancelJob(keep, f"a newer fire of repeat {key} takes its place")
    answers = await store.amend([job.id for job in older], change)
    now = await store.now()
    for job, answer in zip(older, answers, strict=True):
        _report(job, answer, change, now, emit)


def _report(job: Job, answer: Answer, change: CancelJob, now: Moment, emit: Emit) -> None:
    if answer in (Answer.DONE, Answer.ASKED):
        facts = {"event": "cancelled", "job": job.id, "task": job.task, "queue": job.queue}
        log.info("job %s of %s is cancelled: %s", job.id, job.task, change.reason, extra=facts)
    emit(Amended(job.id, change, answer, now, job.task, job.queue))
