"""Whoever listens goes on listening when the server comes back, and is told that something may have
been missed."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from mita import Mita, MitaError
from mita.ports.pubsub import EventMessage, Subscription
from mita.ports.store import Store
from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import server as postgres_servers
from tests.stores.redis import servers as redis_servers

TIMEOUT_S = 60.0


class Server(Protocol):
    def start(self) -> object: ...

    def kill(self) -> None: ...


def redis() -> tuple[Server, str, Callable[[], None]]:
    server = redis_servers.Server(redis_servers.bundled(), "--appendonly", "yes").start()
    return server, server.url, server.stop


def nats() -> tuple[Server, str, Callable[[], None]]:
    server = nats_servers.Server().start()
    return server, server.url, server.remove


def postgres() -> tuple[Server, str, Callable[[], None]]:
    server = postgres_servers.Server("pg18")
    server.init()
    server.start()
    return server, server.url(), server.stop


KINDS = {"redis": redis, "nats": nats, "postgres": postgres}


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Server, str]]:
    server, url, stop = KINDS[request.param]()
    yield server, url
    stop()


async def test_a_restart_of_the_server_is_survived_and_told(place: tuple[Server, str]) -> None:
    server, url = place
    app = Mita(url)
    listening, telling = await app.open_store(), await app.open_store()
    ear = await listening.subscribe("mail")
    await telling.publish([EventMessage("mail", 1, b"before")])
    async with asyncio.timeout(TIMEOUT_S):
        assert await heard(ear, b"before") is False
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        speaking = asyncio.create_task(speak(telling))
        assert await heard(ear, b"after") is True, "something may have been told in between"
    speaking.cancel()
    await asyncio.gather(speaking, return_exceptions=True)
    await ear.close()
    for store in (listening, telling):
        await store.close()
    await app.close()


async def heard(ear: Subscription, text: bytes) -> bool:
    """Whether the connection was said to be cut before this was heard."""
    cut = False
    while True:
        news = await ear.receive()
        assert news is not None
        cut = cut or news.cut
        if any(told.events == text for told in news.messages):
            return cut


async def speak(store: Store) -> None:
    """As a worker does it: what cannot be told is dropped, and nothing is told to nobody."""
    while True:
        try:
            if await store.subscribed_queues():
                await store.publish([EventMessage("mail", 1, b"after")])
        except MitaError:
            pass
        await asyncio.sleep(0.05)
