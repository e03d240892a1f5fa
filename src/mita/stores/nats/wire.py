"""One connection, with the driver's own ways where they are too slow for a queue.

nats-py spends about 50 µs on a message it hands to a subscription and waits for publishes one by one. Here a group of
publishes goes out in one write, every answer finds its place by the last two tokens of its subject, and what a pull
delivers is handed over as the bytes it came in. Connecting, TLS, credentials and reconnecting stay with the driver.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import msgspec
from nats.aio.client import Client
from nats.errors import Error as NatsError

from mita.errors import StoreError

from .errors import CutOff, refused, translated

Hear: TypeAlias = Callable[[bytes, bytes, bytes, bytes | None], None]
PATIENCE = 10.0  # seconds until an answer that does not come is an error
RECONNECT_PATIENCE = 2.0
_HEAD = b"NATS/1.0\r\n"


class Out(NamedTuple):
    """A message to be stored. `headers` are whole lines, ready to be sent."""

    subject: str
    body: bytes
    headers: bytes = b""


class Problem(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class Ack(msgspec.Struct):
    """The server's answer to a publish."""

    seq: int = 0
    error: Problem | None = None

    @property
    def conflict(self) -> bool:
        """Somebody else wrote to that subject since we looked."""
        return self.error is not None and self.error.err_code in (10071, 10164)


_read_ack = msgspec.json.Decoder(Ack).decode
_Group: TypeAlias = tuple[list[Any], asyncio.Future[list[Any]]]


