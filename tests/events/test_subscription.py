"""An ear never holds more than it may, and says what it lost."""

import asyncio
from collections.abc import Sequence

import pytest

from mita.errors import StoreError
from mita.ports import pubsub as ears
from mita.ports.pubsub import Delivery, EventMessage, PolledFeed, Subscription, poll_into


async def nothing(_: Subscription) -> None:
    return None


def batch(n: int, count: int = 1, queue: str = "mail") -> EventMessage:
    return EventMessage(queue, count, str(n).encode())


async def test_the_oldest_go_first_and_are_counted() -> None:
    ear = Subscription(None, nothing)
    for n in range(5):
        ear.put([batch(n, ears.BUFFERED_EVENTS // 3)])
    assert await ear.receive() == Delivery(
        [batch(n, ears.BUFFERED_EVENTS // 3) for n in (2, 3, 4)],
        missed=2 * (ears.BUFFERED_EVENTS // 3),
    )
    ear.put([batch(5)])
    assert await ear.receive() == Delivery([batch(5)]), "what was told once is not told again"


async def test_one_batch_is_heard_however_big() -> None:
    ear = Subscription(None, nothing)
    ear.put([batch(1, 2 * ears.BUFFERED_EVENTS)])
    assert await ear.receive() == Delivery([batch(1, 2 * ears.BUFFERED_EVENTS)])


async def test_another_queue_is_not_heard() -> None:
    ear = Subscription("mail", nothing)
    ear.put([batch(1, queue="billing"), batch(2)])
    assert await ear.receive() == Delivery([batch(2)])


async def test_a_closed_ear_hears_nothing_and_is_closed_once() -> None:
    closed = []

    async def close(ear: Subscription) -> None:
        closed.append(ear)

    ear = Subscription(None, close)
    ear.put([batch(1)])
    await ear.close()
    await ear.close()
    assert await ear.receive() is None
    assert closed == [ear]


async def test_a_store_that_was_away_is_followed_on_and_told_again_who_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ears, "RETRY_AFTER_S", 0.001)
    ear, renewed = Subscription(None, nothing), 0
    answers: list[Sequence[EventMessage] | None] = [[batch(1)], None, [batch(2)]]

    async def renew() -> None:
        nonlocal renewed
        renewed += 1

    async def news() -> Sequence[EventMessage]:
        answer = answers.pop(0) if answers else []
        if answer is None:
            raise StoreError("away", transient=True)
        return answer

    async def nap(_: float) -> bool:
        await asyncio.sleep(0)
        return False

    following = asyncio.create_task(poll_into(ear, PolledFeed(renew, news, nap)))
    heard: list[Delivery] = []
    async with asyncio.timeout(20):
        while not any(batch(2) in each.messages for each in heard):
            news_heard = await ear.receive()
            assert news_heard is not None
            heard.append(news_heard)
    assert any(each.cut for each in heard)
    assert renewed
    await ears.stop(following)
