"""Questions and answers over one connection.

The driver waits for publishes one by one. Here a group of them goes out in one write, and every
answer finds its place by the last two tokens of its subject."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from mita.errors import StoreError
from mita.stores.nats.errors import NoAnswer
from mita.stores.nats.messages import (
    FRAME,
    Out,
    batched,
    framed,
    nobody_heard,
    size,
    stored_at,
    too_big,
)

from .link import RECONNECT_PATIENCE, Hear, Link

PATIENCE = 10.0  # seconds until an answer that does not come is an error
LONGEST_SUBJECT = 512  # bytes, whatever the names in it
# the same for what is to be stored: its leader may be gone, and whoever asked can find out
STORE_PATIENCE = 5.0


class Group:
    """The answers to what was asked together."""

    __slots__ = ("_answers", "all", "left")

    def __init__(self, size: int) -> None:
        self._answers: list[Any] = [None] * size
        self.left = size
        self.all: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def put(self, place: int, answer: bytes | int) -> bool:
        """Whether this was the last."""
        self._answers[place] = answer
        self.left -= 1
        if self.left:
            return False
        if not self.all.done():
            self.all.set_result(self._answers)
        return True


class Wire(Link):
    """A connection on which everything that is said can be answered."""

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[bytes, Group] = {}
        self._count = 0
        self._streams: dict[bytes, Hear] = {}
        self.pulling: Hear | None = None  # who gets what a pull delivers; there is one at a time
        self.seen = 0  # the highest sequence of the stream that we know of

    async def start(self, servers: Sequence[str], options: dict[str, Any]) -> None:
        await super().start(servers, options)
        self._inbox = self.new_inbox()
        self._inbox_bytes = self._inbox.encode()
        self._quick.expect_answers_at(self._inbox_bytes)
        await self.hear(f"{self._inbox}.*.*", self._answer)

    # ------------------------------------------------------------ hearing

    def _answer(self, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        # a delivery: it comes under the subject it was stored with, and its reply says how to
        # acknowledge it
        if reply:
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
        found = self._groups.get(group)
        if found is not None and found.put(int(place), int(seq)):
            del self._groups[group]

    def _answered(self, group: bytes, place: bytes, answer: bytes) -> None:
        found = self._groups.get(group)
        if found is not None and found.put(int(place), answer):
            del self._groups[group]

    def give_up(self, error: Exception) -> None:
        groups, self._groups = self._groups, {}
        for group in groups.values():
            if not group.all.done():
                group.all.set_exception(_again(error))
        for stream in list(self._streams.values()):
            stream(b"", b"", b"", b"NATS/1.0 000 cut off\r\n\r\n")

    # ------------------------------------------------------------ asking

    def names_in_one(self, most: int) -> int:
        """How many subjects fit into one message, and no more than `most`."""
        return max(1, min(most, self.max_payload // LONGEST_SUBJECT - 1))

    def new_group(self) -> bytes:
        self._count += 1
        return b"%d" % self._count

    async def ask(self, messages: Sequence[Out], patience: float = PATIENCE) -> list[Any]:
        """Publish all, and give the answers in the same order: their bytes, or the sequence under
        which it was stored. So many seconds without any answer are an error."""
        if not messages:
            return []
        most = self.max_payload - FRAME
        for message in messages:
            if len(message.body) + len(message.headers) > most:
                raise too_big(message, self.max_payload)
        await self.ready()
        group = self.new_group()
        answers = self._groups[group] = Group(len(messages))
        base = self._inbox_bytes + b"." + group + b".%d"
        self.send(
            b"".join([framed(message, base % place) for place, message in enumerate(messages)])
        )
        await self.flush_now()
        try:
            left = -1
            while not answers.all.done() and left != answers.left:
                left = answers.left
                await asyncio.wait([answers.all], timeout=patience)
            if answers.all.done():
                return answers.all.result()
            raise NoAnswer(f"NATS gave no answer in {patience:g} s", transient=True)
        finally:
            self._groups.pop(group, None)

    async def store(self, messages: Sequence[Out]) -> list[int]:
        """Publish into the stream, all at once, and give the sequence of each; 0 for one that was
        refused because somebody was faster. Any other refusal is raised."""
        seqs = [stored_at(answer) for answer in await self._heard(messages)]
        self.seen = max(self.seen, *seqs) if seqs else self.seen
        return seqs

    async def _heard(self, messages: Sequence[Out]) -> list[Any]:
        """Nobody hears a publish while a cluster chooses who leads the stream: it was stored
        nowhere, and is sent again."""
        answers = await self.ask(messages, STORE_PATIENCE)
        until = asyncio.get_running_loop().time() + RECONNECT_PATIENCE
        while ignore_signal := [at for at, answer in enumerate(answers) if nobody_heard(answer)]:
            if asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(0.02)
            for at, answer in zip(
                ignore_signal,
                await self.ask([messages[at] for at in ignore_signal], STORE_PATIENCE),
                strict=True,
            ):
                answers[at] = answer
        return answers

    async def store_together(self, messages: Sequence[Out]) -> int:
        """Publish as one atomic batch: all or nothing. The sequence is the last message's; the
        others come before it. 0 when somebody was faster."""
        await self.ready()
        self._count += 1
        batch = b"%b-%d" % (self._inbox_bytes[-22:], self._count)
        parts = [
            batched(message, batch, at, last=at == len(messages))
            for at, message in enumerate(messages, 1)
        ]
        for part in parts:
            if size(part) > self.max_payload:
                raise too_big(part, self.max_payload)
        self.send(b"".join([framed(part, b"") for part in parts[:-1]]))
        [seq] = await self.store(parts[-1:])
        return seq

    async def stream(self, subject: str, body: bytes, hear: Hear) -> bytes:
        """Ask for something that is answered by many messages; `hear` gets them until the caller
        says `silence`."""
        if len(body) > self.max_payload:
            raise too_big(Out(subject, body), self.max_payload)
        await self.ready()
        group = self.new_group()
        self._streams[group] = hear
        self.say(subject, body, self._inbox_bytes + b"." + group + b".s")
        await self.flush_now()
        return group

    def silence(self, group: bytes) -> None:
        self._streams.pop(group, None)

    async def api(self, verb: str, body: Any = None) -> dict[str, Any]:
        """One call of the JetStream API. Errors are given back, not raised: what they mean depends
        on the call."""
        packed = b"" if body is None else msgspec.json.encode(body)
        [answer] = await self.ask([Out(f"$JS.API.{verb}", packed)])
        if nobody_heard(answer):
            return {
                "error": {"code": 503, "err_code": 10076, "description": "no JetStream answers"}
            }
        found: dict[str, Any] = msgspec.json.decode(answer)
        return found


def _again(error: Exception) -> Exception:
    """A fresh one for each who waits: a raised exception collects the traces of all who raise
    it."""
    if isinstance(error, StoreError):
        return StoreError(str(error), transient=error.transient)
    return error
