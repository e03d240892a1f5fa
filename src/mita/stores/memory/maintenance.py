"""Deleting old jobs. There is no schema to migrate."""

from typing import Protocol, TypeVar

from mita.model.job import State
from mita.model.time import Moment
from mita.rules.gates import ONE_MS_US

from .audit import prune_audit
from .context import MemoryContext
from .history import prune_history
from .state.memory_state import MemoryRecord


class Expiring(Protocol):
    """Something that is kept until a point in time; None: for as long as it is needed."""

    @property
    def until(self) -> Moment | None:
        """The point in time; None: it does not expire."""


E = TypeVar("E", bound=Expiring)
K = TypeVar("K")


def prune(context: MemoryContext, limit: int, most: int) -> int:
    """Delete terminal jobs whose retention is over, and succeeded jobs beyond the newest `most` of
    each queue, the oldest first; `limit` jobs in all. Returns how many were deleted."""
    records = context.state.records.values()
    expired = [record for record in records if is_over(context, record.job.expires)]
    expired.sort(key=lambda record: (record.job.expires or 0, record.age))
    deleted = _delete(context, expired[:limit])
    for queue in sorted(context.state.queues):
        deleted += _delete(context, _surplus(context, queue, most)[: limit - deleted])
    state = context.state
    state.shared = _current(context, state.shared)
    state.unique = _current(context, state.unique)
    state.locks = _current(context, state.locks)
    state.workers = _current(context, state.workers)
    prune_audit(context)
    waited_for = set(state.index.waited_for())
    state.rates = {
        key: level
        for key, level in state.rates.items()
        if key in waited_for or level.tat_us > context.now * ONE_MS_US
    }
    prune_history(context)
    return deleted


def migrate(_: MemoryContext) -> list[str]:
    """There is no schema, so no migration is ever run."""
    return []


def is_over(context: MemoryContext, until: Moment | None) -> bool:
    """Whether this point in time has come."""
    return until is not None and until <= context.now


def _current(context: MemoryContext, found: dict[K, E]) -> dict[K, E]:
    return {key: one for key, one in found.items() if not is_over(context, one.until)}


def _surplus(context: MemoryContext, queue: str, most: int) -> list[MemoryRecord]:
    """The succeeded jobs of a queue without the newest `most`, oldest first."""
    done = [
        record
        for record in context.state.records.values()
        if record.job.queue == queue and record.job.state is State.SUCCEEDED
    ]
    done.sort(key=lambda record: (record.job.finished or 0, record.age))
    return done[: max(0, len(done) - most)]


def _delete(context: MemoryContext, records: list[MemoryRecord]) -> int:
    for record in records:
        context.delete(record)
    return len(records)
