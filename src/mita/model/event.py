"""What happened to a job, as listeners and subscribers get it. (A `TimelineEntry` is a line of the
job's own timeline, in the store.)"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain, repeat
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .time import Moment


class Kind(StrEnum):
    """What happened. `succeeded`, `failed`, `cancelled` and `expired` mean that the job has ended;
    an expired job ends in the state cancelled. `flow_started` and `flow_ended` belong to a flow."""

    ENQUEUED = "enqueued"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRIED = "retried"
    RESCHEDULED = "rescheduled"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    CRASHED = "crashed"
    REVIVED = "revived"
    SIGNALLED = "signalled"
    FLOW_STARTED = "flow_started"
    FLOW_ENDED = "flow_ended"
    STALE = "stale"
    DROPPED = "dropped"
    PAUSED = "paused"
    MISSED = "missed"


class MoveReason(StrEnum):
    """Why a job was rescheduled. None of these is a failure."""

    HANDLER = "handler"
    API = "api"
    RESOURCE_BUSY = "resource_busy"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    SHUTDOWN = "shutdown"
    SLEEP = "sleep"
    SIGNAL = "signal"


class JobEvent(Struct, frozen=True, array_like=True, gc=False):
    """One event of one job. It never has arguments, results or the text of an error.

    `at` is the time of the event on the store's clock, as well as the sender knows that clock.
    `attempt` counts from 1. `seconds` is how long the run took. `wait` is the time until the start
    (`started`) or until the next try (`retried`). `reason` says why a job was rescheduled
    (`handler`, `api`, `resource_busy`, `rate_limited`, `unavailable`, `shutdown`), or that it
    sleeps (`sleep`) or waits for a signal (`signal`).

    The events `flow_started` and `flow_ended` belong to a flow, whose id is the `id`. They have its
    `name` and the number of its steps (`count`). `flow_ended` also says how it ended (`state`) and
    how many `seconds` after it was enqueued.

    An `enqueued` event has the `tags` of the job.

    A `dropped` event belongs to a repeat, whose key is the `id`: it left out `count` windows,
    because of its policy (the `reason`) or its limit. A `paused` event belongs to a repeat, too: it
    was paused after `count` failures in a row. A `missed` event belongs to no job: `count`
    events before the next one were lost; 0: an unknown number."""

    kind: Kind
    id: str = ""
    task: str = ""
    queue: str = ""
    at: Moment = 0
    worker: str = ""
    attempt: int = 0
    seconds: float = 0.0
    wait: float = 0.0
    reason: str = ""
    count: int = 0
    name: str = ""
    state: str = ""
    tags: tuple[str, ...] = ()


class EventBatch(Struct, frozen=True, array_like=True, gc=False):
    """Events that share most values, as they are sent: each shared value once, the others in
    columns. An empty column means 0 for all events. `whole`: each of these runs has a start event
    too, so there are two events of it, and `waits` belong to the first. Only events of flows have a
    `name`, and only those of enqueues have `tags`."""

    kind: Kind
    task: str = ""
    queue: str = ""
    at: Moment = 0
    worker: str = ""
    attempt: int = 0
    reason: str = ""
    ids: list[str] = []
    seconds: list[float] = []
    waits: list[float] = []
    count: int = 0
    whole: bool = False
    name: str = ""
    state: str = ""
    tags: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of events."""
        return 2 * len(self.ids) if self.whole else len(self.ids)

    def events(self) -> Iterator[JobEvent]:
        """Yield the events one by one."""
        if self.whole:
            return chain(
                self._events(Kind.STARTED, [], self.waits),
                self._events(self.kind, self.seconds, []),
            )
        return self._events(self.kind, self.seconds, self.waits)

    def only(self, kinds: frozenset[Kind]) -> "EventBatch | None":
        """Return the part of it that is of these kinds; None if there is none."""
        starts, ends = self.whole and Kind.STARTED in kinds, self.kind in kinds
        if starts == self.whole and ends:
            return self
        if starts:
            return replace(self, kind=Kind.STARTED, seconds=[], whole=False)
        return replace(self, waits=[], whole=False) if ends else None

    def _events(self, kind: Kind, seconds: list[float], waits: list[float]) -> Iterator[JobEvent]:
        rest: tuple[Iterable[Any], ...] = ()
        if self.name or self.tags:
            rest = repeat(self.name), repeat(self.state), repeat(self.tags)
        return map(
            JobEvent,
            repeat(kind),
            self.ids,
            repeat(self.task),
            repeat(self.queue),
            repeat(self.at),
            repeat(self.worker),
            repeat(self.attempt),
            seconds or repeat(0.0),
            waits or repeat(0.0),
            repeat(self.reason),
            repeat(self.count),
            *rest,
        )

    def parts(self, most: int) -> "Iterable[EventBatch]":
        """Split it into batches of at most this many events, or of one run."""
        if self.size <= most:
            return (self,)
        step = max(1, most // 2 if self.whole else most)
        return (self._part(slice(start, start + step)) for start in range(0, len(self.ids), step))

    def _part(self, part: slice) -> "EventBatch":
        return replace(self, ids=self.ids[part], seconds=self.seconds[part], waits=self.waits[part])