class Wire(Client):  # type: ignore[misc, unused-ignore]
    """A nats-py client whose hot paths are ours."""

    def __init__(self) -> None:
        super().__init__()
        self._hears: dict[int, Hear] = {}
        self._groups: dict[bytes, _Group] = {}
        self._left: dict[bytes, int] = {}
        self._count = 0
        self._streams: dict[bytes, Hear] = {}
        self.reconnected: list[Callable[[], None]] = []

    async def start(self, servers: Sequence[str], options: dict[str, Any]) -> None:
        async def lost() -> None:
            self._fail_all(StoreError("the connection to NATS was lost before the answer came", transient=True))

        async def back() -> None:
            for tell in self.reconnected:
                tell()

        async def error(problem: Exception) -> None:
            if "permissions violation" in str(problem).lower():
                self._fail_all(translated(problem))

        settings: dict[str, Any] = {
            "servers": list(servers),
            "connect_timeout": 5,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.1,
            "allow_reconnect": True,
            "error_cb": error,
            "disconnected_cb": lost,
            "reconnected_cb": back,
            **options,
        }
        await self._first_connect(settings)
        self._inbox = self.new_inbox()
        self._inbox_bytes = self._inbox.encode()
        await self.hear(f"{self._inbox}.*.*", self._answer)

    async def _first_connect(self, settings: dict[str, Any]) -> None:
        """The driver would try for ever at the first connect as well: whoever opens a store wants to know."""
        try:
            async with asyncio.timeout(settings["connect_timeout"] + 1):
                await self.connect(**settings)
        except (NatsError, OSError, TimeoutError, ValueError) as error:
            with suppress(Exception):
                await self.close()
            raise translated(error, f"cannot reach NATS at {', '.join(map(_shown, settings['servers']))}") from error

    # ------------------------------------------------------------ hearing

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        hear = self._hears.get(sid)
        if hear is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            hear(subject, reply, data, headers)

    async def hear(self, subject: str, hear: Hear) -> None:
        """Have every message on this subject handed over as it comes, also after a reconnect."""
        subscription = await self.subscribe(subject)
        self._hears[subscription._id] = hear

    def hear_once(self, subject: str, hear: Hear) -> None:
        """The server itself ends this after one message, so that a flood costs nothing. Gone after a reconnect."""
        self._sid += 1
        sid = self._sid

        def first(subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
            self._hears.pop(sid, None)
            hear(subject, reply, data, headers)

        self._hears[sid] = first
        self.send(b"SUB %b  %d\r\nUNSUB %d 1\r\n" % (subject.encode(), sid, sid))

    def _answer(self, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        _, group, place = subject.rsplit(b".", 2)
        if place == b"s":
            if stream := self._streams.get(group):
                stream(subject, reply, data, headers)
            return
        found = self._groups.get(group)
        if found is None:
            return
        found[0][int(place)] = headers if headers and not data else data
        self._left[group] -= 1
        if not self._left[group]:
            self._drop(group)
            if not found[1].done():
                found[1].set_result(found[0])

    def _drop(self, group: bytes) -> None:
        self._groups.pop(group, None)
        self._left.pop(group, None)

    def _fail_all(self, error: Exception) -> None:
        for group, (_, future) in list(self._groups.items()):
            self._drop(group)
            if not future.done():
                future.set_exception(_again(error))
        for stream in list(self._streams.values()):
            stream(b"", b"", b"", b"NATS/1.0 000 cut off\r\n\r\n")

    # ------------------------------------------------------------ saying

    def send(self, data: bytes) -> None:
        """Bytes of the protocol, sent with the next flush."""
        self._pending.append(data)
        self._pending_data_size += len(data)

    async def flush_now(self) -> None:
        await self._flush_pending()

    def new_group(self) -> bytes:
        self._count += 1
        return b"%d" % self._count

    def say(self, subject: str | bytes, body: bytes, reply: bytes = b"") -> None:
        target = subject.encode() if isinstance(subject, str) else subject
        self.send(b"PUB %b %b %d\r\n%b\r\n" % (target, reply, len(body), body))

    async def ask(self, messages: Sequence[Out]) -> list[Any]:
        """Publish all, and give the answers in the same order."""
        if not messages:
            return []
        await self.ready()
        group = self.new_group()
        answers: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._groups[group] = ([None] * len(messages), answers)
        self._left[group] = len(messages)
        base = self._inbox_bytes + b"." + group + b"."
        self.send(b"".join([self._frame(message, base, place) for place, message in enumerate(messages)]))
        await self.flush_now()
        try:
            async with asyncio.timeout(PATIENCE):
                return await answers
        except TimeoutError as error:
            raise StoreError(f"NATS gave no answer in {PATIENCE:g} s", transient=True) from error
        finally:
            self._drop(group)

    def _frame(self, message: Out, base: bytes, place: int) -> bytes:
        subject, body, headers = message
        if len(body) > self.max_payload:
            raise StoreError(
                f"a message of {len(body)} bytes is more than this server takes ({self.max_payload}): "
                "raise its max_payload, or make the job's arguments, result or notes smaller"
            )
        if not headers:
            return b"PUB %b %b%d %d\r\n%b\r\n" % (subject.encode(), base, place, len(body), body)
        head = _HEAD + headers + b"\r\n"
        size = len(head) + len(body)
        return b"HPUB %b %b%d %d %d\r\n%b%b\r\n" % (subject.encode(), base, place, len(head), size, head, body)

    async def store(self, messages: Sequence[Out]) -> list[Ack]:
        """Publish into the stream, all at once, and give what became of each. A refusal that is no conflict is raised."""
        acks = [self._ack(answer) for answer in await self.ask(messages)]
        for ack in acks:
            if ack.error is not None and not ack.conflict:
                raise refused(ack.error.err_code, ack.error.description)
        return acks

    @staticmethod
    def _ack(answer: bytes) -> Ack:
        if answer[:8] == b"NATS/1.0":
            raise StoreError("no JetStream answers: it is not enabled, or its stream has no leader now", transient=True)
        return _read_ack(answer)

    async def stream(self, subject: str, body: bytes, hear: Hear) -> bytes:
        """Ask for something that is answered by many messages; `hear` gets them until the caller says `silence`."""
        await self.ready()
        group = self.new_group()
        self._streams[group] = hear
        self.say(subject, body, self._inbox_bytes + b"." + group + b".s")
        await self.flush_now()
        return group

    def silence(self, group: bytes) -> None:
        self._streams.pop(group, None)

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
            raise CutOff("the connection to NATS is lost, and is tried again all the time", transient=True)

    async def api(self, verb: str, body: Any = None) -> dict[str, Any]:
        """One call of the JetStream API. Errors are given back, not raised: what they mean depends on the call."""
        packed = b"" if body is None else msgspec.json.encode(body)
        [answer] = await self.ask([Out(f"$JS.API.{verb}", packed)])
        if answer[:8] == b"NATS/1.0":
            return {"error": {"code": 503, "err_code": 10076, "description": "no JetStream answers"}}
        found: dict[str, Any] = msgspec.json.decode(answer)
        return found


def _again(error: Exception) -> Exception:
    """A fresh one for each who waits: a raised exception collects the traces of all who raise it."""
    if isinstance(error, StoreError):
        return StoreError(str(error), transient=error.transient)
    return error


def _shown(server: str) -> str:
    """A server without the password in its address."""
    scheme, _, rest = server.rpartition("://")
    return f"{scheme or 'nats'}://{rest.rpartition('@')[2]}"


Told: TypeAlias = Callable[[], Awaitable[None]]
