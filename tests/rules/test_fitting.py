"""What is given up of a job that does not fit: the least useful first, and never what another run
needs."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mita.model.job import State
from mita.model.outcome import Counter, TimelineEntry, TimelineKind, Verdict
from mita.model.time import HOUR, NOW
from mita.rules.failures import MOST_FAILURE_BYTES, failure, type_of
from mita.rules.fitting import SHORT_BYTES, shorter, smaller
from mita.rules.text import shortened
from mita.rules.timeline import FOLDED, TIMELINE_LINES, for_people

KEEP = 1000
RETRY = Verdict(
    state=State.QUEUED,
    when=NOW,
    counts=Counter.ATTEMPTS,
    error="Boom: " + "x" * 4000,
    event=TimelineKind.RETRIED,
    note="n" * 900,
)


def test_a_result_goes_first_and_the_job_fails_with_the_reason() -> None:
    less = smaller(Verdict(state=State.SUCCEEDED, result=b"x" * 5000, keep=1), "no room", KEEP)
    assert less is not None
    assert (less.state, less.result, less.counts, less.keep) == (
        State.FAILED,
        None,
        Counter.ATTEMPTS,
        KEEP,
    )
    assert less.error is not None
    assert "5,000 bytes" in less.error
    assert "no room" in less.error


def test_texts_are_cut_before_the_job_has_to_fail() -> None:
    cut = smaller(RETRY, "no room", KEEP)
    assert cut is not None
    assert (cut.state, cut.when, cut.counts, cut.event) == (
        State.QUEUED,
        NOW,
        Counter.ATTEMPTS,
        "retried",
    )
    assert len(cut.error or "") <= SHORT_BYTES
    last = smaller(cut, "no room", KEEP)
    assert last is not None
    assert (last.state, last.counts) == (State.FAILED, Counter.ATTEMPTS)
    assert "no room" in (last.error or "")
    assert smaller(last, "no room", KEEP) is None, "there is nothing left to give up"


@given(st.sampled_from(State), st.none() | st.binary(), st.none() | st.text(), st.text(), st.text())
def test_it_always_ends(
    state: State, result: bytes | None, error: str | None, note: str, reason: str
) -> None:
    verdict: Verdict | None = Verdict(
        state=state, result=result, error=error, event=TimelineKind.FAILED, note=note
    )
    for _ in range(4):
        verdict = verdict and smaller(verdict, reason, KEEP)
    assert verdict is None


def story(lines: int) -> tuple[TimelineEntry, ...]:
    return tuple(
        TimelineEntry(n, "retried", "n" * 1000, "w", "e" * 1500, n - 1) for n in range(lines)
    )


def size(value: object) -> int:
    return len(msgspec.msgpack.encode(value))


def test_what_was_not_started_stays_marked() -> None:
    small = Verdict(state=State.CANCELLED, unstarted=True)
    failed = smaller(small, "too large", HOUR)
    assert failed is not None
    assert (failed.state, failed.unstarted) == (State.FAILED, True)


def test_a_story_gets_shorter_from_the_least_useful_on() -> None:
    events, error = story(TIMELINE_LINES), "Boom\n" * 2000
    steps = list(shorter(events, error))
    sizes = [size((events, error)), *[size(step) for step in steps]]
    assert sizes == sorted(sizes, reverse=True)
    assert [sum(bool(event.error) for event in step.events) for step in steps] == [3, 0, 0, 0, 0]
    assert [len(step.events) for step in steps] == [50, 50, 20, 5, 1]
    assert [step.error == error for step in steps] == [True, True, True, False, False]
    assert sizes[-1] < 500


def test_what_is_folded_can_still_be_read() -> None:
    *_, last = shorter(story(TIMELINE_LINES), None)
    assert last.events[0].kind == FOLDED
    assert for_people(last.events)[0].note == "50 earlier: 50 retried"


@given(st.text(), st.integers(10, 300))
def test_a_shortened_text_fits_and_begins_as_it_did(text: str, most: int) -> None:
    cut = shortened(text, most)
    assert len(cut.encode("utf-8", "surrogatepass")) <= most
    assert cut == text or cut[:1] == text[:1]


def test_the_first_and_the_last_lines_of_an_error_stay() -> None:
    text = "shop.Boom: no\n" + "\n".join(f"  line {n}" for n in range(500))
    cut = failure(text)
    assert len(cut.encode()) <= MOST_FAILURE_BYTES
    assert cut.startswith("shop.Boom: no\n")
    assert cut.endswith("  line 499")


def test_the_type_of_an_error_is_read_from_its_text() -> None:
    for text, name in (
        ("KeyError: 3", "KeyError"),
        ("shop.orders.Sold: out\n  File", "shop.orders.Sold"),
        ("a.f.<locals>.Odd", "a.f.<locals>.Odd"),
        ("a.B (text withheld: task is secret)", "a.B"),
        ("", ""),
    ):
        assert type_of(text) == name
