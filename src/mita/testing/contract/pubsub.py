"""Events for subscribers in every process; without subscribers they cost nothing."""

import asyncio
import time

from mita.ports import pubsub as pubsub_port
from mita.ports.pubsub import EVERY, EventMessage, Subscription
from mita.ports.store import Store

from .given import (
    QUEUE,
)

DELIVERY_TIMEOUT_S = 30.0
OTHER = "billing"


def event(text: str, queue: str = QUEUE, count: int = 1) -> EventMessage:
    """A message with this text."""
    return EventMessage(queue, count, text.encode())


async def received(subscription: Subscription, until: str) -> list[str]:
    """The events that arrive, up to and including `until`."""
    found: list[str] = []
    async with asyncio.timeout(DELIVERY_TIMEOUT_S):
        while until not in found:
            news = await subscription.receive()
            assert news is not None
            found += [one.events.decode() for one in news.messages]
    return found


async def no_subscribers(*stores: Store) -> None:
    """Wait until these stores know of no subscription: a server may notice a little later that a
    connection was closed."""
    end = time.monotonic() + DELIVERY_TIMEOUT_S
    for store in stores:
        while listening := await store.subscribed_queues():
            assert time.monotonic() < end, f"there are still subscribers of {listening}"
            await asyncio.sleep(0.01)


async def test_an_event_reaches_every_process(store: Store, twin: Store) -> None:
    """Subscribers of every process get each event, in order."""
    here, there = await store.subscribe(None), await twin.subscribe(None)
    await store.publish([event("one"), event("two", OTHER)])
    assert await received(here, "two") == ["one", "two"]
    assert await received(there, "two") == ["one", "two"]


async def test_events_of_one_publisher_arrive_in_order(store: Store, twin: Store) -> None:
    """A hundred events of one store arrive in the order in which they were published."""
    subscription = await twin.subscribe(None)
    for n in range(50):
        await store.publish([event(str(n)), event(f"{n} again")])
    assert await received(subscription, "49 again") == [
        text for n in range(50) for text in (str(n), f"{n} again")
    ]


async def test_a_subscription_to_one_queue_gets_no_other_events(store: Store, twin: Store) -> None:
    """Events of other queues are left out."""
    subscription = await twin.subscribe(OTHER)
    await store.publish([event("not for us"), event("for us", OTHER), event("nor this")])
    await store.publish([event("the end", OTHER)])
    assert await received(subscription, "the end") == ["for us", "the end"]


async def test_subscribed_queues_lists_what_is_subscribed_to(store: Store, twin: Store) -> None:
    """Every process knows which queues have subscribers, until these close."""
    assert await store.subscribed_queues() == frozenset()
    one = await twin.subscribe(OTHER)
    assert await store.subscribed_queues() & {OTHER, EVERY}
    every = await store.subscribe(None)
    assert EVERY in await twin.subscribed_queues()
    await every.close()
    await one.close()
    await no_subscribers(store, twin)


async def test_a_closed_store_has_no_subscriptions(store: Store, twin: Store) -> None:
    """Closing a store ends its subscriptions."""
    subscription = await twin.subscribe(None)
    waiting = asyncio.ensure_future(subscription.receive())
    await asyncio.sleep(0)
    await twin.close()
    assert await waiting is None
    await no_subscribers(store)
    await twin.open()


async def test_events_before_the_subscription_are_not_received(store: Store, twin: Store) -> None:
    """A subscription begins with the events after it."""
    await store.publish([event("too early")])
    await store.subscribed_queues()  # a question that comes behind it: by the answer it has arrived
    subscription = await twin.subscribe(None)
    await store.publish([event("in time")])
    assert await received(subscription, "in time") == ["in time"]


async def test_a_slow_reader_loses_the_oldest_events_and_learns_how_many(store: Store) -> None:
    """The oldest events beyond the limit are dropped and counted."""
    subscription = await store.subscribe(None)
    for n in range(5):
        await store.publish([event(str(n), count=pubsub_port.BUFFERED_EVENTS // 3)])
    missed, found = 0, list[str]()
    async with asyncio.timeout(DELIVERY_TIMEOUT_S):
        while len(found) + missed // (pubsub_port.BUFFERED_EVENTS // 3) < 5:
            await asyncio.sleep(0.01)
            news = await subscription.receive()
            assert news is not None
            missed += news.missed
            found += [one.events.decode() for one in news.messages]
    assert found == sorted(found), "what is left is in order"
    assert found[-1] == "4", "and the newest is there"


async def test_publishing_nothing_wakes_no_subscriber(store: Store) -> None:
    """An empty list is not delivered."""
    subscription = await store.subscribe(None)
    await store.publish([])
    await store.publish([event("something")])
    assert await received(subscription, "something") == ["something"]
