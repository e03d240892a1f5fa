"""One Redis server, or the servers of a cluster: both are called in the same way."""

from collections.abc import Awaitable
from typing import Any, Protocol

from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from mita import forks

from .address import RedisAddress
from .pipelined_client import PipelinedClient
from .pipelined_socket import LONGEST_CALL_BYTES, too_long

# A connection without an answer for this many times `Store.silence` is given up.
DEAD_AFTER_SILENCES = 3


class Server(Protocol):
    """What can be called."""

    def call(self, *parts: Any) -> Awaitable[Any]:
        """Send a command and return its answer."""

    def new_connection(self) -> AbstractConnection:
        """A connection of redis-py, not yet connected, for a subscriber."""

    def limit_calls(self, longest: int) -> None:
        """Refuse calls that are longer than this many bytes."""

    async def close(self) -> None:
        """Close all connections."""


class SingleServer:
    """One server."""

    def __init__(self, address: RedisAddress, silence: float) -> None:
        options = dict(address.driver)
        self._kind: type[AbstractConnection] = options.pop("connection_class", Connection)
        self._options = options
        self._client = PipelinedClient(self.new_connection, address.timeout, silence, address.shown)
        self.call = self._client.call
        self.limit_calls = self._client.limit_calls

    def new_connection(self) -> AbstractConnection:
        """A connection of redis-py, not yet connected, for a subscriber."""
        return self._kind(
            **self._options, socket_timeout=None, retry=Retry(NoBackoff(), 0), protocol=2
        )

    async def close(self) -> None:
        """Close the connection."""
        self._client.close()


class ClusterServers:
    """The servers of a cluster. redis-py knows which one has a key."""

    def __init__(self, address: RedisAddress, silence: float) -> None:
        unused = ("db", "connection_class")
        options = {name: value for name, value in address.driver.items() if name not in unused}
        # redis-py closes the connection to a node that does not answer within this time
        timeout = min(address.timeout, DEAD_AFTER_SILENCES * silence)
        self._cluster = RedisCluster(**options, protocol=2, socket_timeout=timeout)
        self._longest_call = LONGEST_CALL_BYTES
        forks.left(self, ClusterServers._descriptors)

    def _descriptors(self) -> list[int]:
        made = [
            connection
            for node in self._cluster.get_nodes()
            for connection in node._connections  # noqa: SLF001
        ]
        writers = [connection._writer for connection in made if connection._writer is not None]  # noqa: SLF001
        return [number for writer in writers for number in forks.number_of(writer.transport)]

    def limit_calls(self, longest: int) -> None:
        """Refuse calls that are longer than this many bytes."""
        self._longest_call = longest

    async def call(self, *parts: Any) -> Any:
        """Send a command to the node that has its key."""
        size = sum(len(part) for part in parts if isinstance(part, bytes | str))
        if size > self._longest_call:
            raise too_long(size, self._longest_call)
        return await self._cluster.execute_command(*parts)

    def new_connection(self) -> AbstractConnection:
        """A connection of redis-py to one node, not yet connected, for a subscriber."""
        node = self._cluster.get_default_node()
        assert node is not None, "the cluster was called before, so it has nodes"  # noqa: S101
        options = {**node.connection_kwargs, "socket_timeout": None}
        made: AbstractConnection = node.connection_class(**options)
        return made

    async def close(self) -> None:
        """Close the connections to all nodes."""
        await self._cluster.aclose()
