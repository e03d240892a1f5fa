"""Which job of a queue starts next: priority, ageing and fair shares."""

from copy import deepcopy

from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS, Job, State
from mita.rules.shares import NO_GROUP, finish_tag, start_tag

from .file import Content, Record, Turns


def is_due(content: Content, queue: str, job: Job) -> bool:
    return job.queue == queue and job.state is State.QUEUED and job.due <= content.now


def first(content: Content, queue: str) -> Record | None:
    """The due job that starts next: of each priority the job whose group has its turn, and of these
    the one with the highest priority, which may have risen with its age."""
    of_priority: dict[int, list[Record]] = {}
    for record in content.records.values():
        if is_due(content, queue, record.job):
            of_priority.setdefault(record.job.priority, []).append(record)
    candidates = [
        min(records, key=lambda r: (_turn(content, r.job), r.job.due, r.age))
        for records in of_priority.values()
    ]
    return min(candidates, key=lambda r: (_rank(content, r.job), -r.job.priority), default=None)


def _turn(content: Content, job: Job) -> int:
    """The virtual time at which the job's group has its next turn."""
    turns = content.turns.get(job.queue, {}).get(job.priority, Turns())
    return start_tag(turns.virtual, turns.finished.get(job.fair or NO_GROUP, 0))


def _rank(content: Content, job: Job) -> int:
    return -job.priority if content.ageing is None else job.due - job.priority * content.ageing


def use_turn(content: Content, job: Job) -> None:
    """The job starts: its group has had its turn. A queue that never had a group counts none."""
    if job.queue not in content.turns:
        return
    turns = content.turns[job.queue].setdefault(job.priority, Turns())
    turns.virtual = _turn(content, job)
    weight = job.weight if job.fair else NORMAL_WEIGHT_THOUSANDTHS
    turns.finished[job.fair or NO_GROUP] = finish_tag(turns.virtual, weight)
    turns.finished = {name: tag for name, tag in turns.finished.items() if tag > turns.virtual}


def in_order(content: Content, queue: str) -> list[str]:
    """The due jobs of a queue in the order in which they start, if nothing else happens."""
    trial, order = deepcopy(content), []
    while record := first(trial, queue):
        order.append(record.job.id)
        use_turn(trial, record.job)
        del trial.records[record.job.id]
    return order
