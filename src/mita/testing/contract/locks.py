"""Locks that run out by themselves, by which one of many schedulers does the work for all."""

import asyncio

from mita.model.repeat import Repeat
from mita.ports.store import REPEATS, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    QUEUE,
    SHORT,
)
from .notify import SHORT_PAUSE_S, WAKE_UP_TIMEOUT_S, awake
from .repeats import given, stored


async def test_a_lock_has_one_holder(store: Store, twin: Store) -> None:
    assert await store.lock("l", "ada", LONG)
    assert not await twin.lock("l", "bo", LONG)
    assert await twin.lock("another", "bo", LONG)


async def test_its_holder_may_take_it_again_and_so_keeps_it(
    store: Store, twin: Store, clock: Ticker
) -> None:
    assert await store.lock("l", "ada", SHORT)
    assert await store.lock("l", "ada", LONG)
    await clock.tick(PAST)
    assert not await twin.lock("l", "bo", LONG)


async def test_a_lock_that_ran_out_is_anybodys(store: Store, twin: Store, clock: Ticker) -> None:
    assert await store.lock("l", "ada", SHORT)
    await clock.tick(PAST)
    assert await twin.lock("l", "bo", LONG)
    assert not await store.lock("l", "ada", LONG), "whoever slept finds that another has it"


async def test_a_lock_that_is_given_back_is_free(store: Store, twin: Store) -> None:
    assert await store.lock("l", "ada", LONG)
    await store.unlock("l", "ada")
    assert await twin.lock("l", "bo", LONG)


async def test_only_its_holder_can_give_it_back(store: Store, twin: Store) -> None:
    assert await store.lock("l", "ada", LONG)
    await twin.unlock("l", "bo")
    await twin.unlock("nobody has this one", "bo")
    assert not await twin.lock("l", "bo", LONG)


async def test_of_many_who_want_it_one_has_it(store: Store, twin: Store) -> None:
    handles = [store, twin] * 5
    had = await asyncio.gather(
        *(handle.lock("l", f"holder-{n}", LONG) for n, handle in enumerate(handles))
    )
    assert sum(had) == 1


async def test_whoever_sleeps_hears_that_repeats_changed(store: Store, twin: Store) -> None:
    """I7: a scheduler that sleeps to the next fire must learn of an earlier one."""
    repeat = Repeat(key="digest", spec=b"1", cursor=await store.now() + LONG)
    await twin.lock("l", "ada", LONG)
    for change in (
        lambda: twin.put_repeat(repeat),
        lambda: twin.put_repeat(Repeat(key="digest", spec=b"2", cursor=1)),
        lambda: _pause_and_resume(twin),
        lambda: twin.remove_repeats(["digest"]),
        lambda: twin.unlock("l", "ada"),
    ):
        await awake(store)
        sleeper = asyncio.ensure_future(store.wait([QUEUE], WAKE_UP_TIMEOUT_S))
        await asyncio.sleep(SHORT_PAUSE_S)
        await change()
        assert REPEATS in await sleeper


async def _pause_and_resume(store: Store) -> None:
    await store.pause_repeats(["digest"])
    await store.resume_repeats(["digest"])


async def test_what_rang_for_repeats_before_the_wait_is_not_lost(store: Store, twin: Store) -> None:
    await awake(store)
    await given(twin)
    assert REPEATS in await store.wait((), WAKE_UP_TIMEOUT_S)


async def test_repeats_are_found_by_key(store: Store, twin: Store) -> None:
    for key in ("b", "a"):
        await given(store, key)
    found = await twin.find_repeats(["a", "nobody", "b", "a"])
    assert found == [
        await stored(store, "a"),
        None,
        await stored(store, "b"),
        await stored(store, "a"),
    ]
    assert await twin.find_repeats([]) == []


async def test_a_new_repeat_keeps_the_revision_it_is_given(store: Store) -> None:
    """I7: what was planned for a removed repeat must not fit the one that takes its place."""
    old = await given(store, revision=2**30 + 7)
    assert await store.remove_repeats(["digest"]) == [True]
    new = await store.put_repeat(Repeat(key="digest", spec=b"new", cursor=old.cursor, revision=99))
    assert (new.revision, (await stored(store)).revision) == (99, 99)
