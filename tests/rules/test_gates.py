"""Rates: never more starts than promised, whatever the rate, the burst and the times of the claims
are."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.model.gate import LONGEST_INTERVAL_US, MOST_HOLDERS, Gate, StoredLimit
from mita.model.job import NewJob
from mita.model.limits import Rate
from mita.model.time import Moment
from mita.rules.gates import (
    ONE_MS_US,
    KeyUse,
    ReturnedTokens,
    after_starts,
    after_waking,
    bounded,
    bounded_level,
    effective,
    gates_of,
    given_back,
    is_open,
    keys_of,
    next_token_at,
    next_wake_at,
    passed,
    places,
    to_wake,
    tokens,
)

START: Moment = 1_900_000_000_000
INTERVALS_US = (
    st.integers(1, 50_000) | st.integers(1, 10_000_000) | st.integers(1, LONGEST_INTERVAL_US)
)
BURSTS = st.integers(1, 5) | st.integers(1, 1000)
RATES = st.builds(Gate, st.just("k"), st.none(), INTERVALS_US, BURSTS)
# Claims come at random, often at once, and sometimes after a long pause.
GAPS_MS = st.lists(st.integers(0, 3) | st.integers(0, 40) | st.integers(0, 20_000), max_size=60)
# Levels near now, where rounding counts, and anywhere else.
LEVELS_US = st.integers(-10_000, 200_000).map(lambda us: START * ONE_MS_US + us) | st.integers(
    0, 2 * START * ONE_MS_US
)


def moments(gaps: Iterable[int]) -> list[Moment]:
    """Points in time with these gaps, in milliseconds."""
    now, found = START, []
    for gap in gaps:
        now += gap
        found.append(now)
    return found


def starts_at(gate: Gate, times: Iterable[Moment], use: KeyUse) -> list[Moment]:
    """The starts of a key at which a claim of one job comes at each of these times."""
    started = []
    for now in times:
        use = bounded(gate, use, now)
        if is_open(gate, use, now):
            use = passed(gate, use, now)
            started.append(now)
    return started


def keeps_the_promise(gate: Gate, starts: list[Moment], more: int = 0) -> bool:
    """Whether in any time T there are at most `T / interval + burst` starts, and `more`."""
    return all(
        (last - first - more - gate.burst + 1) * gate.interval_us
        <= (starts[last] - starts[first]) * ONE_MS_US
        for first in range(len(starts))
        for last in range(first, len(starts))
    )


@given(gate=RATES, gaps=GAPS_MS)
def test_no_time_has_more_starts_than_promised(gate: Gate, gaps: list[int]) -> None:
    assert keeps_the_promise(gate, starts_at(gate, moments(gaps), KeyUse()))


@given(gate=RATES, gaps=GAPS_MS, wanted=st.integers(1, 20))
def test_a_claim_of_many_takes_what_there_is(gate: Gate, gaps: list[int], wanted: int) -> None:
    """So does a limited queue, which takes its tokens by number."""
    level_us, started = 0, []
    for now in moments(gaps):
        taken = min(wanted, tokens(gate, level_us, now))
        level_us = after_starts(gate, level_us, now, taken)
        started += [now] * taken
    assert keeps_the_promise(gate, started)
    assert started == starts_at(
        gate, [now for now in moments(gaps) for _ in range(wanted)], KeyUse()
    )


@given(interval_us=st.integers(1, 50_000), burst=st.integers(2, 50), starts=st.integers(1, 200))
def test_a_rate_with_a_burst_loses_nothing_to_the_clock(
    interval_us: int, burst: int, starts: int
) -> None:
    """A worker that comes when a token is due gets the whole rate, although it comes up to 1 ms
    late, if that is less than the burst."""
    gate, level_us, now = Gate("k", None, interval_us, burst), 0, START
    for _ in range(starts):
        now = next_token_at(gate, level_us, now)
        level_us = after_starts(gate, level_us, now, 1)
    late_us = (now - START) * ONE_MS_US - max(0, starts - burst) * interval_us
    if (burst - 1) * interval_us >= ONE_MS_US:
        assert late_us < ONE_MS_US
    else:
        assert late_us < starts * ONE_MS_US


# ---------------------------------------------------------------- tokens that are given back


@given(gate=RATES, level_us=LEVELS_US, others=st.integers(0, 5))
def test_taking_and_giving_back_is_neutral(gate: Gate, level_us: int, others: int) -> None:
    """At the same time the next claim finds as many tokens as before, however many other jobs have
    started in between."""
    others = min(others, max(0, tokens(gate, level_us, START) - 1))
    without = after_starts(gate, level_us, START, others)
    taken = after_starts(gate, level_us, START, others + 1)
    again = given_back(taken, ReturnedTokens(START).returned_us(gate, "q", "k", START))
    assert tokens(gate, again, START) == tokens(gate, without, START)
    assert again == max(without, START * ONE_MS_US if not others else 0)


@given(gate=RATES, starts=st.integers(1, 20), late_ms=st.integers(0, 100_000))
def test_starts_of_one_claim_give_back_all_but_the_time_since(
    gate: Gate, starts: int, late_ms: int
) -> None:
    """A worker that hands back a whole claim loses one token at most: the one that time gives."""
    returned = ReturnedTokens(START + late_ms)
    all_us = sum(returned.returned_us(gate, "q", "k", START) for _ in range(starts))
    assert all_us == max(0, starts * gate.interval_us - late_ms * ONE_MS_US)


@given(
    gate=RATES,
    gaps=GAPS_MS,
    claims=st.lists(st.integers(1, 5), min_size=60, max_size=60),
    unstarted=st.lists(st.booleans(), min_size=60, max_size=60),
    delay=st.integers(0, 4),
)
def test_what_is_given_back_breaks_no_rate(
    gate: Gate, gaps: list[int], claims: list[int], unstarted: list[bool], delay: int
) -> None:
    """In any time T there are at most `T / interval + burst` starts, however late the claims that
    did not start are given back."""
    level_us, real = 0, list[Moment]()
    waiting: list[tuple[Moment, int]] = []  # claims that will be given back: when, how many
    for now, wanted, never in zip(moments(gaps), claims, unstarted, strict=False):
        if len(waiting) > delay:
            claimed, starts = waiting.pop(0)
            returned = ReturnedTokens(now)
            for _ in range(starts):
                returned_us = returned.returned_us(gate, "q", "k", claimed)
                level_us = given_back(level_us, returned_us)
        starts = min(wanted, tokens(gate, level_us, now))
        level_us = after_starts(gate, level_us, now, starts)
        if never and starts:
            waiting.append((now, starts))
        else:
            real += [now] * starts
    for at, first in enumerate(real):
        for n, last in enumerate(real[at:], 1):
            allowed = (last - first) * ONE_MS_US // gate.interval_us + gate.burst
            assert n <= allowed


# ---------------------------------------------------------------- the next token


@given(gate=RATES, level_us=LEVELS_US)
def test_the_next_token_is_named_to_the_millisecond(gate: Gate, level_us: int) -> None:
    """There is a token at that time, and none one millisecond before."""
    moment = next_token_at(gate, level_us, START)
    assert moment >= START
    assert tokens(gate, level_us, moment) > 0
    if moment > START:
        assert tokens(gate, level_us, moment - 1) == 0


@given(gate=RATES, tat_us=LEVELS_US, woken_us=LEVELS_US, held=st.integers(0, 100_000))
def test_a_key_wakes_a_job_when_it_says(gate: Gate, tat_us: int, woken_us: int, held: int) -> None:
    use = KeyUse(0, START + held, tat_us, woken_us)
    moment = next_wake_at(gate, use, START)
    assert to_wake(gate, use, moment) > 0
    if moment > START:
        assert to_wake(gate, use, moment - 1) == 0


# ---------------------------------------------------------------- a rate that was changed


@given(old=RATES, new=RATES, before=GAPS_MS, after=GAPS_MS)
def test_a_changed_rate_keeps_its_own_promise(
    old: Gate, new: Gate, before: list[int], after: list[int]
) -> None:
    """After a change no time has more starts than the new rate promises, whatever the old one has
    left."""
    use = KeyUse()
    for now in moments(before):
        if is_open(old, use, now):
            use = passed(old, use, now)
    times = [one + sum(before) for one in moments(after)]
    assert keeps_the_promise(new, starts_at(new, times, use))


@given(gate=RATES, tat_us=LEVELS_US, woken_us=LEVELS_US)
def test_a_level_is_never_more_than_the_burst_ahead(gate: Gate, tat_us: int, woken_us: int) -> None:
    """So a rate has its next token after one interval at most. Bringing a level back gives no token
    at once: it was out of reach before and is used up now."""
    use = KeyUse(0, 0, tat_us, woken_us)
    found = bounded(gate, use, START)
    assert tokens(gate, found.tat_us, START) == tokens(gate, tat_us, START)
    assert found.tat_us == bounded_level(gate, tat_us, START) <= tat_us
    first = next_token_at(gate, found.tat_us, START)
    assert (first - START) * ONE_MS_US < gate.interval_us + ONE_MS_US
    assert bounded(gate, found, START) is found
    assert bounded(Gate("k", 1), use, START) is use


@given(gate=RATES, gaps=GAPS_MS)
def test_a_level_in_use_is_never_brought_back(gate: Gate, gaps: list[int]) -> None:
    """While the rate and the clock are what they were, no level is too far ahead."""
    use = KeyUse()
    for now in moments(gaps):
        assert bounded(gate, use, now) is use
        if is_open(gate, use, now):
            use = passed(gate, use, now)
        use = after_waking(gate, use, now, min(2, to_wake(gate, use, now)))


# ---------------------------------------------------------------- jobs that are woken


@given(
    gate=RATES,
    gaps=GAPS_MS,
    lost=st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_no_time_has_more_wake_ups_than_tokens(
    gate: Gate, gaps: list[int], lost: list[bool]
) -> None:
    """A key wakes no more jobs than may start, also if some of them never do; and each job that was
    woken and comes at once finds its token."""
    use, woken = KeyUse(), []
    for now, never in zip(moments(gaps), lost, strict=False):
        free = min(3, to_wake(gate, use, now))
        assert free <= tokens(gate, use.tat_us, now)
        use = after_waking(gate, use, now, free)
        woken += [now] * free
        assert to_wake(gate, use, now) <= tokens(gate, use.tat_us, now) - free
        for _ in range(0 if never else free):
            assert is_open(gate, use, now)
            use = passed(gate, use, now)
    assert keeps_the_promise(gate, woken)


@given(
    limit=st.none() | st.integers(0, 5),
    rate=st.none() | RATES,
    holders=st.integers(0, 8),
    tat_us=LEVELS_US,
    held=st.integers(-5, 5),
)
def test_a_key_wakes_no_job_that_may_not_start(
    limit: int | None, rate: Gate | None, holders: int, tat_us: int, held: int
) -> None:
    """It wakes jobs if, and only if, one more job may pass; and never more than its free places."""
    gate = Gate("k", limit, rate.interval_us, rate.burst) if rate else Gate("k", limit)
    use = KeyUse(holders, START + held, tat_us, tat_us)
    woken = to_wake(gate, use, START)
    assert (woken > 0) == is_open(gate, use, START)
    assert limit is None or woken <= max(0, limit - holders)
    stored = StoredLimit(limit, gate.interval_us, gate.burst)
    free = places(stored, holders, tat_us, START)
    assert free == to_wake(gate, KeyUse(holders, 0, tat_us, tat_us), START)


# ---------------------------------------------------------------- which gates a job has


KEYS = st.sampled_from(["a", "b", "c"])
GATES = st.lists(
    st.builds(Gate, KEYS, st.none() | st.integers(1, 9), st.sampled_from([0, 5000]), BURSTS),
    max_size=5,
).map(tuple)


@given(resource=st.none() | KEYS, limit=st.integers(1, 9), gates=GATES)
def test_a_key_that_is_named_twice_is_one_gate(
    resource: str | None, limit: int, gates: tuple[Gate, ...]
) -> None:
    """The resource key comes first, each key once, with the smallest of its limits."""
    job = NewJob(
        id="1", task="t", queue="q", payload=b"", resource=resource, limit=limit, gates=gates
    )
    found = gates_of(job)
    assert tuple(gate.key for gate in found) == keys_of(resource, gates)
    named = [Gate(resource, limit), *gates] if resource is not None else list(gates)
    assert {gate.key for gate in found} == {gate.key for gate in named}
    assert resource is None or found[0].key == resource
    for gate in found:
        same = [one for one in named if one.key == gate.key]
        limits = [one.limit for one in same if one.limit is not None]
        assert gate.limit == (min(limits) if limits else None)
        rates = [one.interval_us for one in same if one.interval_us]
        assert gate.interval_us == (rates[0] if rates else 0)


@given(
    gate=RATES,
    limit=st.none() | st.integers(1, 9),
    concurrency=st.none() | st.integers(0, MOST_HOLDERS),
    rate=st.none() | RATES,
)
def test_a_stored_limit_replaces_the_parts_that_it_has(
    gate: Gate, limit: int | None, concurrency: int | None, rate: Gate | None
) -> None:
    gate = Gate(gate.key, limit, gate.interval_us, gate.burst)
    stored = StoredLimit(concurrency, rate.interval_us if rate else 0, rate.burst if rate else 1)
    found = effective(gate, stored)
    assert found.limit == (limit if concurrency is None else concurrency)
    expected = rate or gate
    assert (found.interval_us, found.burst) == (expected.interval_us, expected.burst)
    assert effective(gate, None) is gate
    if concurrency == 0:
        assert not is_open(found, KeyUse(), START)


@pytest.mark.parametrize(
    ("limit", "burst", "late_ms", "per_second"),
    [
        (300, 1, 1, 250),
        (300, 1, 10, 100),
        (300, 2, 1, 300),
        (300, 30, 10, 300),
        (200, 20, 100, 200),
        (30, 1, 10, 25),
        (30, 3, 10, 30),
        (1000, 100, 10, 1000),
    ],
)
def test_a_burst_makes_up_for_late_claims(
    limit: int, burst: int, late_ms: int, per_second: int
) -> None:
    """The figures of the guide: claims come every `late_ms`, on a clock of milliseconds."""
    rate, seconds = Rate(limit, burst=burst), 60
    level_us = starts = 0
    gate = Gate("k", None, rate.interval_us, burst)
    for now in range(START, START + seconds * 1000, late_ms):
        found = tokens(gate, level_us, now)
        starts, level_us = starts + found, after_starts(gate, level_us, now, found)
    assert starts - burst == pytest.approx(per_second * seconds, rel=0.01, abs=burst)
