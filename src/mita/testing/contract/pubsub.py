"""Telling what happens to those who listen, in whatever process; and to nobody else, at nobody's
expense."""

import asyncio
import time

from mita.ports import pubsub as ears
from mita.ports.pubsub import EVERY, EventMessage, Subscription
from mita.ports.store import Store

from .given import (
    QUEUE,
)

DELIVERY_TIMEOUT_S = 30.0  # seconds: what has not come by then does not come
OTHER = "billing"


def told(text: str, queue: str = QUEUE, count: int = 1) -> EventMessage:
    return EventMessage(queue, count, text.encode())


async def heard(ear: Subscription, until: str) -> list[str]:
    """What was heard up to that, it included."""
    found: list[str] = []
    async with asyncio.timeout(DELIVERY_TIMEOUT_S):
        while until not in found:
            news = await ear.hear()
            assert news is not None
            found += [one.events.decode() for one in news.told]
    return found


async def nobody_listens(*stores: Store) -> None:
    """Wait until these stores know of no subscription: a server may notice a little later that a
    connection was closed."""
    end = time.monotonic() + DELIVERY_TIMEOUT_S
    for store in stores:
        while listening := await store.subscribed_queues():
            assert time.monotonic() < end, f"somebody still listens to {listening}"
            await asyncio.sleep(0.01)


async def test_what_is_told_is_heard_in_every_process(store: Store, twin: Store) -> None:
    here, there = await store.subscribe(None), await twin.subscribe(None)
    await store.publish([told("one"), told("two", OTHER)])
    assert await heard(here, "two") == ["one", "two"]
    assert await heard(there, "two") == ["one", "two"]


async def test_what_one_tells_is_heard_in_its_order(store: Store, twin: Store) -> None:
    ear = await twin.subscribe(None)
    for n in range(50):
        await store.publish([told(str(n)), told(f"{n} again")])
    assert await heard(ear, "49 again") == [
        text for n in range(50) for text in (str(n), f"{n} again")
    ]


async def test_who_listens_to_one_queue_hears_of_no_other(store: Store, twin: Store) -> None:
    ear = await twin.subscribe(OTHER)
    await store.publish([told("not for us"), told("for us", OTHER), told("nor this")])
    await store.publish([told("the end", OTHER)])
    assert await heard(ear, "the end") == ["for us", "the end"]


async def test_it_is_known_to_what_somebody_listens(store: Store, twin: Store) -> None:
    assert await store.subscribed_queues() == frozenset()
    one = await twin.subscribe(OTHER)
    assert await store.subscribed_queues() & {OTHER, EVERY}
    every = await store.subscribe(None)
    assert EVERY in await twin.subscribed_queues()
    await every.close()
    await one.close()
    await nobody_listens(store, twin)


async def test_a_store_that_closes_listens_no_more(store: Store, twin: Store) -> None:
    ear = await twin.subscribe(None)
    waiting = asyncio.ensure_future(ear.hear())
    await asyncio.sleep(0)
    await twin.close()
    assert await waiting is None
    await nobody_listens(store)
    await twin.open()


async def test_what_was_told_before_is_not_heard(store: Store, twin: Store) -> None:
    await store.publish([told("too early")])
    await store.subscribed_queues()  # a question that comes behind it: by the answer it has arrived
    ear = await twin.subscribe(None)
    await store.publish([told("in time")])
    assert await heard(ear, "in time") == ["in time"]


async def test_who_reads_too_slowly_loses_the_oldest_and_is_told(store: Store) -> None:
    ear = await store.subscribe(None)
    for n in range(5):
        await store.publish([told(str(n), count=ears.MOST // 3)])
    missed, found = 0, list[str]()
    async with asyncio.timeout(DELIVERY_TIMEOUT_S):
        while len(found) + missed // (ears.MOST // 3) < 5:
            await asyncio.sleep(0.01)
            news = await ear.hear()
            assert news is not None
            missed += news.missed
            found += [one.events.decode() for one in news.told]
    assert found == sorted(found), "what is left is in order"
    assert found[-1] == "4", "and the newest is there"


async def test_no_events_are_no_news(store: Store) -> None:
    ear = await store.subscribe(None)
    await store.publish([])
    await store.publish([told("something")])
    assert await heard(ear, "something") == ["something"]
