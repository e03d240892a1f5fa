"""Calls to the server: scripts by their digest, errors explained, retries after a cut."""

from collections.abc import Coroutine, Sequence
from typing import Any

from redis.exceptions import NoScriptError

from mita.errors import StoreError
from mita.ports.backoff import Backoff

from .client.address import RedisAddress
from .client.errors import DRIVER_ERRORS, explained, is_cut
from .client.pipelined_socket import NotSent
from .client.servers import ClusterServers, Server, SingleServer
from .scripting.scripts import script

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.8  # after a connection that was cut
MOST_RETRIES = 5  # of one call


def reconnect_backoff() -> Backoff:
    """The pauses between two attempts to reach the server."""
    return Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)


class MaybeDone:
    """Whether a call was sent twice. If `sent_twice`, the server may have done it the first time,
    and an answer like "this job exists" may be due to that."""

    def __init__(self) -> None:
        self.sent_twice = False


class RedisConnection:
    """The connection of a store to its server or cluster. `open` connects to nothing: the first
    call does."""

    def __init__(self, address: RedisAddress) -> None:
        self._where = address.shown
        self._address = address
        self._server: Server | None = None

    def open(self, silence: float) -> None:
        """Allow calls. After `silence` seconds without an answer the connection is checked."""
        kind = ClusterServers if self._address.cluster else SingleServer
        self._server = kind(self._address, silence)

    @property
    def server(self) -> Server:
        """The open server. Raises `StoreError` if the store is not open."""
        if self._server is None:
            raise StoreError(f"{self._where}: the store is not open", transient=False)
        return self._server

    async def close(self) -> None:
        """Close all connections."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    def run(
        self,
        name: str,
        roots: Sequence[str],
        *args: Any,
        maybe_done: MaybeDone | None = None,
        repeatable: bool = True,
    ) -> Coroutine[Any, Any, Any]:
        """Run a script. `repeatable`: running it twice has the same effect as once, so it is
        retried even if the first call may have been done."""
        known = script(name)
        command = ("EVALSHA", known.sha, len(roots), *roots, *args)
        return self._call_with_retries(command, maybe_done, repeatable, known.text)

    async def command(self, *parts: Any) -> Any:
        """Run a plain command, with retries."""
        return await self._call_with_retries(parts, None, repeatable=True)

    async def command_once(self, *parts: Any) -> Any:
        """Run a plain command without a retry, for callers that must not wait."""
        try:
            return await self.server.call(*parts)
        except DRIVER_ERRORS as error:
            raise explained(error, self._where) from error

    async def _call_with_retries(
        self, parts: tuple[Any, ...], maybe_done: MaybeDone | None, repeatable: bool, text: str = ""
    ) -> Any:
        backoff: Backoff | None = None  # made with the first failure: nearly all calls have none
        while True:
            try:
                return await self.server.call(*parts)
            except NoScriptError:
                # the server does not know the script and did not run it: send its whole text
                parts = ("EVAL", text, *parts[2:])
                continue
            except DRIVER_ERRORS as error:
                sent = not isinstance(error, NotSent)
                backoff = backoff or reconnect_backoff()
                is_last = backoff.failures == MOST_RETRIES
                if is_last or not is_cut(error) or (sent and not repeatable):
                    raise explained(error, self._where) from error
                if maybe_done is not None:
                    maybe_done.sent_twice = maybe_done.sent_twice or sent
            await backoff.sleep()
