"""The driver's client, with fast reading and writing.

nats-py spends about 50 µs on a message for a subscription, and wakes a task for every write. Here a
received message goes to its handler as bytes, and everything that is sent in one round of the event
loop goes out in one write at its end. The driver still connects, reconnects, and does TLS and
credentials."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from nats.aio.client import Client
from nats.errors import SecureConnWantedError

from mita import forks
from mita.errors import StoreError

from .errors import ConnectionLost, translated
from .parser import QuickParser

log = logging.getLogger("mita.store")
# Gets subject, reply subject, body and headers (None if the message has none).
MessageHandler: TypeAlias = Callable[[bytes, bytes, bytes, bytes | None], None]
RECONNECT_WAIT_S = 2.0  # a call waits so long for a lost connection, then it raises
KEPT_PROBLEMS = 20
_RECONNECT_POLL_S = 0.02
# Raised when the connection closes at this moment. The driver's reader notices it and reconnects.
_CLOSING_ERRORS = (OSError, RuntimeError)


class NatsLink(Client):  # type: ignore[misc, unused-ignore]
    """A nats-py client that sends and receives bytes. `where` names its servers in messages."""

    def __init__(self, where: str = "") -> None:
        super().__init__()
        self._quick = QuickParser(self)
        self._ps = self._quick
        self.where = where
        self.handlers: dict[int, MessageHandler] = {}  # by the id of their subscription
        self.on_reconnect: list[Callable[[], None]] = []
        self.problems: list[Exception] = []  # the driver's last errors
        self.ending = False
        self._write_scheduled = False
        forks.left(self, NatsLink._descriptors)

    def _descriptors(self) -> list[int]:
        writer = getattr(self._transport, "_bare_io_writer", None)
        return [] if writer is None else forks.number_of(writer.transport)

    def callbacks(self) -> dict[str, Any]:
        """Returns the callbacks that the driver's `connect` takes."""
        return {
            "error_cb": self._on_error,
            "disconnected_cb": self._on_loss,
            "reconnected_cb": self._on_return,
        }

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Called by the driver before it sends anything. The driver would continue without TLS if
        the server does not offer it."""
        if (
            initial_connection
            and self.options.get("tls") is not None
            and not info.get("tls_required")
        ):
            raise SecureConnWantedError
        await super()._process_info(info, initial_connection)

    async def ready(self) -> None:
        """Wait a short time for a lost connection. Raises ConnectionLost if it does not come
        back."""
        if self.is_connected:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(RECONNECT_WAIT_S):
                while not self.is_connected:
                    if self.is_closed:
                        raise StoreError("this store is closed")
                    await asyncio.sleep(_RECONNECT_POLL_S)
        if not self.is_connected:
            raise ConnectionLost(
                "the connection to NATS is lost; the store keeps trying to reconnect",
                transient=True,
            )

    async def disconnect(self) -> None:
        """Close the connection, whatever its state is."""
        self.ending = True
        with suppress(Exception):
            if self.is_connected:
                self._write_out()
                await self.flush_now()
        with suppress(Exception):
            await self.close()
        self.fail_waiting(StoreError("this store is closed"))

    def fail_waiting(self, error: Exception) -> None:
        """Raise this error in every call that waits for an answer. A subclass knows them."""

    async def _attempt_reconnect(self) -> None:
        """Do not wait until everything is sent: the peer of a silent connection reads nothing."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
        await super()._attempt_reconnect()

    async def _on_loss(self) -> None:
        if not self.ending:
            log.warning(
                "the connection to NATS at %s was lost, or was silent for too long: reconnecting",
                self.where,
            )
        self.fail_waiting(
            StoreError("the connection to NATS was lost before the answer came", transient=True)
        )

    async def _on_return(self) -> None:
        log.info("reconnected to NATS at %s", self.where)
        for call in self.on_reconnect:
            call()

    async def _on_error(self, problem: Exception) -> None:
        self.problems.append(problem)
        del self.problems[:-KEPT_PROBLEMS]
        if "permissions violation" in str(problem).lower():
            self.fail_waiting(translated(problem))

    @property
    def version(self) -> str:
        """The server's version, as in `2.12.1`."""
        found = self.connected_server_version
        return f"{found.major}.{found.minor}.{found.patch}"

    # ------------------------------------------------------------ receiving

    async def deliver_to_driver(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        """Give the driver a message of one of its own subscriptions."""
        await self._process_msg(  # the driver's annotation forgets that headers may be missing
            sid,
            subject,
            reply,
            data,
            headers,  # type: ignore[arg-type,unused-ignore]
        )

    async def subscribe_raw(self, subject: str, handler: MessageHandler) -> Any:
        """Call the handler with every message on this subject, also after a reconnect. Returns the
        subscription, for `unsubscribe_raw`."""
        subscription = await self.subscribe(subject)
        self.handlers[subscription._id] = handler  # noqa: SLF001
        return subscription

    async def unsubscribe_raw(self, subscription: Any) -> None:
        """End a subscription of `subscribe_raw`."""
        with suppress(Exception):  # a lost connection has no subscriptions
            await subscription.unsubscribe()
        self.handlers.pop(subscription._id, None)  # noqa: SLF001

    def subscribe_once(self, subject: str, handler: MessageHandler) -> None:
        """Call the handler with the next message on this subject. The server ends the subscription
        after it, so a flood of messages costs nothing. A reconnect ends it too."""
        self._sid += 1
        sid = self._sid

        def first(subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
            self.handlers.pop(sid, None)
            handler(subject, reply, data, headers)

        self.handlers[sid] = first
        self.send(b"SUB %b  %d\r\nUNSUB %d 1\r\n" % (subject.encode(), sid, sid))

    # ------------------------------------------------------------ sending

    def send(self, data: bytes) -> None:
        """Add bytes of the protocol to what the next flush sends."""
        self._pending.append(data)
        self._pending_data_size += len(data)

    def send_message(self, subject: str | bytes, body: bytes, reply: bytes = b"") -> None:
        """Publish a message with the next flush."""
        target = subject.encode() if isinstance(subject, str) else subject
        self.send(b"PUB %b %b %d\r\n%b\r\n" % (target, reply, len(body), body))

    def flush_soon(self) -> None:
        """Write at the end of this round of the event loop, with what others send until then."""
        if not self._write_scheduled:
            self._write_scheduled = True
            asyncio.get_running_loop().call_soon(self._write_out)

    async def flush_now(self) -> None:
        """As `flush_soon`, and wait while the server reads more slowly than this side sends."""
        self.flush_soon()
        if self.is_connected:
            with suppress(*_CLOSING_ERRORS):
                await self._transport.drain()  # type: ignore[union-attr, unused-ignore]

    def _write_out(self) -> None:
        """The driver sends what cannot go out now when it has reconnected."""
        self._write_scheduled = False
        if self._pending and self.is_connected:
            with suppress(*_CLOSING_ERRORS):
                self._transport.writelines(self._pending)  # type: ignore[union-attr, unused-ignore]
                self._pending, self._pending_data_size = [], 0
