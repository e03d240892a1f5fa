"""One connection, with the driver's own ways where they are too slow for a queue.

nats-py spends about 50 µs on a message it hands to a subscription and waits for publishes one by one. Here a group of
publishes goes out in one write, every answer finds its place by the last two tokens of its subject, and what a pull
delivers is handed over as the bytes it came in. Connecting, TLS, credentials and reconnecting stay with the driver.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from nats.aio.client import Client
from nats.errors import SecureConnWantedError

from mita.errors import StoreError

from .errors import CutOff, refused, translated
from .messages import Ack, Out, batched, framed, nobody_heard, read_ack, too_big
from .parser import QuickParser

Hear: TypeAlias = Callable[[bytes, bytes, bytes, bytes | None], None]
PATIENCE = 10.0  # seconds until an answer that does not come is an error
RECONNECT_PATIENCE = 2.0


_Group: TypeAlias = tuple[list[Any], asyncio.Future[list[Any]]]


class Wire(Client):  # type: ignore[misc, unused-ignore]
    """A nats-py client whose hot paths are ours."""

    def __init__(self) -> None:
        super().__init__()
        self._quick = QuickParser(self)
        self._ps = self._quick
        self.hears: dict[int, Hear] = {}
        self._groups: dict[bytes, _Group] = {}
        self._left: dict[bytes, int] = {}
        self._count = 0
        self._streams: dict[bytes, Hear] = {}
        self.pulling: Hear | None = None  # who gets what a pull delivers; there is one at a time
        self._problems: list[Exception] = []
        self.seen = 0  # the highest sequence of the stream that we know of
        self.reconnected: list[Callable[[], None]] = []

    async def start(self, servers: Sequence[str], options: dict[str, Any]) -> None:
        settings: dict[str, Any] = {
            "servers": list(servers),
            "connect_timeout": 5,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.1,
            "allow_reconnect": True,
            "error_cb": self._on_error,
            "disconnected_cb": self._on_loss,
            "reconnected_cb": self._on_return,
            **options,
        }
        await self._first_connect(settings)
        self._inbox = self.new_inbox()
        self._inbox_bytes = self._inbox.encode()
        self._quick.expect_answers_at(self._inbox_bytes)
        await self.hear(f"{self._inbox}.*.*", self._answer)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Before anything is said to a server. The driver would speak in the clear to one that does not ask for TLS."""
        if initial_connection and self.options.get("tls") is not None and not info.get("tls_required"):
            raise SecureConnWantedError
        await super()._process_info(info, initial_connection)

    async def _on_loss(self) -> None:
        self._fail_all(StoreError("the connection to NATS was lost before the answer came", transient=True))

    async def _on_return(self) -> None:
        for tell in self.reconnected:
            tell()

    async def _on_error(self, problem: Exception) -> None:
        self._problems.append(problem)
        del self._problems[:-20]
        if "permissions violation" in str(problem).lower():
            self._fail_all(translated(problem))

    async def end(self) -> None:
        """Close, whatever state the connection is in."""
        with suppress(Exception):
            if self.is_connected:
                await self.flush_now()
                await asyncio.sleep(0)
        with suppress(Exception):
            await self.close()
        self._fail_all(StoreError("this store is closed"))

    async def _first_connect(self, settings: dict[str, Any]) -> None:
        """The driver would try for ever at the first connect as well: whoever opens a store wants to know."""
        connecting = asyncio.ensure_future(self.connect(**settings))
        deadline = asyncio.get_running_loop().time() + settings["connect_timeout"] + 1
        tries = 2 * len(settings["servers"])
        while not connecting.done() and len(self._problems) < tries and asyncio.get_running_loop().time() < deadline:
            await asyncio.wait([connecting], timeout=0.02)
        if connecting.done() and connecting.exception() is None:
            return
        error = (connecting.exception() if connecting.done() else None) or self._telling_problem()
        connecting.cancel()
        await asyncio.wait([connecting])
        with suppress(Exception):
            await self.close()
        raise translated(error, f"cannot reach NATS at {_shown(settings['servers'])}") from error

    def _telling_problem(self) -> BaseException:
        """A refusal says more than the broken connections that come with it."""
        refusals = [problem for problem in self._problems if "authorization" in str(problem).lower()]
        return (refusals or self._problems or [TimeoutError()])[-1]

    # ------------------------------------------------------------ hearing

    async def pass_on(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        """A message for the driver itself."""
        await self._process_msg(sid, subject, reply, data, headers)  # type: ignore[arg-type, unused-ignore]

    async def hear(self, subject: str, hear: Hear) -> Any:
        """Have every message on this subject handed over as it comes, also after a reconnect, until `hush`."""
        subscription = await self.subscribe(subject)
        self.hears[subscription._id] = hear  # noqa: SLF001
        return subscription

    async def hush(self, subscription: Any) -> None:
        with suppress(Exception):  # a connection that is gone has forgotten it already
            await subscription.unsubscribe()
        self.hears.pop(subscription._id, None)  # noqa: SLF001

    def hear_once(self, subject: str, hear: Hear) -> None:
        """The server itself ends this after one message, so that a flood costs nothing. Gone after a reconnect."""
        self._sid += 1
        sid = self._sid

        def first(subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
            self.hears.pop(sid, None)
            hear(subject, reply, data, headers)

        self.hears[sid] = first
        self.send(b"SUB %b  %d\r\nUNSUB %d 1\r\n" % (subject.encode(), sid, sid))

    def _answer(self, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        if reply:  # a delivery: it comes under the subject it was stored with, and its reply says how to acknowledge it
            if self.pulling is not None:
                self.pulling(subject, reply, data, headers)
            return
        _, group, place = subject.rsplit(b".", 2)
        if place == b"s":
            if stream := self._streams.get(group):
                stream(subject, reply, data, headers)
            return
        self._answered(group, place, headers if headers and not data else data)

    def is_stored(self, group: bytes, place: bytes, seq: bytes) -> None:
        """The stream's answer to a publish: the most frequent message of all."""
        self._answered(group, place, int(seq))

    def _answered(self, group: bytes, place: bytes, answer: bytes | int) -> None:
        found = self._groups.get(group)
        if found is None:
            return
        found[0][int(place)] = answer
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

    def flush_soon(self) -> None:
        """For those who cannot wait."""
        task = asyncio.ensure_future(self.flush_now())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def new_group(self) -> bytes:
        self._count += 1
        return b"%d" % self._count

    def say(self, subject: str | bytes, body: bytes, reply: bytes = b"") -> None:
        target = subject.encode() if isinstance(subject, str) else subject
        self.send(b"PUB %b %b %d\r\n%b\r\n" % (target, reply, len(body), body))

    async def ask(self, messages: Sequence[Out]) -> list[Any]:
        """Publish all, and give the answers in the same order: their bytes, or the sequence under which it was stored."""
        if not messages:
            return []
        most = self.max_payload
        for message in messages:
            if len(message.body) > most:
                raise too_big(message, most)
        await self.ready()
        group = self.new_group()
        answers: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._groups[group] = ([None] * len(messages), answers)
        self._left[group] = len(messages)
        base = self._inbox_bytes + b"." + group + b".%d"
        self.send(b"".join([framed(message, base % place) for place, message in enumerate(messages)]))
        await self.flush_now()
        try:
            async with asyncio.timeout(PATIENCE):
                return await answers
        except TimeoutError as error:
            raise StoreError(f"NATS gave no answer in {PATIENCE:g} s", transient=True) from error
        finally:
            self._drop(group)

    async def store(self, messages: Sequence[Out]) -> list[Ack]:
        """Publish into the stream, all at once, and give what became of each. A refusal that is no conflict is raised."""
        acks = [read_ack(answer) for answer in await self._heard(messages)]
        for ack in acks:
            if ack.error is not None and not ack.conflict:
                raise refused(ack.error.err_code, ack.error.description)
        self.seen = max(self.seen, *(ack.seq for ack in acks)) if acks else self.seen
        return acks

    async def _heard(self, messages: Sequence[Out]) -> list[Any]:
        """Nobody hears a publish while a cluster chooses who leads the stream: it was stored nowhere, and is sent again."""
        answers = await self.ask(messages)
        until = asyncio.get_running_loop().time() + RECONNECT_PATIENCE
        while unheard := [at for at, answer in enumerate(answers) if nobody_heard(answer)]:
            if asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(0.02)
            for at, answer in zip(unheard, await self.ask([messages[at] for at in unheard]), strict=True):
                answers[at] = answer
        return answers

    async def store_together(self, messages: Sequence[Out]) -> Ack:
        """Publish as one atomic batch: all or nothing. The sequence is the last message's; the others come before it."""
        await self.ready()
        self._count += 1
        batch = b"%b-%d" % (self._inbox_bytes[-22:], self._count)
        parts = [batched(message, batch, at, last=at == len(messages)) for at, message in enumerate(messages, 1)]
        for part in parts:
            if len(part.body) > self.max_payload:
                raise too_big(part, self.max_payload)
        self.send(b"".join([framed(part, b"") for part in parts[:-1]]))
        [ack] = await self.store(parts[-1:])
        return ack

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

    @property
    def version(self) -> str:
        found = self.connected_server_version
        return f"{found.major}.{found.minor}.{found.patch}"

    async def api(self, verb: str, body: Any = None) -> dict[str, Any]:
        """One call of the JetStream API. Errors are given back, not raised: what they mean depends on the call."""
        packed = b"" if body is None else msgspec.json.encode(body)
        [answer] = await self.ask([Out(f"$JS.API.{verb}", packed)])
        if nobody_heard(answer):
            return {"error": {"code": 503, "err_code": 10076, "description": "no JetStream answers"}}
        found: dict[str, Any] = msgspec.json.decode(answer)
        return found


def _again(error: Exception) -> Exception:
    """A fresh one for each who waits: a raised exception collects the traces of all who raise it."""
    if isinstance(error, StoreError):
        return StoreError(str(error), transient=error.transient)
    return error


def _shown(servers: Sequence[str]) -> str:
    """Servers without the passwords in their addresses."""
    parts = [server.rpartition("://") for server in servers]
    return ", ".join(f"{scheme or 'nats'}://{rest.rpartition('@')[2]}" for scheme, _, rest in parts)
