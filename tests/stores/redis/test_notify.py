"""What may arrive on the connection for wake-ups."""

import asyncio

from redis.exceptions import BusyLoadingError

from mita.stores.redis import RedisStore


async def test_an_error_in_place_of_a_pong_is_no_wake_up(store: RedisStore) -> None:
    """A server that is still loading its data answers a PING with an error."""
    notifier = store._notifier
    await store.wait(None, 0.01)
    notifier._receive(BusyLoadingError("Redis is loading the dataset in memory"))
    async with asyncio.timeout(20):
        while await store.wait(None, 0.05):  # what came before: the first wake-up after a connect
            pass
    notifier._receive([b"pong", b""])
    notifier._receive([b"message", b"channel", b"mail"])
    assert "mail" in await store.wait({"mail"}, 5)
