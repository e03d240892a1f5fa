"""What is given up of a job that its store does not take whole, and in which order.

Arguments and once values are never cut: another run needs them. Everything else is given up, the
least useful first.

*How a run ended* (`smaller`, when the store rejected a verdict): first the result, which ends the
job as failed with the reason; then the texts are cut; then the job fails with nothing but the
reason.

*The story of a job* (`shorter`, where one limit holds for the whole record of a job): first the
errors of earlier attempts, then the older lines of the timeline, which are counted by kind; then
notes and the last error are cut."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.job import State
from mita.model.outcome import Counter, TimelineEntry, TimelineKind, Verdict
from mita.model.time import Wait

from .fingerprint import fingerprint
from .text import shortened, writable
from .timeline import FOLDED, folded

SHORT_BYTES = 500  # of a text that is cut
SHORTEST_BYTES = 200  # of a text that is cut as far as possible
MARK = "Rejected: "


def check_room(task: str, size: int, room: int | None, remedy: str = "") -> None:
    """Raise a `UsageError` if a job whose arguments take `size` bytes does not fit into a store
    with so much room. `remedy` says what can be changed at the server."""
    if room is not None and size > room:
        raise UsageError(
            f"task {task!r}: the arguments take {size:,} bytes, and this store has room for "
            f"{room:,} in one job; "
            f"store the data elsewhere and pass its name{', or ' if remedy else ''}{remedy}"
        )


def smaller(verdict: Verdict, reason: str, keep: Wait, task: str = "") -> Verdict | None:
    """Returns what to write instead of a verdict that the store rejected for this reason; None when
    there is nothing left to give up. `keep` is how long failed jobs are kept; `task` is the job's
    task."""
    if verdict.result is not None and verdict.state is State.SUCCEEDED:
        text = (
            f"{MARK}the store did not take the result of {len(verdict.result):,} bytes ({reason})"
        )
        text = f"{text}; store it elsewhere and return its name"
        return _failed(task, text, keep, Counter.ATTEMPTS)
    texts = (verdict.error or "", verdict.note, verdict.failure)
    if any(_size(text) > SHORT_BYTES for text in texts):
        error = None if verdict.error is None else shortened(verdict.error, SHORT_BYTES)
        note = shortened(verdict.note, SHORTEST_BYTES)
        return replace(verdict, error=error, note=note, failure="")
    if verdict.state is State.FAILED and (verdict.error or "").startswith(MARK):
        return None
    text = f"{MARK}the store did not take how the run ended ({reason})"
    failed = _failed(task, text, keep, verdict.counts)
    return replace(failed, unstarted=verdict.unstarted)


def _failed(task: str, error: str, keep: Wait, counts: Counter | None) -> Verdict:
    cut = shortened(writable(error), SHORT_BYTES)
    return Verdict(
        state=State.FAILED,
        counts=counts,
        error=cut,
        keep=keep,
        event=TimelineKind.FAILED,
        note=shortened(cut, SHORTEST_BYTES),
        group=fingerprint(task, cut),
    )


class Story(NamedTuple):
    """The parts of a record that no other run needs: the timeline and the last error."""

    events: tuple[TimelineEntry, ...]
    error: str | None


def shorter(events: Sequence[TimelineEntry], error: str | None) -> Iterator[Story]:
    """Yields ever shorter stories of a job; a store takes the first that fits."""
    yield Story(_without_errors(events, but=3), error)
    yield Story(_without_errors(events, but=0), error)
    for lines, size in ((20, SHORT_BYTES), (5, SHORTEST_BYTES), (1, SHORTEST_BYTES)):
        cut = tuple(
            event if event.kind == FOLDED else replace(event, note=shortened(event.note, size))
            for event in _last(events, lines)
        )
        yield Story(
            _without_errors(cut, but=0),
            error if lines == 20 or error is None else shortened(error, size),
        )


def _without_errors(events: Sequence[TimelineEntry], but: int) -> tuple[TimelineEntry, ...]:
    """The timeline without the errors of earlier attempts, except for the last few."""
    with_error = [at for at, event in enumerate(events) if event.error]
    kept = set(with_error[-but:]) if but else set()
    return tuple(
        event if at in kept or not event.error else replace(event, error="")
        for at, event in enumerate(events)
    )


def _last(events: Sequence[TimelineEntry], lines: int) -> tuple[TimelineEntry, ...]:
    """The last lines; earlier ones are counted by kind."""
    left = tuple(events)
    while len(left) > lines > 0 and len(left) > 1:
        first, second, *rest = left
        left = folded(first, second), *rest
    return left


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
