"""Which priorities a process knows: claims miss none, and the unused are forgotten."""

from itertools import pairwise

import pytest

from mita.model.job import DEFAULT_PRIORITY, PRIORITIES
from mita.model.time import SECOND
from mita.stores.postgres import PostgresStore
from mita.stores.postgres.throughput import known_priorities
from mita.stores.postgres.throughput.known_priorities import KnownPriorities
from mita.stores.postgres.throughput.watermarks import SLOW_FULL_READ_S, Watermarks
from mita.testing.contract.clocks import FakeTicker
from mita.testing.contract.given import QUEUE, claims, job, put

NOW = 1_700_000_000_000
LOWEST, HIGHEST = PRIORITIES[0], PRIORITIES[-1]


def known(priorities: KnownPriorities) -> list[int]:
    return [priority for _, priority in priorities.of([QUEUE])]


async def test_jobs_of_all_priorities_start_in_their_order(store: PostgresStore) -> None:
    await store.enqueue([job(priority=priority) for priority in PRIORITIES])
    store.ageing = None
    found = await claims(store, len(PRIORITIES))
    assert [claim.priority for claim in found] == [*reversed(PRIORITIES)]


@pytest.mark.parametrize("priority", sorted({LOWEST, DEFAULT_PRIORITY + 1, HIGHEST}))
async def test_the_first_claim_finds_a_priority_that_the_process_did_not_know(
    store: PostgresStore, priority: int
) -> None:
    await put(store)
    [_] = await claims(store, 1)
    assert known(store._state.watermarks.priorities) == [DEFAULT_PRIORITY]
    new = await put(store, priority=priority)
    assert [claim.id for claim in await claims(store, 2)] == [new]
    assert priority in known(store._state.watermarks.priorities)


async def test_a_claim_of_nothing_says_that_a_job_of_a_new_priority_is_due(
    store: PostgresStore,
) -> None:
    await put(store, priority=HIGHEST)
    assert (await store.claim([QUEUE], 0, 1, "w")).again == 0


def test_the_spans_cover_each_priority_once() -> None:
    priorities = KnownPriorities()
    priorities.learn([(QUEUE, LOWEST), (QUEUE, DEFAULT_PRIORITY + 2), (QUEUE, HIGHEST)])
    spans = priorities.spans(QUEUE)
    assert spans[0].high == HIGHEST
    assert spans[-1].low == LOWEST
    assert all(upper.low == lower.high + 1 for upper, lower in pairwise(spans))
    assert [span.low for span in spans if span.is_known] == known(priorities)


def test_a_priority_without_jobs_is_forgotten_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    priorities = KnownPriorities()
    priorities.learn([(QUEUE, HIGHEST), (QUEUE, LOWEST)])
    every = priorities.of([QUEUE])
    priorities.notice([], every)
    assert priorities.of([QUEUE]) == every, "it may come back soon"
    monkeypatch.setattr(known_priorities, "FORGET_S", 0)
    priorities.notice([(QUEUE, HIGHEST)], [(QUEUE, LOWEST), (QUEUE, DEFAULT_PRIORITY)])
    assert known(priorities) == [HIGHEST, DEFAULT_PRIORITY]
    assert not priorities.spans(QUEUE)[-1].is_known, "it is in a range again"


def test_after_a_slow_read_each_priority_gets_a_watermark() -> None:
    """Dead rows of a priority that no waiting job has would be read by every claim."""
    marks = Watermarks()
    marks.still_hold(NOW, 7, 0)
    marks.move(NOW, [None], {(QUEUE, DEFAULT_PRIORITY): 0}, SLOW_FULL_READ_S + 1)
    assert known(marks.priorities) == [*reversed(PRIORITIES)]
    assert all(span.is_known for span in marks.priorities.spans(QUEUE))


async def test_priorities_are_strict_as_soon_as_jobs_no_longer_age(
    timed: PostgresStore, clock: FakeTicker
) -> None:
    """The claim before had sorted the jobs by their age."""
    timed.ageing = 1
    for priority in (DEFAULT_PRIORITY, LOWEST, LOWEST):
        await put(timed, priority=priority)
    [_] = await claims(timed, 1)
    assert timed._state.hints.mixed
    timed.ageing = None
    await clock.tick(SECOND)
    high = await put(timed, priority=HIGHEST)
    assert [claim.id for claim in await claims(timed, 1)] == [high]
