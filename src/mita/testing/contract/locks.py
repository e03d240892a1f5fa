"""Locks that expire by themselves, by which one of many schedulers fires for all."""

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
from .notify import SHORT_PAUSE_S, WAKE_UP_TIMEOUT_S, caught_up
from .repeats import given


async def test_a_lock_has_one_holder(store: Store, twin: Store) -> None:
    """A lock that one has taken cannot be taken by another; other locks can."""
    assert await store.lock("l", "ada", LONG)
    assert not await twin.lock("l", "bo", LONG)
    assert await twin.lock("another", "bo", LONG)


async def test_the_holder_can_extend_its_lock(store: Store, twin: Store, clock: Ticker) -> None:
    """Taking a lock again extends it."""
    assert await store.lock("l", "ada", SHORT)
    assert await store.lock("l", "ada", LONG)
    await clock.tick(PAST)
    assert not await twin.lock("l", "bo", LONG)


async def test_an_expired_lock_can_be_taken_by_another(
    store: Store, twin: Store, clock: Ticker
) -> None:
    """After its time another can take the lock, and the old holder cannot extend it any more."""
    assert await store.lock("l", "ada", SHORT)
    await clock.tick(PAST)
    assert await twin.lock("l", "bo", LONG)
    assert not await store.lock("l", "ada", LONG), "another has it now"


async def test_a_released_lock_is_free(store: Store, twin: Store) -> None:
    """A lock that its holder releases can be taken at once."""
    assert await store.lock("l", "ada", LONG)
    await store.unlock("l", "ada")
    assert await twin.lock("l", "bo", LONG)


async def test_only_the_holder_can_release_a_lock(store: Store, twin: Store) -> None:
    """Releasing the lock of another does nothing."""
    assert await store.lock("l", "ada", LONG)
    await twin.unlock("l", "bo")
    await twin.unlock("nobody has this one", "bo")
    assert not await twin.lock("l", "bo", LONG)


async def test_of_concurrent_takers_one_gets_the_lock(store: Store, twin: Store) -> None:
    """Of ten that take a lock at once exactly one gets it."""
    handles = [store, twin] * 5
    had = await asyncio.gather(
        *(handle.lock("l", f"holder-{n}", LONG) for n, handle in enumerate(handles))
    )
    assert sum(had) == 1


async def test_a_change_of_repeats_wakes_a_scheduler(store: Store, twin: Store) -> None:
    """I7 repeats: a scheduler that sleeps until the next fire must learn of an earlier one."""
    repeat = Repeat(key="digest", spec=b"1", cursor=await store.now() + LONG)
    await twin.lock("l", "ada", LONG)
    for change in (
        lambda: twin.put_repeat(repeat),
        lambda: twin.put_repeat(Repeat(key="digest", spec=b"2", cursor=1)),
        lambda: _pause_and_resume(twin),
        lambda: twin.remove_repeats(["digest"]),
        lambda: twin.unlock("l", "ada"),
    ):
        await caught_up(store)
        sleeper = asyncio.ensure_future(store.wait([QUEUE], WAKE_UP_TIMEOUT_S))
        await asyncio.sleep(SHORT_PAUSE_S)
        await change()
        assert REPEATS in await sleeper


async def _pause_and_resume(store: Store) -> None:
    await store.pause_repeats(["digest"])
    await store.resume_repeats(["digest"])


async def test_a_change_of_repeats_before_the_wait_is_not_lost(store: Store, twin: Store) -> None:
    """A wait that begins after the change returns at once."""
    await caught_up(store)
    await given(twin)
    assert REPEATS in await store.wait((), WAKE_UP_TIMEOUT_S)
