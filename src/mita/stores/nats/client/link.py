"""The connection itself: made, kept and ended by the driver, spoken to and heard without its
detours.

nats-py spends about 50 µs on a message it hands to a subscription, and wakes a task for every
write. Here what comes in is handed over as the bytes it came in, and what is said in one turn of
the event loop goes out in one write at its end. Connecting, TLS, credentials and reconnecting stay
with the driver."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from nats.aio.client import Client
from nats.errors import SecureConnWantedError

from mita import forks
from mita.errors import StoreError
from mita.stores.nats.errors import CutOff, translated, unreached

from .parser import QuickParser

log = logging.getLogger("mita.store")
Hear: TypeAlias = Callable[[bytes, bytes, bytes, bytes | None], None]
RECONNECT_PATIENCE = 2.0
# closed at this moment: whoever reads from the connection hears of it and acts
_LOST = (OSError, RuntimeError)


class Link(Client):  # type: ignore[misc, unused-ignore]
    """A nats-py client that speaks and hears in our ways."""

    def __init__(self) -> None:
        super().__init__()
        self._quick = QuickParser(self)
        self._ps = self._quick
        self.hears: dict[int, Hear] = {}
        self.reconnected: list[Callable[[], None]] = []
        self._problems: list[Exception] = []
        self._writing = False
        self._ending = False
        self._where = ""
        forks.left(self, Link._descriptors)

    def _descriptors(self) -> list[int]:
        writer = getattr(self._transport, "_bare_io_writer", None)
        return [] if writer is None else forks.number_of(writer.transport)

    async def start(self, servers: Sequence[str], options: dict[str, Any]) -> None:
        settings: dict[str, Any] = {
            "servers": list(servers),
            "connect_timeout": 5,
            "max_outstanding_pings": 2,  # a connection that has not answered so many is made again
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.1,
            "allow_reconnect": True,
            "error_cb": self._on_error,
            "disconnected_cb": self._on_loss,
            "reconnected_cb": self._on_return,
            **options,
        }
        self._where = shown(settings["servers"])
        await self._first_connect(settings)

    async def _first_connect(self, settings: dict[str, Any]) -> None:
        """The driver would try for ever at the first connect as well: whoever opens a store wants
        to know."""
        connecting = asyncio.ensure_future(self.connect(**settings))
        deadline = asyncio.get_running_loop().time() + settings["connect_timeout"] + 1
        tries = 2 * len(settings["servers"])
        while (
            not connecting.done()
            and len(self._problems) < tries
            and asyncio.get_running_loop().time() < deadline
        ):
            await asyncio.wait([connecting], timeout=0.02)
        if connecting.done() and connecting.exception() is None:
            return
        error = (connecting.exception() if connecting.done() else None) or self._telling_problem()
        self._ending = True
        connecting.cancel()
        await asyncio.wait([connecting])
        with suppress(Exception):
            await self.close()
        raise unreached(error, self._where) from error

    def _telling_problem(self) -> BaseException:
        """A refusal says more than the broken connections that come with it."""
        refusals = [
            problem for problem in self._problems if "authorization" in str(problem).lower()
        ]
        return (refusals or self._problems or [TimeoutError()])[-1]

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Before anything is said to a server. The driver would speak in the clear to one that does
        not ask for TLS."""
        if (
            initial_connection
            and self.options.get("tls") is not None
            and not info.get("tls_required")
        ):
            raise SecureConnWantedError
        await super()._process_info(info, initial_connection)

    async def ready(self) -> None:
        """Connected, or soon: a short loss is waited out, a long one is told."""
        if self.is_connected:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(RECONNECT_PATIENCE):
                while not self.is_connected:
                    if self.is_closed:
                        raise StoreError("this store is closed")
                    await asyncio.sleep(0.02)
        if not self.is_connected:
            raise CutOff(
                "the connection to NATS is lost, and is tried again all the time", transient=True
            )

    async def end(self) -> None:
        """Close, whatever state the connection is in."""
        self._ending = True
        with suppress(Exception):
            if self.is_connected:
                self._write_out()
                await self.flush_now()
        with suppress(Exception):
            await self.close()
        self.give_up(StoreError("this store is closed"))

    def give_up(self, error: Exception) -> None:
        """Nobody will hear any more what he waits for."""

    async def _attempt_reconnect(self) -> None:
        """Without waiting until what was said is sent: the peer of a silent connection takes
        nothing in."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
        await super()._attempt_reconnect()

    async def _on_loss(self) -> None:
        if not self._ending:
            log.warning(
                "the connection to NATS at %s was lost, or was silent for too long: connecting "
                "again",
                self._where,
            )
        self.give_up(
            StoreError("the connection to NATS was lost before the answer came", transient=True)
        )

    async def _on_return(self) -> None:
        log.info("connected to NATS at %s again", self._where)
        for tell in self.reconnected:
            tell()

    async def _on_error(self, problem: Exception) -> None:
        self._problems.append(problem)
        del self._problems[:-20]
        if "permissions violation" in str(problem).lower():
            self.give_up(translated(problem))

    @property
    def version(self) -> str:
        found = self.connected_server_version
        return f"{found.major}.{found.minor}.{found.patch}"

    # ------------------------------------------------------------ hearing

    async def pass_on(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        """A message for the driver itself."""
        await self._process_msg(  # the driver's annotation forgets that headers may be missing
            sid,
            subject,
            reply,
            data,
            headers,  # type: ignore[arg-type,unused-ignore]
        )

    async def hear(self, subject: str, hear: Hear) -> Any:
        """Have every message on this subject handed over as it comes, also after a reconnect, until
        `hush`."""
        subscription = await self.subscribe(subject)
        self.hears[subscription._id] = hear  # noqa: SLF001
        return subscription

    async def hush(self, subscription: Any) -> None:
        with suppress(Exception):  # a connection that is gone has forgotten it already
            await subscription.unsubscribe()
        self.hears.pop(subscription._id, None)  # noqa: SLF001

    def hear_once(self, subject: str, hear: Hear) -> None:
        """The server itself ends this after one message, so that a flood costs nothing. Gone after
        a reconnect."""
        self._sid += 1
        sid = self._sid

        def first(subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
            self.hears.pop(sid, None)
            hear(subject, reply, data, headers)

        self.hears[sid] = first
        self.send(b"SUB %b  %d\r\nUNSUB %d 1\r\n" % (subject.encode(), sid, sid))

    # ------------------------------------------------------------ saying

    def send(self, data: bytes) -> None:
        """Bytes of the protocol, sent with the next flush."""
        self._pending.append(data)
        self._pending_data_size += len(data)

    def say(self, subject: str | bytes, body: bytes, reply: bytes = b"") -> None:
        target = subject.encode() if isinstance(subject, str) else subject
        self.send(b"PUB %b %b %d\r\n%b\r\n" % (target, reply, len(body), body))

    def flush_soon(self) -> None:
        """At the end of this turn of the event loop, together with what others say until then."""
        if not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._write_out)

    async def flush_now(self) -> None:
        """The same, and wait while the server takes in less than we say."""
        self.flush_soon()
        if self.is_connected:
            with suppress(*_LOST):
                await self._transport.drain()  # type: ignore[union-attr, unused-ignore]

    def _write_out(self) -> None:
        """What cannot go out now is sent by the driver when it is connected again."""
        self._writing = False
        if self._pending and self.is_connected:
            with suppress(*_LOST):
                self._transport.writelines(self._pending)  # type: ignore[union-attr, unused-ignore]
                self._pending, self._pending_data_size = [], 0


def shown(servers: Sequence[str]) -> str:
    """Servers without the passwords in their addresses."""
    parts = [server.rpartition("://") for server in servers]
    return ", ".join(f"{scheme or 'nats'}://{rest.rpartition('@')[2]}" for scheme, _, rest in parts)
