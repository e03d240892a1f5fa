"""A story that gets too long: its oldest lines are counted by kind, and nothing is lost from the
counts."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mita.model.outcome import TimelineEntry
from mita.rules.timeline import FOLDED, TIMELINE_LINES, for_people, lengthened


def story(kinds: list[str]) -> list[TimelineEntry]:
    events: tuple[TimelineEntry, ...] = ()
    for at, kind in enumerate(kinds):
        events = lengthened(events, TimelineEntry(at, kind, f"line {at}"))
    return for_people(events)


@given(
    st.lists(
        st.sampled_from(["retried", "rescheduled", "blocked", "sleeping", "waiting", "signalled"]),
        max_size=4 * TIMELINE_LINES,
    )
)
def test_it_stays_short_and_its_counts_add_up(kinds: list[str]) -> None:
    events = story(kinds)
    assert len(events) == min(len(kinds), TIMELINE_LINES)
    assert [event.at for event in events] == sorted(event.at for event in events)
    kept = [event for event in events if event.kind != FOLDED]
    assert [event.kind for event in kept] == kinds[len(kinds) - len(kept) :]
    earlier = Counter(kinds[: len(kinds) - len(kept)])
    if earlier:
        number, _, rest = events[0].note.partition(" earlier: ")
        assert int(number) == earlier.total()
        assert {kind: int(n) for n, kind in (part.split() for part in rest.split(", "))} == earlier


def test_what_happened_most_often_comes_first() -> None:
    kinds = ["retried", "rescheduled", "rescheduled", *["blocked"] * (TIMELINE_LINES - 1)]
    assert story(kinds)[0] == TimelineEntry(2, FOLDED, "3 earlier: 2 rescheduled, 1 retried")
