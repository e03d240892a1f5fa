"""Calls to the server: scripts by their digest, errors in our words, patience while it is away."""

import asyncio
import random
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Protocol

from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from mita import forks
from mita.errors import StoreError

from .address import Address
from .errors import DRIVER_ERRORS, explained, is_cut
from .scripts import script
from .wire import MOST_BYTES, NotSent, Wire, too_long

SILENCES = 3
BACKOFF = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds before each new try


class Doubt:
    """Whether a call may have been done before it was tried again: then "it was there" may be our
    own doing."""

    def __init__(self) -> None:
        self.justified = False


class Driver(Protocol):
    def ask(self, *parts: Any) -> Awaitable[Any]: ...

    def connection(self) -> AbstractConnection: ...

    def limit(self, most: int) -> None: ...

    async def close(self) -> None: ...


class Single:
    """One server."""

    def __init__(self, address: Address, silence: float) -> None:
        options = dict(address.driver)
        self._kind: type[AbstractConnection] = options.pop("connection_class", Connection)
        self._options = options
        self._wire = Wire(self.connection, address.timeout, silence, address.shown)
        self.ask = self._wire.ask
        self.limit = self._wire.limit

    def connection(self) -> AbstractConnection:
        return self._kind(
            **self._options, socket_timeout=None, retry=Retry(NoBackoff(), 0), protocol=2
        )

    async def close(self) -> None:
        self._wire.close()


class Cluster:
    """Several servers: redis-py knows which one has a key."""

    def __init__(self, address: Address, silence: float) -> None:
        options = {
            name: value
            for name, value in address.driver.items()
            if name not in ("db", "connection_class")
        }
        # redis-py gives up a node's connection when that is over
        patience = min(address.timeout, SILENCES * silence)
        self._cluster = RedisCluster(**options, protocol=2, socket_timeout=patience)
        self._most = MOST_BYTES
        forks.left(self, Cluster._descriptors)

    def _descriptors(self) -> list[int]:
        made = [
            connection
            for node in self._cluster.get_nodes()
            for connection in node._connections  # noqa: SLF001
        ]
        writers = [connection._writer for connection in made if connection._writer is not None]  # noqa: SLF001
        return [number for writer in writers for number in forks.number_of(writer.transport)]

    def limit(self, most: int) -> None:
        self._most = most

    async def ask(self, *parts: Any) -> Any:
        if (size := sum(len(part) for part in parts if isinstance(part, bytes | str))) > self._most:
            raise too_long(size, self._most)
        return await self._cluster.execute_command(*parts)

    def connection(self) -> AbstractConnection:
        node = self._cluster.get_default_node()
        assert node is not None, "the cluster was asked something before, so it has nodes"  # noqa: S101
        options = {**node.connection_kwargs, "socket_timeout": None}
        made: AbstractConnection = node.connection_class(**options)
        return made

    async def close(self) -> None:
        await self._cluster.aclose()


class Link:
    """`where` is the address as people may see it."""

    def __init__(self, address: Address) -> None:
        self._where = address.shown
        self._address = address
        self._driver: Driver | None = None

    def open(self, silence: float) -> None:
        make = Cluster if self._address.cluster else Single
        self._driver = make(self._address, silence)

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            raise StoreError(f"{self._where}: the store is not open", transient=False)
        return self._driver

    async def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    def run(
        self,
        name: str,
        roots: Sequence[str],
        *args: Any,
        doubt: Doubt | None = None,
        again: bool = True,
    ) -> Coroutine[Any, Any, Any]:
        """Run a script. `again`: twice is as good as once, so it may be tried again when nobody
        knows what became of it."""
        known = script(name)
        return self._patiently(
            ("EVALSHA", known.sha, len(roots), *roots, *args), doubt, again, known.text
        )

    async def command(self, *parts: Any) -> Any:
        return await self._patiently(parts, None, again=True)

    async def once(self, *parts: Any) -> Any:
        """A command without patience: for whoever must know at once."""
        try:
            return await self.driver.ask(*parts)
        except DRIVER_ERRORS as error:
            raise explained(error, self._where) from error

    async def _patiently(
        self, parts: tuple[Any, ...], doubt: Doubt | None, again: bool, text: str = ""
    ) -> Any:
        tries = 0
        while True:
            try:
                return await self.driver.ask(*parts)
            except NoScriptError:
                # it was not run: the server has forgotten it, and is told it again in the same
                # breath
                parts = ("EVAL", text, *parts[2:])
                continue
            except DRIVER_ERRORS as error:
                sent = not isinstance(error, NotSent)
                if tries == len(BACKOFF) or not is_cut(error) or (sent and not again):
                    raise explained(error, self._where) from error
                if doubt is not None:
                    doubt.justified = doubt.justified or sent
            await asyncio.sleep(BACKOFF[tries] * random.uniform(0.5, 1.0))
            tries += 1
