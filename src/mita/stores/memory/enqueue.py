"""Taking jobs in."""

from mita.model.job import Job, NewJob, Receipt, State

from .context import Act
from .resources import take_unique, unique_holder


def enqueue(act: Act, new: NewJob) -> Receipt:
    if new.id in act.state.records:
        return Receipt(new.id, created=False)
    if earlier := unique_holder(act, new.queue, new.unique):
        return Receipt(earlier, created=False)
    job = Job(
        id=new.id,
        task=new.task,
        queue=new.queue,
        state=State.QUEUED,
        priority=new.priority,
        due=new.when.moment(act.now),
        created=act.now,
        payload=new.payload,
        options=new.options,
        headers=new.headers,
        resource=new.resource,
        limit=new.limit,
        when_busy=new.when_busy,
        unique=new.unique,
        unique_for=new.unique_for,
        repeat=new.repeat,
        fire_time=new.fire_time,
    )
    act.add(job)
    take_unique(act, job)
    act.state.queues.setdefault(new.queue, None)
    act.rings.add(new.queue)
    return Receipt(new.id)
