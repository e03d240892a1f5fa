"""A timeline keeps a limited number of lines. When it is full, its two oldest lines become one
`folded` line, whose note has the counts by kind as JSON. Stores that write lines in SQL or Lua do
the same there."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from mita.model.outcome import TimelineEntry, TimelineKind

TIMELINE_LINES = 50  # that a store keeps of one job
FOLDED = TimelineKind.FOLDED

_decode = msgspec.json.Decoder(dict[str, int]).decode


def _counts(note: str) -> dict[str, int]:
    """The counts in the note of a folded line. A note that cannot be read counts as one unreadable
    line."""
    try:
        return _decode(note)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {TimelineKind.UNREADABLE: 1}


def lengthened(events: Sequence[TimelineEntry], event: TimelineEntry) -> tuple[TimelineEntry, ...]:
    """Returns the timeline with one more line."""
    longer = (*events, event)
    if len(longer) <= TIMELINE_LINES:
        return longer
    first, second, *rest = longer
    return folded(first, second), *rest


def folded(first: TimelineEntry, second: TimelineEntry) -> TimelineEntry:
    """Returns the two oldest lines as one."""
    counts = Counter(_counts(first.note) if first.kind == FOLDED else {first.kind: 1})
    counts[second.kind] += 1
    return TimelineEntry(second.at, FOLDED, msgspec.json.encode(counts).decode())


def for_people(events: Sequence[TimelineEntry]) -> list[TimelineEntry]:
    """Returns the timeline for people: the counts of a folded line come first, the most frequent
    kind first."""
    if not events or events[0].kind != FOLDED:
        return list(events)
    first, *kept = events
    counts = sorted(_counts(first.note).items(), key=lambda each: (-each[1], each[0]))
    what = ", ".join(f"{number} {kind}" for kind, number in counts)
    return [replace(first, note=f"{sum(number for _, number in counts)} earlier: {what}"), *kept]
