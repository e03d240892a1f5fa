"""Reading the stream: the last message of given subjects, or all messages of a kind by sequence.

Any replica may answer a read, and it may be behind. Its answer says how far it was, if it found
anything at all. So on a stream with replicas every read also asks for one message that is always
there (the anchor), and is repeated while the answer is older than what this store knows to be
written. What other stores wrote a moment ago may still be missing. That costs a retry and nothing
else, because every write is refused if what was read has changed."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from mita.errors import StoreError
from mita.model.time import Moment
from mita.stores.nats.client.link import RECONNECT_WAIT_S
from mita.stores.nats.client.wire import ANSWER_TIMEOUT_S, NatsWire

from .clock import as_stamp

ANSWER_MESSAGES = 1024  # the server gives at most so many messages for one `multi_last`
READ_SUBJECTS = 400  # subjects in one request
# For each slice the server counts what is left, which takes longer the more there is.
SCAN_MESSAGES = 20_000
SCAN_BYTES = 8_000_000
REPLICA_TRIES = 400
REPLICA_POLL_S = 0.005
_SUBJECT, _SEQUENCE, _PENDING = b"Nats-Subject: ", b"Nats-Sequence: ", b"Nats-Num-Pending: "
_UP_TO = b"Nats-UpTo-Sequence: "


class StoredMessage(Struct, gc=False):
    """A message as it is stored. An empty body means that the record was removed."""

    subject: str
    seq: int
    body: bytes


class StoredMessageReader:
    """Reads one stream. `anchor` is the subject of the message that is always there; None if the
    stream has no replicas."""

    def __init__(self, wire: NatsWire, stream: str, anchor: str | None) -> None:
        self._wire = wire
        self._direct = f"$JS.API.DIRECT.GET.{stream}"
        self._anchor = anchor

    async def last(self, subjects: Iterable[str], *, fresh: bool = True) -> list[StoredMessage]:
        """Returns the last message of each subject that has one; wildcards are allowed. With
        `fresh`, the answer contains everything that this store has written."""
        wanted = list(subjects)
        most = self._wire.subjects_per_message(READ_SUBJECTS)
        parts = [wanted[at : at + most] for at in range(0, len(wanted), most)]
        answers = await asyncio.gather(*(self._last(part, fresh) for part in parts))
        return [found for answer in answers for found in answer]

    async def _last(self, subjects: Sequence[str], fresh: bool) -> list[StoredMessage]:
        if self._anchor is None or not fresh:
            return (await self._request({"multi_last": subjects, "batch": ANSWER_MESSAGES}))[0]
        request = {"multi_last": [*subjects, self._anchor], "batch": ANSWER_MESSAGES}
        at_least = self._wire.newest_seq
        for _ in range(REPLICA_TRIES):
            found, status = await self._request(request)
            if (_number(status, _UP_TO) or 0) >= at_least:
                return [message for message in found if message.subject != self._anchor]
            await asyncio.sleep(REPLICA_POLL_S)
        raise StoreError("the replica that answers is too far behind", transient=True)

    async def one(self, subject: str) -> StoredMessage | None:
        """Returns the last message of a subject, if it has one."""
        found = await self.last([subject])
        return found[0] if found else None

    async def left(self, start: int, subject: str | None = None) -> int:
        """Returns how many messages there are from this sequence on: of any kind, which the server
        knows at once, or those that match, which it has to count."""
        return await self._left({"seq": start}, subject)

    async def left_since(self, at: Moment, subject: str) -> int:
        """Returns how many messages that match were stored at this time or later."""
        return await self._left({"start_time": as_stamp(at).decode()}, subject)

    async def _left(self, start: dict[str, Any], subject: str | None) -> int:
        wanted = {} if subject is None else {"next_by_subj": subject}
        found, status = await self._request({**start, **wanted, "batch": 1})
        return len(found) + (_number(status, _PENDING) or 0)

    async def first(self, subject: str, start: int = 1) -> StoredMessage | None:
        """Returns the oldest message that matches, from sequence `start` on, if there is one."""
        came: asyncio.Future[StoredMessage | None] = asyncio.get_running_loop().create_future()

        def take(_: bytes, __: bytes, data: bytes, headers: bytes | None) -> None:
            head = headers or b""
            if not came.done():
                came.set_result(None if head[8:9] == b" " else _as_stored(head, data))

        request = msgspec.json.encode({"seq": start, "next_by_subj": subject})
        group = await self._wire.request_stream(self._direct, request, take)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await came
        except TimeoutError:
            return None
        finally:
            self._wire.end_stream(group)

    async def scan(self, subject: str, start: int = 1) -> AsyncIterator[list[StoredMessage]]:
        """Yields all messages that match, oldest first, some thousands at a time. While the caller
        handles one slice, the next is on its way."""
        coming = asyncio.ensure_future(self.slice(subject, start, SCAN_MESSAGES))
        try:
            while True:
                found, pending = await coming
                if not found:
                    return
                if pending:
                    coming = asyncio.ensure_future(
                        self.slice(subject, found[-1].seq + 1, SCAN_MESSAGES)
                    )
                yield found
                if not pending:
                    return
        finally:
            coming.cancel()

    async def slice(self, subject: str, start: int, most: int) -> tuple[list[StoredMessage], int]:
        """Returns up to `most` messages that match, from sequence `start` on, and how many are left
        after them."""
        request = {"seq": start, "next_by_subj": subject, "batch": most, "max_bytes": SCAN_BYTES}
        found, status = await self._request(request)
        return found, _number(status, _PENDING) or 0

    async def all(self, subject: str) -> list[StoredMessage]:
        """Returns the newest message of each subject that matches, oldest first. A replaced message
        may be there for a moment beside its successor."""
        newest = {found.subject: found async for slice in self.scan(subject) for found in slice}
        return sorted(newest.values(), key=lambda found: found.seq)

    async def _request(self, request: dict[str, Any]) -> tuple[list[StoredMessage], bytes]:
        """No server answers while a cluster elects its leaders: wait for them a short time."""
        until = asyncio.get_running_loop().time() + RECONNECT_WAIT_S
        found, status = await self._request_once(request)
        while status[9:12] == b"503" and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(REPLICA_POLL_S)
            found, status = await self._request_once(request)
        _check(status)
        return found, status

    async def _request_once(self, request: dict[str, Any]) -> tuple[list[StoredMessage], bytes]:
        found: list[StoredMessage] = []
        end: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def take(_: bytes, __: bytes, data: bytes, headers: bytes | None) -> None:
            head = headers or b""
            if head[8:9] == b" ":
                if not end.done():
                    end.set_result(head)
            else:
                found.append(_as_stored(head, data))

        group = await self._wire.request_stream(self._direct, msgspec.json.encode(request), take)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                status = await end
        except TimeoutError as error:
            raise StoreError(
                f"NATS gave no answer to a read in {ANSWER_TIMEOUT_S:g} s", transient=True
            ) from error
        finally:
            self._wire.end_stream(group)
        return found, status


def _as_stored(head: bytes, data: bytes) -> StoredMessage:
    """The message's own headers come first and the server's after them: search from the end."""
    at = head.rindex(_SUBJECT) + len(_SUBJECT)
    subject = head[at : head.index(b"\r", at)].decode()
    at = head.index(_SEQUENCE, at) + len(_SEQUENCE)
    return StoredMessage(subject, int(head[at : head.index(b"\r", at)]), data)


class TooManyMessages(StoreError):
    """More messages match than the server gives in one answer."""


def _check(status: bytes) -> None:
    code = status[9:12]
    if code in (b"204", b"404"):
        return
    if code == b"413":
        raise TooManyMessages("more messages match than NATS gives in one answer")
    if code == b"000":
        raise StoreError(
            "the connection to NATS was lost in the middle of an answer", transient=True
        )
    if code == b"503":
        raise StoreError("no JetStream answers: its stream has no leader now", transient=True)
    raise StoreError(
        f"NATS could not read: {status[9:].splitlines()[0].decode(errors='replace')}",
        transient=True,
    )


def _number(status: bytes, header: bytes) -> int | None:
    at = status.find(header)
    return None if at < 0 else int(status[at + len(header) : status.index(b"\r", at)])
