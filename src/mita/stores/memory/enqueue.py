"""Enqueuing jobs."""

from operator import attrgetter

from mita.model.job import Job, NewJob, Receipt, State
from mita.stores.shared import record as fields

from .context import Act
from .resources import take_unique, unique_holder

_new_values = attrgetter(*fields.NEW)


def enqueue(act: Act, new: NewJob) -> Receipt:
    if new.id in act.state.records:
        return Receipt(new.id, created=False)
    if earlier := unique_holder(act, new.queue, new.unique):
        return Receipt(earlier, created=False)
    job = Job(
        state=State.QUEUED,
        due=new.when.moment(act.now),
        created=act.now,
        **dict(zip(fields.NEW, _new_values(new), strict=True)),
    )
    act.add(job)
    take_unique(act, job)
    act.state.queues.setdefault(new.queue, None)
    act.rings.add(new.queue)
    return Receipt(new.id)
