"""The proxy does to connections what it says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from .proxy import Proxy

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """In front of a server that sends back each line that it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1]).start()
    yield proxy
    proxy.stop()
    server.close()


async def ask(streams: Streams, line: bytes) -> bytes:
    reader, writer = streams
    writer.write(line)
    async with asyncio.timeout(10):
        return await reader.readline()


async def test_it_forwards(proxy: Proxy) -> None:
    assert (
        await ask(await asyncio.open_connection("127.0.0.1", proxy.port), b"hello\n") == b"hello\n"
    )


async def test_a_cut_closes_what_is_open_and_lets_new_connections_through(proxy: Proxy) -> None:
    streams = await asyncio.open_connection("127.0.0.1", proxy.port)
    await ask(streams, b"before\n")
    proxy.cut()
    async with asyncio.timeout(10):
        with suppress(ConnectionResetError):
            assert await streams[0].read() == b""
    assert (
        await ask(await asyncio.open_connection("127.0.0.1", proxy.port), b"after\n") == b"after\n"
    )


async def test_a_black_hole_answers_nothing_and_lets_new_connections_through(proxy: Proxy) -> None:
    streams = await asyncio.open_connection("127.0.0.1", proxy.port)
    await ask(streams, b"before\n")
    proxy.black_hole()
    streams[1].write(b"lost\n")
    assert (
        await ask(await asyncio.open_connection("127.0.0.1", proxy.port), b"after\n") == b"after\n"
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await streams[0].readline()
