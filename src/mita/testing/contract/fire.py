"""Firing repeats: one compare-and-set in the store, which enqueues the jobs."""

import asyncio

from msgspec.structs import replace

from mita.model.time import When
from mita.ports.store import Store

from .given import (
    LONG,
    claimed_ids,
    claims,
    job,
    look,
    put,
)
from .repeats import firing, given, stored


async def test_a_firing_of_a_removed_repeat_does_not_fire_the_new_one(
    store: Store,
) -> None:
    """I7 repeats: a new repeat under an old key keeps the revision it is given, so an old firing
    does not fit it."""
    old = await given(store, revision=7)
    await store.remove_repeats(["digest"])
    new = await store.put_repeat(replace(old, revision=8))
    assert new.revision == 8
    assert await store.fire([firing(old), firing(new)]) == [False, True]


async def test_a_firing_moves_the_cursor_and_enqueues_its_job(store: Store) -> None:
    """I7 repeats: one firing moves the cursor, adds to the count and enqueues the job, all or
    nothing."""
    repeat = await given(store)
    turn = firing(repeat)
    assert await store.fire([turn]) == [True]
    assert await stored(store) == replace(repeat, cursor=turn.next, count=1, last=repeat.cursor)
    made = await look(store, turn.jobs[0].id)
    assert (made.repeat, made.fire_time) == ("digest", repeat.cursor)
    assert await claimed_ids(store) == [made.id]


async def test_of_many_schedulers_one_fires(store: Store, twin: Store) -> None:
    """I7 repeats: of ten concurrent firings at one cursor exactly one wins and enqueues its job."""
    repeat = await given(store)
    turns = [firing(repeat) for _ in range(10)]
    handles = [store, twin] * 5
    answers = await asyncio.gather(
        *(handle.fire([turn]) for handle, turn in zip(handles, turns, strict=True))
    )
    assert sum(won for [won] in answers) == 1
    assert len(await claims(store, 20)) == 1
    assert (await stored(store)).count == 1


async def test_a_scheduler_that_wakes_up_late_fires_nothing(store: Store) -> None:
    """I7 repeats: a firing whose cursor has moved on is refused and changes nothing."""
    repeat = await given(store)
    late = firing(repeat)
    assert await store.fire([firing(repeat)]) == [True]
    before = await stored(store)
    assert await store.fire([late]) == [False]
    assert await stored(store) == before
    assert await store.find([late.jobs[0].id]) == [None]


async def test_a_firing_of_an_old_definition_is_refused(store: Store) -> None:
    """I7 repeats: after an edit only a firing with the new revision is accepted."""
    repeat = await given(store)
    edited = await store.put_repeat(replace(repeat, spec=b"another"))
    assert edited.cursor == repeat.cursor
    assert await store.fire([firing(repeat)]) == [False]
    assert await store.fire([firing(edited)]) == [True]


async def test_each_firing_stands_by_itself(store: Store) -> None:
    """I7 repeats: a refused firing does not affect the others of its call."""
    one, two = await given(store, "one"), await given(store, "two")
    stale = replace(firing(one), cursor=1)
    assert await store.fire([stale, firing(two), firing(one), firing(one)]) == [
        False,
        True,
        True,
        False,
    ]
    assert len(await claims(store)) == 2


async def test_dropped_windows_are_not_counted_as_fires(store: Store) -> None:
    """A firing that only moves the cursor past missed windows does not add to the count."""
    repeat = await given(store)
    [_] = await store.fire([firing(repeat)])
    fired = await stored(store)
    passed = firing(fired, fired=0, last=None, jobs=())
    assert await store.fire([passed]) == [True]
    after = await stored(store)
    assert (after.cursor, after.count, after.last) == (passed.next, 1, repeat.cursor)


async def test_one_firing_can_enqueue_many_jobs(store: Store) -> None:
    """I7 repeats: a firing that catches up enqueues all its jobs at once."""
    repeat = await given(store)
    made = tuple(job(repeat="digest", fire_time=n) for n in range(30))
    assert await store.fire([firing(repeat, fired=30, jobs=made, last=29)]) == [True]
    assert sorted(await claimed_ids(store, 50)) == sorted(new.id for new in made)
    assert (await stored(store)).count == 30


async def test_a_fired_job_is_not_created_while_its_unique_key_is_taken(store: Store) -> None:
    """If the last job of a repeat still has its unique key, the firing counts and creates no
    job."""
    repeat = await given(store)
    await put(store, unique="repeat:digest", when=When(LONG))
    assert await store.fire([firing(repeat, jobs=(job(unique="repeat:digest"),))]) == [True]
    assert await claims(store) == []
    assert (await stored(store)).count == 1
