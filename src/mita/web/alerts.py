"""What is wrong now, in words, with where to look. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from mita.model.record import RepeatRecord
from mita.model.repeat import RepeatState
from mita.model.time import MINUTE, SECOND
from mita.model.view import QueueView, WorkerView
from mita.rules.display import span
from mita.rules.words import counted

LONG_WAIT_MS = 5 * MINUTE
CLOCK_OFF_MS = 5 * SECOND
LATE_REPEAT_S = 60
MOST_ALERTS = 8


class Alert(Struct, frozen=True):
    """One problem: a sentence, and the page that shows more of it."""

    text: str
    path: str
    query: dict[str, str] = {}


def alerts(
    queues: Sequence[QueueView],
    workers: Sequence[WorkerView],
    repeats: Sequence[RepeatRecord],
    now: datetime,
) -> list[Alert]:
    """Return the problems, the worst first."""
    found = [*_queues(queues, workers), *_repeats(repeats, now), *_workers(workers)]
    return found[:MOST_ALERTS]


def _queues(queues: Sequence[QueueView], workers: Sequence[WorkerView]) -> Iterator[Alert]:
    served = {name for worker in workers for name in worker.queues}
    for queue in queues:
        if not queue.ready:
            continue
        only = {"queue": queue.name, "state": "ready"}
        wait = f"{counted(queue.ready, 'job')} {'waits' if queue.ready == 1 else 'wait'}"
        if queue.paused is not None:
            yield Alert(f"Queue {queue.name} is paused, and {wait}.", "/jobs", only)
        elif queue.name not in served:
            yield Alert(f"No worker serves queue {queue.name}, and {wait}.", "/jobs", only)
        elif queue.oldest is not None and queue.oldest > LONG_WAIT_MS:
            text = f"The oldest job of queue {queue.name} has been ready for {span(queue.oldest)}."
            yield Alert(text, "/jobs", only)


def _repeats(repeats: Sequence[RepeatRecord], now: datetime) -> Iterator[Alert]:
    for repeat in repeats:
        if repeat.state is RepeatState.PARKED:
            yield Alert(f"Repeat {repeat.key} cannot be read: {repeat.reason}", "/repeats")
        elif repeat.state is RepeatState.PAUSED and repeat.reason:
            yield Alert(f"Repeat {repeat.key} is paused: {repeat.reason}", "/repeats")
        elif (
            repeat.state is RepeatState.ACTIVE
            and repeat.next is not None
            and (now - repeat.next).total_seconds() > LATE_REPEAT_S
        ):
            yield Alert(f"Repeat {repeat.key} is late: no scheduler fires it.", "/repeats")


def _workers(workers: Sequence[WorkerView]) -> Iterator[Alert]:
    for worker in workers:
        if abs(worker.offset) >= CLOCK_OFF_MS:
            text = f"The clock of worker {worker.name} is wrong by {span(worker.offset)}."
            yield Alert(text, "/workers")
