"""Keys: at most so many jobs with one resource key run at once, and one job with one unique key is
alive."""

from collections.abc import Collection

from mita.model.job import Job, State
from mita.model.time import Moment

from .context import Act, Reservation
from .index import Place, place


def on_hold(act: Act, where: Place) -> bool:
    return act.state.holds.get(where, act.now) > act.now


def may_run(act: Act, job: Job) -> bool:
    where = place(job)
    return where is None or (
        not on_hold(act, where) and len(act.state.index.holders(where)) < job.limit
    )


def wake(act: Act, where: Place, most: int | None = None) -> None:
    """Put the first who wait for a key back in the queue, as many as may run by what the first of
    them allows."""
    waiting = [act.state.records[id] for id in act.state.index.blocked(where)]
    if not waiting or on_hold(act, where):
        return
    room = max(0, waiting[0].job.limit - len(act.state.index.holders(where)))
    for record in waiting[: room if most is None else min(room, most)]:
        act.change(record, state=State.QUEUED)
        act.rings.add(where[0])


def hold(act: Act, where: Place, until: Moment) -> None:
    """Nobody with this key starts before `until`; a moment that has come lifts the hold."""
    act.rings.add(where[0])  # whoever sleeps until the end of an earlier hold must look again
    act.state.holds[where] = until
    if until <= act.now:
        end_hold(act, where)


def end_hold(act: Act, where: Place) -> None:
    del act.state.holds[where]
    wake(act, where)


def end_holds(act: Act, queues: Collection[str] | None = None) -> None:
    """Lift the holds that have run out, in these queues or in all."""
    over = [where for where, until in act.state.holds.items() if until <= act.now]
    for where in over:
        if queues is None or where[0] in queues:
            end_hold(act, where)


def free_keys(act: Act) -> None:
    """Take the keys from jobs that do not run, and wake those that wait for a free one."""
    for where in act.state.index.held():
        for id in [id for id in act.state.index.holders(where) if not _runs(act, id)]:
            act.state.index.let_go(where, id)
    for where in act.state.index.waited_for():
        wake(act, where)


def _runs(act: Act, id: str) -> bool:
    record = act.state.records.get(id)
    return record is not None and record.job.state is State.RUNNING


def unique_holder(act: Act, queue: str, key: str | None) -> str | None:
    """The id of the job that has this unique key: a living one, or until its end one that has
    ended."""
    if key is None:
        return None
    reservation = act.state.unique.get((queue, key))
    if reservation is None:
        return None
    over = (
        act.has_ended(reservation.id) if reservation.until is None else reservation.until <= act.now
    )
    return None if over else reservation.id


def take_unique(act: Act, job: Job) -> None:
    if job.unique is not None:
        act.state.unique[job.queue, job.unique] = Reservation(job.id)


def free_unique(act: Act, job: Job) -> None:
    """The job has ended: its key is free, or free after a while, whether or not the job is
    remembered till then."""
    if job.unique is None:
        return
    if job.unique_for > 0:
        act.state.unique[job.queue, job.unique] = Reservation(job.id, act.now + job.unique_for)
    else:
        del act.state.unique[job.queue, job.unique]


def give_up_unique(act: Act, job: Job) -> None:
    """The job is deleted: a key that it still has is free at once."""
    if unique_holder(act, job.queue, job.unique) == job.id and job.unique is not None:
        del act.state.unique[job.queue, job.unique]
