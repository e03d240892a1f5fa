"""A TCP proxy on loopback that stands for a bad network: it can cut, delay and black-hole
connections."""

import asyncio
import threading
from collections.abc import Callable
from typing import Self

CHUNK_BYTES = 65_536


class Proxy:
    """Forwards every connection to `target`: a port of this machine, or the path of a local socket.
    It runs on a thread of its own; all methods may be called from any other thread."""

    def __init__(self, target: int | str) -> None:
        self._target = target
        self._delay_s = 0.0
        self._pipes: set[_Pipe] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self.port = 0

    def start(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def stop(self) -> None:
        self.cut()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self) -> None:
        """Close all connections that are open now, as a rebooting router does. New ones pass."""
        self._call(self._cut)

    def down(self) -> None:
        """Close all connections and refuse new ones, as a server that has stopped."""
        self._call(self._server.close)
        self.cut()

    def up(self) -> None:
        """Accept connections again, on the same port."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def black_hole(self) -> None:
        """Nothing passes any more on the connections that are open now, and neither side is told.
        New ones pass."""
        self._call(self._black_hole)

    def delay(self, seconds: float) -> None:
        """Hold back each piece of data for this long, on all connections. 0: forward at once."""
        self._delay_s = seconds

    def _cut(self) -> None:
        for pipe in list(self._pipes):
            pipe.close()

    def _black_hole(self) -> None:
        for pipe in self._pipes:
            pipe.passes.clear()

    def _call(self, act: Callable[[], object]) -> None:
        """Do this on the proxy's thread, and wait until it is done."""

        async def done() -> None:
            act()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await self._connect()
        except OSError:  # the server is down: the client sees a connection that closes at once
            writer.close()
            return
        pipe = _Pipe(writer, far_writer)
        self._pipes.add(pipe)
        try:
            await asyncio.wait(
                [
                    asyncio.create_task(self._forward(pipe, reader, far_writer)),
                    asyncio.create_task(self._forward(pipe, far_reader, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            pipe.close()
            self._pipes.discard(pipe)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection("127.0.0.1", self._target)

    async def _forward(
        self, pipe: "_Pipe", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await pipe.passes.wait()
                writer.write(data)
                await writer.drain()
            await pipe.passes.wait()  # a black hole also swallows the end of a connection
        except OSError:
            pass


class _Pipe:
    """The two halves of one forwarded connection."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self.passes = asyncio.Event()
        self.passes.set()

    def close(self) -> None:
        self.passes.set()
        for writer in self._writers:
            writer.transport.abort()
