"""Waiting without polling: a caller is woken when a job may have become ready."""

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


async def caught_up(store: Store) -> None:
    """Take all notifications so far, so that the next one is new."""
    while await store.wait(None, SHORT_PAUSE_S):
        pass


async def asleep(store: Store) -> asyncio.Future[frozenset[str]]:
    """A caller that sleeps for the queue. One that is woken at once, by something that happened
    before, goes to sleep again."""
    while True:
        await caught_up(store)
        sleeper = asyncio.ensure_future(store.wait([QUEUE], WAKE_UP_TIMEOUT_S))
        await asyncio.sleep(SHORT_PAUSE_S)
        if not sleeper.done():
            return sleeper


async def wakes(store: Store, act: Callable[[], Awaitable[object]]) -> bool:
    """Whether `act` wakes a caller that already sleeps for the queue."""
    sleeper = await asleep(store)
    await act()
    return QUEUE in await sleeper


async def test_a_new_job_wakes_workers_of_its_queue(store: Store, twin: Store) -> None:
    """An enqueue wakes a caller that waits for the queue, in this process and in others."""
    assert await wakes(store, lambda: put(store))
    assert await wakes(store, lambda: put(twin)), "the other process may be the one that enqueues"


async def test_a_scheduled_job_wakes_workers_too(store: Store) -> None:
    """I9 no starvation: the worker may have meant to sleep longer than until the job is due."""
    assert await wakes(store, lambda: put(store, when=When(LONG)))


async def test_a_notification_before_the_wait_is_not_lost(store: Store, twin: Store) -> None:
    """A wait that begins after the enqueue returns at once."""
    await caught_up(store)
    await put(twin)
    assert QUEUE in await store.wait([QUEUE], WAKE_UP_TIMEOUT_S)


async def test_a_notification_of_another_queue_is_kept(store: Store) -> None:
    """A wait for one queue does not use up the notification of another."""
    await caught_up(store)
    await put(store, queue="billing")
    assert "billing" not in await store.wait([QUEUE], SHORT_PAUSE_S)
    assert "billing" in await store.wait(["billing"], WAKE_UP_TIMEOUT_S)


async def test_a_wait_for_any_queue_returns_its_name(store: Store) -> None:
    """A wait for all queues returns the name of the one with a new job."""
    await caught_up(store)
    await put(store, queue="billing")
    assert "billing" in await store.wait(None, WAKE_UP_TIMEOUT_S)


async def test_a_wait_without_a_notification_ends_by_itself(store: Store) -> None:
    """After its time a wait returns an empty set."""
    await caught_up(store)
    assert await store.wait([QUEUE], SHORT_PAUSE_S) == frozenset()
    assert await store.wait(None, 0) == frozenset()


async def test_every_process_is_woken(store: Store, twin: Store) -> None:
    """One enqueue wakes the callers of all processes."""
    await caught_up(store)
    await caught_up(twin)
    sleepers = [
        asyncio.ensure_future(handle.wait([QUEUE], WAKE_UP_TIMEOUT_S)) for handle in (store, twin)
    ]
    await asyncio.sleep(SHORT_PAUSE_S)
    await put(store)
    assert all(QUEUE in heard for heard in await asyncio.gather(*sleepers))


async def test_a_cancelled_wait_loses_nothing(store: Store) -> None:
    """What happens after a cancelled wait is found by the next one."""
    await caught_up(store)
    sleeper = asyncio.ensure_future(store.wait([QUEUE], WAKE_UP_TIMEOUT_S))
    await asyncio.sleep(SHORT_PAUSE_S)
    sleeper.cancel()
    await asyncio.gather(sleeper, return_exceptions=True)
    await put(store)
    assert QUEUE in await store.wait([QUEUE], WAKE_UP_TIMEOUT_S)


async def test_a_rescheduled_or_retried_job_wakes_workers(store: Store, twin: Store) -> None:
    """An amendment that makes a job ready wakes workers."""
    later, failed = await put(store, when=When(LONG)), await dead(store)
    assert await wakes(store, lambda: twin.amend([later], RescheduleJob(NOW)))
    assert await wakes(store, lambda: twin.amend([failed], RetryJob(NOW)))


async def test_a_job_that_goes_back_to_its_queue_wakes_workers(store: Store, twin: Store) -> None:
    """A settlement that makes the job ready again wakes workers."""
    claim = await running(store)
    assert await wakes(store, lambda: twin.settle([move(claim)]))


async def test_a_job_that_gets_its_key_wakes_workers(store: Store, twin: Store) -> None:
    """A settlement that frees a key wakes workers for the next job of the key."""
    claim = await running(store, resource="r")
    await put(store, resource="r")
    assert await claims(store) == []
    assert await wakes(store, lambda: twin.settle([succeed(claim)]))


async def test_a_resumed_queue_wakes_workers(store: Store, twin: Store) -> None:
    """Resuming a queue with jobs wakes workers."""
    await put(store)
    await store.pause([QUEUE])
    assert await wakes(store, lambda: twin.resume([QUEUE]))


async def test_a_lifted_hold_wakes_workers(store: Store, twin: Store) -> None:
    """Lifting a hold that jobs wait for wakes workers."""
    await store.hold([QUEUE], "r", When(LONG))
    await put(store, resource="r")
    assert await claims(store) == []
    assert await wakes(store, lambda: twin.hold([QUEUE], "r", NOW))


async def test_a_fired_repeat_wakes_workers(store: Store, twin: Store) -> None:
    """A firing that enqueues a job wakes workers."""
    repeat = await store.put_repeat(Repeat(key="digest", spec=b"", cursor=await store.now()))
    assert await wakes(store, lambda: twin.fire([firing(repeat)]))


async def test_a_cancel_of_a_running_job_wakes_workers(store: Store, twin: Store) -> None:
    """A wait for any queue returns that something was asked of a running job."""
    claim = await running(store)
    await caught_up(store)
    await twin.amend([claim.id], CancelJob(keep=HOUR))
    assert ASKED in await store.wait(["some other queue"], WAKE_UP_TIMEOUT_S)


async def test_a_reschedule_of_a_running_job_wakes_no_heartbeat(store: Store, twin: Store) -> None:
    """It takes effect when the run ends, so the worker need not know before."""
    claim = await running(store)
    await caught_up(store)
    assert await twin.amend([claim.id], RescheduleJob(NOW)) == [Answer.ASKED]
    await put(twin, queue="billing")
    heard: set[str] = set()
    async with asyncio.timeout(WAKE_UP_TIMEOUT_S):
        while "billing" not in heard:
            heard |= await store.wait(None, WAKE_UP_TIMEOUT_S)
    assert ASKED not in heard
