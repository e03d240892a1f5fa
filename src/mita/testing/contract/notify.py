"""Sleeping without polling: woken when there may be work, and not woken by the clock of the
test."""

import asyncio
from collections.abc import Awaitable, Callable

from mita.model.outcome import Answer, CancelJob, RescheduleJob, RetryJob
from mita.model.repeat import Repeat
from mita.model.time import HOUR, NOW, When
from mita.ports.store import ASKED, Store

from .given import (
    LONG,
    QUEUE,
    claims,
    dead,
    move,
    put,
    running,
    succeed,
)
from .repeats import firing

WAKE_UP_TIMEOUT_S = 30.0  # seconds: a caller that sleeps this long was not woken
SHORT_PAUSE_S = 0.05  # seconds


async def awake(store: Store) -> None:
    """Hear all that has rung so far, so that the next ring is a new one."""
    while await store.wait(None, SHORT_PAUSE_S):
        pass


async def asleep(store: Store) -> asyncio.Future[frozenset[str]]:
    """A caller that sleeps for the queue. One that is woken at once, by something that happened
    before, goes to sleep again."""
    while True:
        await awake(store)
        sleeper = asyncio.ensure_future(store.wait([QUEUE], WAKE_UP_TIMEOUT_S))
        await asyncio.sleep(SHORT_PAUSE_S)
        if not sleeper.done():
            return sleeper


async def rings(store: Store, act: Callable[[], Awaitable[object]]) -> bool:
    """Whether `act` wakes a caller that already sleeps for the queue."""
    sleeper = await asleep(store)
    await act()
    return QUEUE in await sleeper


async def test_a_new_job_wakes_whoever_sleeps_for_its_queue(store: Store, twin: Store) -> None:
    assert await rings(store, lambda: put(store))
    assert await rings(store, lambda: put(twin)), "the other process may be the one that enqueues"


async def test_a_job_for_later_wakes_too(store: Store) -> None:
    """I9: the sleeper may have meant to sleep for longer than that."""
    assert await rings(store, lambda: put(store, when=When(LONG)))


async def test_what_rang_before_the_wait_is_not_lost(store: Store, twin: Store) -> None:
    await awake(store)
    await put(twin)
    assert QUEUE in await store.wait([QUEUE], WAKE_UP_TIMEOUT_S)


async def test_a_ring_for_another_queue_is_kept_for_those_who_want_it(store: Store) -> None:
    await awake(store)
    await put(store, queue="billing")
    assert "billing" not in await store.wait([QUEUE], SHORT_PAUSE_S)
    assert "billing" in await store.wait(["billing"], WAKE_UP_TIMEOUT_S)


async def test_who_sleeps_for_any_queue_is_told_which(store: Store) -> None:
    await awake(store)
    await put(store, queue="billing")
    assert "billing" in await store.wait(None, WAKE_UP_TIMEOUT_S)


async def test_nothing_happens_and_the_sleep_ends_by_itself(store: Store) -> None:
    await awake(store)
    assert await store.wait([QUEUE], SHORT_PAUSE_S) == frozenset()
    assert await store.wait(None, 0) == frozenset()


async def test_each_process_is_woken(store: Store, twin: Store) -> None:
    await awake(store)
    await awake(twin)
    sleepers = [
        asyncio.ensure_future(handle.wait([QUEUE], WAKE_UP_TIMEOUT_S)) for handle in (store, twin)
    ]
    await asyncio.sleep(SHORT_PAUSE_S)
    await put(store)
    assert all(QUEUE in heard for heard in await asyncio.gather(*sleepers))


async def test_a_sleep_that_is_given_up_loses_nothing(store: Store) -> None:
    await awake(store)
    sleeper = asyncio.ensure_future(store.wait([QUEUE], WAKE_UP_TIMEOUT_S))
    await asyncio.sleep(SHORT_PAUSE_S)
    sleeper.cancel()
    await asyncio.gather(sleeper, return_exceptions=True)
    await put(store)
    assert QUEUE in await store.wait([QUEUE], WAKE_UP_TIMEOUT_S)


async def test_a_moved_or_revived_job_wakes(store: Store, twin: Store) -> None:
    later, failed = await put(store, when=When(LONG)), await dead(store)
    assert await rings(store, lambda: twin.amend([later], RescheduleJob(NOW)))
    assert await rings(store, lambda: twin.amend([failed], RetryJob(NOW)))


async def test_a_job_that_goes_back_to_its_queue_wakes(store: Store, twin: Store) -> None:
    claim = await running(store)
    assert await rings(store, lambda: twin.settle([move(claim)]))


async def test_a_job_that_gets_its_key_wakes(store: Store, twin: Store) -> None:
    claim = await running(store, resource="r")
    await put(store, resource="r")
    assert await claims(store) == []
    assert await rings(store, lambda: twin.settle([succeed(claim)]))


async def test_a_resumed_queue_wakes(store: Store, twin: Store) -> None:
    await put(store)
    await store.pause([QUEUE])
    assert await rings(store, lambda: twin.resume([QUEUE]))


async def test_a_lifted_hold_wakes(store: Store, twin: Store) -> None:
    await store.hold([QUEUE], "r", When(LONG))
    await put(store, resource="r")
    assert await claims(store) == []
    assert await rings(store, lambda: twin.hold([QUEUE], "r", NOW))


async def test_a_fired_repeat_wakes(store: Store, twin: Store) -> None:
    repeat = await store.put_repeat(Repeat(key="digest", spec=b"", cursor=await store.now()))
    assert await rings(store, lambda: twin.fire([firing(repeat)]))


async def test_a_worker_hears_that_a_running_job_was_cancelled(store: Store, twin: Store) -> None:
    claim = await running(store)
    await awake(store)
    await twin.amend([claim.id], CancelJob(keep=HOUR))
    assert ASKED in await store.wait(["some other queue"], WAKE_UP_TIMEOUT_S)


async def test_a_reschedule_of_a_running_job_wakes_no_heartbeat(store: Store, twin: Store) -> None:
    """It takes effect when the run ends. A job that is enqueued after it rings after it."""
    claim = await running(store)
    await awake(store)
    assert await twin.amend([claim.id], RescheduleJob(NOW)) == [Answer.ASKED]
    await put(twin, queue="billing")
    heard: set[str] = set()
    async with asyncio.timeout(WAKE_UP_TIMEOUT_S):
        while "billing" not in heard:
            heard |= await store.wait(None, WAKE_UP_TIMEOUT_S)
    assert ASKED not in heard
