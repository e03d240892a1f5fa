"""What a note comes to: batches_of of events that have most in common, and the single ones again at
the other end."""

import asyncio

import msgspec
import pytest

from mita import JobEvent, Mita
from mita.events import publisher
from mita.events.batches import batches_of
from mita.events.signals import (
    Batched,
    RunsSettled,
    RunsStarted,
    SettlingSoon,
    StartedRun,
)
from mita.model.event import EventBatch, Kind
from mita.model.job import Claim, State
from mita.model.outcome import Counter, Settlement, Start, Verdict
from mita.model.time import SECOND, When
from tests.engine.conftest import TIMEOUT_S

SUCCESS = Verdict(state=State.SUCCEEDED)
BEGUN = Start("t", "q", 0, 0.0)
RETRY = Verdict(state=State.QUEUED, counts=Counter.ATTEMPTS, when=When(wait=2 * SECOND))


def claim(id: str, task: str = "t", queue: str = "q", attempts: int = 0) -> Claim:
    return Claim(id, 1, 5000, task, queue, b"", b"", b"", 5, 4000, 4000, attempts)


def events(made: list[EventBatch]) -> list[JobEvent]:
    return [event for batch in made for event in batch.events()]


def test_runs_of_several_tasks_that_alternate_make_one_bunch_for_each() -> None:
    note = RunsStarted([StartedRun(claim(str(n), f"t{n % 2}"), n / 10) for n in range(6)], "w", 7)
    assert [(batch.task, batch.ids) for batch in batches_of(note)] == [
        ("t0", ["0", "2", "4"]),
        ("t1", ["1", "3", "5"]),
    ]
    assert events(batches_of(note))[1] == JobEvent(
        Kind.STARTED, "2", "t0", "q", 7, "w", 1, 0.0, 1.2
    )


def test_each_ending_keeps_what_is_its_own() -> None:
    endings = [
        Settlement(claim("a"), SUCCESS, 0.5),
        Settlement(claim("b", attempts=1), RETRY, 0.25),
        Settlement(claim("c"), SUCCESS, 0.1, was_cancelled=True),
        Settlement(claim("d"), SUCCESS, 0.2),
        Settlement(claim("e"), Verdict(state=State.QUEUED)),
    ]
    note = RunsSettled(endings, [True, True, True, False, True], "w", 7)
    told = {event.id: event for event in events(batches_of(note))}
    assert told == {
        "a": JobEvent(Kind.SUCCEEDED, "a", "t", "q", 7, "w", 1, 0.5),
        "b": JobEvent(Kind.RETRIED, "b", "t", "q", 7, "w", 2, 0.25, 2.0),
        "c": JobEvent(Kind.CANCELLED, "c", "t", "q", 7, "w", 1, 0.1),
        "d": JobEvent(Kind.STALE, "d", "t", "q", 7, "w", 1, 0.2),
    }, "one that was given back untouched is not worth a word"
    assert batches_of(note) is batches_of(note), "made once, for all who want them"


def test_a_run_that_is_over_before_anybody_heard_of_it_is_told_whole() -> None:
    endings = [Settlement(claim(id), SUCCESS, 0.5, start=Start("t", "q", 0, 0.25)) for id in "ab"]
    note = RunsSettled(endings, [True, True], "w", 7)
    [whole] = batches_of(note)
    assert (whole.ids, whole.whole, whole.size) == (["a", "b"], True, 4)
    assert events([whole]) == [
        JobEvent(Kind.STARTED, "a", "t", "q", 7, "w", 1, wait=1.25),
        JobEvent(Kind.STARTED, "b", "t", "q", 7, "w", 1, wait=1.25),
        JobEvent(Kind.SUCCEEDED, "a", "t", "q", 7, "w", 1, 0.5),
        JobEvent(Kind.SUCCEEDED, "b", "t", "q", 7, "w", 1, 0.5),
    ]
    assert [[*part.events()] for part in whole.parts(2)] == [
        events([whole])[::2],
        events([whole])[1::2],
    ]


def test_of_a_whole_run_either_half_can_be_had_alone() -> None:
    [whole] = batches_of(
        RunsSettled([Settlement(claim("a"), SUCCESS, 0.5, start=BEGUN)], [True], "w", 7)
    )
    started, succeeded = whole.events()
    assert whole.only(frozenset(Kind)) is whole
    assert [
        [*half.events()] for kind in Kind if (half := whole.only(frozenset({kind}))) is not None
    ] == [
        [started],
        [succeeded],
    ]
    [plain] = batches_of(RunsSettled([Settlement(claim("a"), SUCCESS, 0.5)], [True], "w", 7))
    assert plain.only(frozenset({Kind.STARTED})) is None
    assert plain.only(frozenset({Kind.SUCCEEDED})) is plain


