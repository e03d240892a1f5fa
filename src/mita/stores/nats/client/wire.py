"""Requests and answers over one connection.

The driver waits for publishes one by one. Here a group of them goes out in one write. Every answer
comes to the subject `<inbox>.<group>.<position>`, which says to which request it belongs; the
answers of a stream of messages come to `<inbox>.<group>.s`."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from mita.errors import StoreError

from .errors import NoServerAnswer
from .link import RECONNECT_WAIT_S, MessageHandler, NatsLink
from .messages import (
    HEADER_FRAME_BYTES,
    OutMessage,
    batched,
    framed,
    has_no_responders,
    size,
    stored_at,
    too_big,
)

ANSWER_TIMEOUT_S = 10.0
# For a publish into the stream: its leader may be lost, and the caller can look what happened.
STORE_TIMEOUT_S = 5.0
SUBJECT_BYTES = 512  # no subject is longer
_ELECTION_POLL_S = 0.02
_CUT_OFF = b"NATS/1.0 000 cut off\r\n\r\n"


class AnswerGroup:
    """The answers to requests that were sent together."""

    __slots__ = ("_answers", "all", "left")

    def __init__(self, size: int) -> None:
        self._answers: list[Any] = [None] * size
        self.left = size
        self.all: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def put(self, position: int, answer: bytes | int) -> bool:
        """Add one answer. Returns True if it was the last."""
        self._answers[position] = answer
        self.left -= 1
        if self.left:
            return False
        if not self.all.done():
            self.all.set_result(self._answers)
        return True


class NatsWire(NatsLink):
    """A connection on which requests can be answered."""

    def __init__(self, where: str = "") -> None:
        super().__init__(where)
        self._groups: dict[bytes, AnswerGroup] = {}
        self._group_count = 0
        self._streams: dict[bytes, MessageHandler] = {}
        self.pull_handler: MessageHandler | None = None  # gets deliveries; one pull at a time
        self.newest_seq = 0  # the highest sequence of the stream that this connection knows of

    async def open_inbox(self) -> None:
        """Subscribe to the answers. Called once, after the first connect."""
        inbox = self.new_inbox()
        self._inbox_bytes = inbox.encode()
        self._quick.expect_answers_at(self._inbox_bytes)
        await self.subscribe_raw(f"{inbox}.*.*", self._take_answer)

    # ------------------------------------------------------------ receiving

    def _take_answer(
        self, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        """Pass on what arrives in the inbox: a delivery of a pull (it has a reply subject, for its
        acknowledgement), a message of a stream of answers (`<inbox>.<group>.s`), or one answer
        (`<inbox>.<group>.<position>`)."""
        if reply:
            if self.pull_handler is not None:
                self.pull_handler(subject, reply, data, headers)
            return
        _, group, position = subject.rsplit(b".", 2)
        if position == b"s":
            if stream := self._streams.get(group):
                stream(subject, reply, data, headers)
            return
        found = self._groups.get(group)
        answer = headers if headers and not data else data
        if found is not None and found.put(int(position), answer):
            del self._groups[group]

    def take_sequence(self, group: bytes, position: bytes, seq: bytes) -> None:
        """Called by the parser for an answer that only says the sequence of a stored message."""
        found = self._groups.get(group)
        if found is not None and found.put(int(position), int(seq)):
            del self._groups[group]

    def fail_waiting(self, error: Exception) -> None:
        """Raise this error in every call that waits for an answer."""
        groups, self._groups = self._groups, {}
        for group in groups.values():
            if not group.all.done():
                group.all.set_exception(_fresh(error))
        for stream in list(self._streams.values()):
            stream(b"", b"", b"", _CUT_OFF)

    # ------------------------------------------------------------ requesting

    def subjects_per_message(self, most: int) -> int:
        """Returns how many subjects fit into one message, at most `most`."""
        return max(1, min(most, self.max_payload // SUBJECT_BYTES - 1))

    def _new_group(self) -> bytes:
        self._group_count += 1
        return b"%d" % self._group_count

    async def request_all(
        self, messages: Sequence[OutMessage], timeout_s: float = ANSWER_TIMEOUT_S
    ) -> list[Any]:
        """Publish all messages in one write. Returns the answers in the same order: bytes, or the
        sequence of a stored message. Raises NoServerAnswer after `timeout_s` without any answer."""
        if not messages:
            return []
        most = self.max_payload - HEADER_FRAME_BYTES
        for message in messages:
            if len(message.body) + len(message.headers) > most:
                raise too_big(message, self.max_payload)
        await self.ready()
        group = self._new_group()
        answers = self._groups[group] = AnswerGroup(len(messages))
        base = self._inbox_bytes + b"." + group + b".%d"
        self.send(b"".join([framed(message, base % at) for at, message in enumerate(messages)]))
        await self.flush_now()
        try:
            left = -1
            while not answers.all.done() and left != answers.left:
                left = answers.left
                await asyncio.wait([answers.all], timeout=timeout_s)
            if answers.all.done():
                return answers.all.result()
            raise NoServerAnswer(f"NATS gave no answer in {timeout_s:g} s", transient=True)
        finally:
            self._groups.pop(group, None)

    async def store(self, messages: Sequence[OutMessage]) -> list[int]:
        """Publish into the stream. Returns the sequence of each message; 0 if it was refused
        because another writer was faster. Raises a StoreError for any other refusal."""
        seqs = [stored_at(answer) for answer in await self._request_received(messages)]
        self.newest_seq = max(self.newest_seq, *seqs) if seqs else self.newest_seq
        return seqs

    async def _request_received(self, messages: Sequence[OutMessage]) -> list[Any]:
        """While a cluster elects the stream's leader, no server receives a publish: it was not
        stored, and is sent again."""
        answers = await self.request_all(messages, STORE_TIMEOUT_S)
        until = asyncio.get_running_loop().time() + RECONNECT_WAIT_S
        while lost := [at for at, answer in enumerate(answers) if has_no_responders(answer)]:
            if asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(_ELECTION_POLL_S)
            again = await self.request_all([messages[at] for at in lost], STORE_TIMEOUT_S)
            for at, answer in zip(lost, again, strict=True):
                answers[at] = answer
        return answers

    async def store_batch(self, messages: Sequence[OutMessage]) -> int:
        """Publish as one atomic batch: all or none are stored. Returns the last message's sequence
        (the others have the sequences before it), or 0 if another writer was faster."""
        await self.ready()
        self._group_count += 1
        batch = b"%b-%d" % (self._inbox_bytes[-22:], self._group_count)
        parts = [
            batched(message, batch, position, last=position == len(messages))
            for position, message in enumerate(messages, 1)
        ]
        for part in parts:
            if size(part) > self.max_payload:
                raise too_big(part, self.max_payload)
        self.send(b"".join([framed(part, b"") for part in parts[:-1]]))
        [seq] = await self.store(parts[-1:])
        return seq

    async def request_stream(self, subject: str, body: bytes, handler: MessageHandler) -> bytes:
        """Send a request that many messages answer; the handler gets them. Returns the id for
        `end_stream`, which the caller must call."""
        if len(body) > self.max_payload:
            raise too_big(OutMessage(subject, body), self.max_payload)
        await self.ready()
        group = self._new_group()
        self._streams[group] = handler
        self.send_message(subject, body, self._inbox_bytes + b"." + group + b".s")
        await self.flush_now()
        return group

    def end_stream(self, group: bytes) -> None:
        """Ignore further answers to this `request_stream`."""
        self._streams.pop(group, None)

    async def api(self, verb: str, body: Any = None) -> dict[str, Any]:
        """Call the JetStream API. Returns its answer, errors included: what an error means depends
        on the call."""
        packed = b"" if body is None else msgspec.json.encode(body)
        [answer] = await self.request_all([OutMessage(f"$JS.API.{verb}", packed)])
        if has_no_responders(answer):
            return {
                "error": {"code": 503, "err_code": 10076, "description": "no JetStream answers"}
            }
        found: dict[str, Any] = msgspec.json.decode(answer)
        return found


def _fresh(error: Exception) -> Exception:
    """One error for each waiting call: a raised exception collects the traces of all who raise
    it."""
    if isinstance(error, StoreError):
        return StoreError(str(error), transient=error.transient)
    return error
