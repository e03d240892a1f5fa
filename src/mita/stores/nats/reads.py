"""Reading the stream: the last message of given subjects, or all of a class in order of sequence.

Any replica may answer a read, and one may be behind. Its answer says how far it had come, if it
finds anything at all: so on a stream with replicas every question also asks for a message that is
always there, and is asked again while the answer is older than what we know to be written. What
others wrote a moment ago may still be missing; every write is fenced by what was read, so that
costs a second try and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from mita.errors import StoreError

from .client.link import RECONNECT_PATIENCE
from .client.wire import PATIENCE, Wire

ASK_FOR = 400  # subjects in one question; the server gives at most 1,024 answers to one
# the server counts what is left once for each answer, which takes it longer the more there is
BATCH = 20_000
SCAN_BYTES = 8_000_000
TRIES = 400
A_MOMENT = 0.005
_SUBJECT, _SEQUENCE, _PENDING = b"Nats-Subject: ", b"Nats-Sequence: ", b"Nats-Num-Pending: "
_UP_TO = b"Nats-UpTo-Sequence: "


class Found(Struct, gc=False):
    """A stored message."""

    subject: str
    seq: int
    body: bytes


class Reader:
    def __init__(self, wire: Wire, stream: str, anchor: str | None) -> None:
        self._wire = wire
        self._direct = f"$JS.API.DIRECT.GET.{stream}"
        self._anchor = anchor

    async def last(self, subjects: Iterable[str], *, fresh: bool = True) -> list[Found]:
        """The last message of each subject (wildcards are allowed) that has one; at least as new as
        what we know of."""
        wanted = list(subjects)
        most = self._wire.names_in_one(ASK_FOR)
        parts = [wanted[at : at + most] for at in range(0, len(wanted), most)]
        answers = await asyncio.gather(*(self._last(part, fresh) for part in parts))
        return [found for answer in answers for found in answer]

    async def _last(self, subjects: Sequence[str], fresh: bool) -> list[Found]:
        if self._anchor is None or not fresh:
            return (await self._ask({"multi_last": subjects, "batch": 1024}))[0]
        question = {"multi_last": [*subjects, self._anchor], "batch": 1024}
        at_least = self._wire.seen
        for _ in range(TRIES):
            found, status = await self._ask(question)
            if (_number(status, _UP_TO) or 0) >= at_least:
                return [message for message in found if message.subject != self._anchor]
            await asyncio.sleep(A_MOMENT)
        raise StoreError("the replica that answers is too far behind", transient=True)

    async def one(self, subject: str) -> Found | None:
        found = await self.last([subject])
        return found[0] if found else None

    async def scan(self, subject: str, start: int = 1) -> AsyncIterator[list[Found]]:
        """All messages of these subjects, oldest first, some thousands at a time; while they are
        looked at the next are on their way."""
        coming = asyncio.ensure_future(self.slice(subject, start, BATCH))
        try:
            while True:
                found, pending = await coming
                if not found:
                    return
                if pending:
                    coming = asyncio.ensure_future(self.slice(subject, found[-1].seq + 1, BATCH))
                yield found
                if not pending:
                    return
        finally:
            coming.cancel()

    async def slice(self, subject: str, start: int, most: int) -> tuple[list[Found], int]:
        """Some messages from `start` on, and how many are left after them."""
        question = {"seq": start, "next_by_subj": subject, "batch": most, "max_bytes": SCAN_BYTES}
        found, status = await self._ask(question)
        return found, _number(status, _PENDING) or 0

    async def all(self, subject: str) -> list[Found]:
        """One message for each subject: what a write replaces may be there for a moment beside
        it."""
        newest = {found.subject: found async for slice in self.scan(subject) for found in slice}
        return sorted(newest.values(), key=lambda found: found.seq)

    async def _ask(self, question: dict[str, Any]) -> tuple[list[Found], bytes]:
        """Nobody answers while a cluster chooses its leaders: a short silence is waited out."""
        until = asyncio.get_running_loop().time() + RECONNECT_PATIENCE
        found, status = await self._ask_once(question)
        while status[9:12] == b"503" and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(A_MOMENT)
            found, status = await self._ask_once(question)
        _check(status)
        return found, status

    async def _ask_once(self, question: dict[str, Any]) -> tuple[list[Found], bytes]:
        found: list[Found] = []
        end: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def hear(_: bytes, __: bytes, data: bytes, headers: bytes | None) -> None:
            head = headers or b""
            if head[8:9] == b" ":
                if not end.done():
                    end.set_result(head)
            else:
                found.append(_as_found(head, data))

        group = await self._wire.stream(self._direct, msgspec.json.encode(question), hear)
        try:
            async with asyncio.timeout(PATIENCE):
                status = await end
        except TimeoutError as error:
            raise StoreError(
                f"NATS gave no answer to a read in {PATIENCE:g} s", transient=True
            ) from error
        finally:
            self._wire.silence(group)
        return found, status


def _as_found(head: bytes, data: bytes) -> Found:
    """Our own headers come first in the message and the server's after them, so look from the
    end."""
    at = head.rindex(_SUBJECT) + len(_SUBJECT)
    subject = head[at : head.index(b"\r", at)].decode()
    at = head.index(_SEQUENCE, at) + len(_SEQUENCE)
    return Found(subject, int(head[at : head.index(b"\r", at)]), data)


class TooMany(StoreError):
    """More messages match than the server gives in one answer."""


def _check(status: bytes) -> None:
    code = status[9:12]
    if code in (b"204", b"404"):
        return
    if code == b"413":
        raise TooMany("more messages match than NATS gives in one answer")
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