@pytest.mark.parametrize("took", [True, False])
def test_starts_come_before_ends_whatever_else_is_in_the_note(took: bool) -> None:
    endings = [
        Settlement(claim("a"), RETRY, 0.5),
        Settlement(claim("b"), RETRY, 0.5, start=BEGUN),
        Settlement(claim("c"), SUCCESS, 0.5, start=BEGUN),
        Settlement(claim("d"), SUCCESS, 0.5, start=BEGUN),
        Settlement(claim("e"), SUCCESS, 0.5),
    ]
    told = events(batches_of(RunsSettled(endings, [True, True, True, took, True], "w", 7)))
    kinds = {id: [event.kind for event in told if event.id == id] for id in "abcde"}
    assert kinds == {
        "a": [Kind.RETRIED],
        "b": [Kind.STARTED, Kind.RETRIED],
        "c": [Kind.STARTED, Kind.SUCCEEDED],
        "d": [Kind.STARTED, Kind.SUCCEEDED if took else Kind.STALE],
        "e": [Kind.SUCCEEDED],
    }


def test_each_whole_run_has_a_wait_of_its_own() -> None:
    """Whatever its neighbours have in common with it."""
    early, late = Start("t", "q", 0, 0.25), Start("t", "q", 0, 0.5)
    endings = [
        Settlement(claim("a"), SUCCESS, start=early),
        Settlement(claim("b"), Verdict(state=State.SUCCEEDED, result=b"1"), start=early),
        Settlement(msgspec.structs.replace(claim("c"), due=4500), SUCCESS, start=early),
        Settlement(msgspec.structs.replace(claim("d"), due=4500), SUCCESS, start=late),
        Settlement(msgspec.structs.replace(claim("e"), at=7000, due=4500), SUCCESS, start=late),
        Settlement(msgspec.structs.replace(claim("f"), due=9000), SUCCESS, start=late),
        Settlement(claim("g", "u"), SUCCESS, start=Start("u", "q", 0, 0.5)),
    ]
    note = RunsSettled(endings, [True] * 7, "w", 7)
    waits = {
        event.id: event.wait for event in events(batches_of(note)) if event.kind is Kind.STARTED
    }
    assert waits == {"a": 1.25, "b": 1.25, "c": 0.75, "d": 1.0, "e": 3.0, "f": 0.5, "g": 1.5}
    assert [run.claim.id for run in note.timed] == ["c", "d", "e", "f"]


def test_what_was_made_ahead_is_told_only_if_all_of_it_took() -> None:
    ahead = RunsSettled([Settlement(claim(id), SUCCESS, 0.5) for id in "ab"], (), "w", 7)
    assert batches_of(SettlingSoon(ahead)) == [], "nothing has happened yet"
    made = ahead.batched
    partly = RunsSettled(ahead.settlements, [True, False], "w", 7)
    assert [event.kind for event in events(batches_of(partly))] == [Kind.SUCCEEDED, Kind.STALE]
    ahead.took = [True, True]
    assert batches_of(ahead) is made
    assert [event.kind for event in events(made or [])] == [Kind.SUCCEEDED, Kind.SUCCEEDED]


def test_a_batch_travels_and_can_be_cut_in_parts() -> None:
    batch = EventBatch(
        Kind.SUCCEEDED, "t", "q", 7, "w", 1, ids=list("abcde"), seconds=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    parts = [*batch.parts(2)]
    assert [len(part.ids) for part in parts] == [2, 2, 1]
    assert events(parts) == [*batch.events()]
    assert [*batch.parts(5)] == [batch]
    assert publisher.event_count(Batched(parts)) == 5
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(parts), type=list[EventBatch]) == parts


async def test_a_great_enqueue_is_told_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "MESSAGE_EVENTS", 7)
    app = Mita("memory://")

    @app.task
    async def work() -> None: ...

    heard = []
    async with app, app.events() as told:
        jobs = await app.enqueue_many([work.call() for _ in range(40)])
        async with asyncio.timeout(TIMEOUT_S):
            async for event in told:
                heard.append(event)
                if len(heard) == 40:
                    break
    assert [event.id for event in heard] == [job.id for job in jobs]
    assert {event.kind for event in heard} == {Kind.ENQUEUED}
