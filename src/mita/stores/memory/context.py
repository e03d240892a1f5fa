"""What a verb works with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from mita.model.job import Claim, Job, State
from mita.model.outcome import Busy, TimelineEntry, TimelineKind
from mita.model.time import Moment, Wait
from mita.ports.clock import Clock
from mita.rules.gates import ReturnedTokens
from mita.rules.states import TERMINAL
from mita.rules.timeline import lengthened

from .state.memory_state import MemoryRecord, MemoryState


class MemoryContext:
    """One atomic change of the state: the time, and the topics to notify after it. `room` is the
    number of bytes that the arguments and the result of a job may have (None: any number)."""

    def __init__(
        self,
        state: MemoryState,
        now: Moment,
        room: int | None = None,
        ageing: Wait | None = None,
    ) -> None:
        self.state = state
        self.now = now
        self.room = room
        self.ageing = ageing
        self.topics: set[str] = set()
        self.returned = ReturnedTokens(now)
        self.busy: list[Busy] = []

    def add(self, job: Job) -> None:
        """Store a new job."""
        self.state.arrivals += 1
        record = self.state.records[job.id] = MemoryRecord(job, self.state.arrivals)
        self.state.index.add(job, record.age)

    def change(self, record: MemoryRecord, **changes: Any) -> Job:
        """Change fields of a job. There is no other way to change one, so the index stays right."""
        self.state.index.remove(record.job, record.age)
        record.job = replace(record.job, **changes)
        self.state.index.add(record.job, record.age)
        return record.job

    def delete(self, record: MemoryRecord) -> None:
        """Delete a job."""
        self.state.index.remove(record.job, record.age)
        del self.state.records[record.job.id]

    def note(
        self,
        record: MemoryRecord,
        kind: TimelineKind,
        note: str = "",
        worker: str | None = None,
        error: str = "",
    ) -> None:
        """Add a line to the timeline of a job."""
        started = record.job.started if error else None
        line = TimelineEntry(self.now, kind, note, worker, error, started)
        record.timeline = lengthened(record.timeline, line)

    def has_ended(self, id: str) -> bool:
        """Whether a job is terminal or deleted."""
        record = self.state.records.get(id)
        return record is None or record.job.state in TERMINAL

    def held_by(self, claim: Claim) -> MemoryRecord | None:
        """The record of the claim's job; None if the claim is not valid any more. Everything that a
        run may write is checked with this first."""
        record = self.state.records.get(claim.id)
        if (
            record is None
            or record.job.state is not State.RUNNING
            or record.job.token != claim.token
        ):
            return None
        return record


@contextmanager
def transaction(
    state: MemoryState, clock: Clock, room: int | None, ageing: Wait | None = None
) -> Iterator[MemoryContext]:
    """One atomic change: no other store is at work, the time stands still, and waiting stores are
    notified at the end. An error undoes nothing: an item that is rejected undoes no other item."""
    with state.lock:
        state.latest = max(state.latest, clock.now())
        context = MemoryContext(state, state.latest, room, ageing)
        try:
            yield context
        finally:
            for notify in state.notifiers:
                notify(context.topics)
