"""Fair shares: groups of jobs in one queue and priority take turns, and no turn is left unused."""

from collections import Counter as Counters

from mita.model.time import When
from mita.ports.store import Can, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    SHORT,
    claims,
    needs,
    put,
    put_many,
    release,
    settled,
    succeed,
)

GROUP_JOBS = 6


async def _groups(store: Store, limit: int) -> list[str | None]:
    """Claim jobs one after the other and settle them. Returns the group of each."""
    order = []
    for _ in range(limit):
        found = await claims(store, 1)
        order += [claim.fair for claim in found]
        await settled(store, *map(succeed, found))
    return order


async def test_groups_take_turns(store: Store) -> None:
    """Of three groups with ready jobs each gets every third start, whoever came first."""
    needs(store, Can.SHARE_EXACTLY)
    for group in ("a", "b", "c"):
        await put_many(store, GROUP_JOBS, fair=group)
    order = await _groups(store, 3 * GROUP_JOBS)
    for at in range(0, len(order), 3):
        assert sorted(map(str, order[at : at + 3])) == ["a", "b", "c"]


async def test_a_claim_of_many_takes_turns_too(store: Store) -> None:
    """One claim of several jobs has the same shares."""
    needs(store, Can.SHARE_EXACTLY)
    await put_many(store, 20, fair="big")
    await put_many(store, 3, fair="small")
    counts = Counters(claim.fair for claim in await claims(store, 6))
    assert counts == {"big": 3, "small": 3}


async def test_a_small_group_is_not_behind_a_large_one(store: Store) -> None:
    """A group with one job starts it long before the jobs of a large group are done. Every store
    keeps this, also one with coarser turns."""
    await put_many(store, 60, fair="big")
    await put(store, fair="small")
    order = await _groups(store, 30)
    assert "small" in order


async def test_no_turn_is_left_unused(store: Store) -> None:
    """The only group with ready jobs gets all starts."""
    await put_many(store, 5, fair="alone")
    assert len(await claims(store, 10)) == 5


async def test_a_group_gets_nothing_for_the_time_it_was_idle(store: Store) -> None:
    """A group that comes back goes next, and then takes turns."""
    needs(store, Can.SHARE_EXACTLY)
    await put_many(store, 10, fair="busy")
    assert await _groups(store, 4) == ["busy"] * 4
    await put_many(store, 4, fair="late")
    order = await _groups(store, 6)
    assert Counters(order) == {"busy": 3, "late": 3}


async def test_weights(store: Store) -> None:
    """A group with weight 3 gets three starts for each start of a group with weight 1."""
    needs(store, Can.SHARE_EXACTLY)
    await put_many(store, 12, fair="heavy", weight=3000)
    await put_many(store, 12, fair="light", weight=1000)
    counts = Counters(await _groups(store, 12))
    assert counts == {"heavy": 9, "light": 3}


async def test_jobs_without_a_group_are_one_group_more(store: Store) -> None:
    """Jobs without `fair` in the same queue take turns with the groups."""
    needs(store, Can.SHARE_EXACTLY)
    await put_many(store, 6)
    await put_many(store, 6, fair="a")
    counts = Counters(await _groups(store, 6))
    assert counts == {None: 3, "a": 3}


async def test_jobs_without_a_group_have_the_weight_of_one(store: Store) -> None:
    """A weight belongs to a group: jobs without `fair` get one start in each round, whatever weight
    they name."""
    needs(store, Can.SHARE_EXACTLY)
    await put_many(store, 12, weight=3000)
    await put_many(store, 12, fair="a")
    counts = Counters(await _groups(store, 12))
    assert counts == {None: 6, "a": 6}


async def test_priority_goes_before_shares(store: Store) -> None:
    """Groups share the starts of one priority; a higher priority goes first."""
    needs(store, Can.SHARE_EXACTLY)
    await put_many(store, 3, fair="a", priority=5)
    await put_many(store, 3, fair="b", priority=8)
    assert await _groups(store, 6) == ["b"] * 3 + ["a"] * 3


async def test_within_a_group_the_oldest_goes_first(store: Store) -> None:
    """The jobs of one group start by due time and age."""
    needs(store, Can.SHARE_EXACTLY)
    ids = await put_many(store, 4, fair="a")
    await put(store, fair="b")
    assert [claim.id for claim in await claims(store, 10) if claim.fair == "a"] == ids


async def test_scheduled_jobs_of_a_group_do_not_count(store: Store, clock: Ticker) -> None:
    """Jobs that are not due yet take no turn, and start when they are due."""
    await put_many(store, 5, fair="a", when=When(SHORT))
    await put_many(store, 2, fair="b")
    assert [claim.fair for claim in await claims(store)] == ["b", "b"]
    await clock.tick(PAST)
    assert len(await claims(store)) == 5


async def test_a_job_of_a_group_that_goes_back_keeps_its_group(store: Store) -> None:
    """A job that is handed back or retried stays in its group."""
    await put(store, fair="a")
    [claim] = await claims(store)
    await settled(store, release(claim))
    [again] = await claims(store)
    assert (again.id, again.fair) == (claim.id, "a")


async def test_ahead_knows_the_turns(store: Store) -> None:
    """`ahead` counts the jobs that go before in the order of the turns."""
    needs(store, Can.SHARE_EXACTLY)
    await put_many(store, 10, fair="big")
    first = await put(store, fair="small")
    ahead = await store.ahead(first)
    assert ahead is not None
    assert ahead <= 1


async def test_many_groups(store: Store) -> None:
    """A queue with many groups drains completely."""
    total = 0
    for n in range(40):
        total += len(await put_many(store, 1 + n % 3, fair=f"g{n}"))
    found: list[str] = []
    while batch := await claims(store, 25, lease=LONG):
        found += [claim.id for claim in batch]
        await settled(store, *map(succeed, batch))
    assert len(set(found)) == len(found) == total
