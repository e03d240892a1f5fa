"""A message on its way out, as the bytes of the protocol, and the server's answer to it."""

from typing import NamedTuple

import msgspec

from mita.errors import Rejected, StoreError

from .errors import refused

_HEAD = b"NATS/1.0\r\n"
FRAME = len(_HEAD) + len(b"\r\n")  # what the headers of a message take beside their lines
# another sequence, the same within a batch, a batch that was given up
_CONFLICTS = (10071, 10164, 10176)


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
    """The server's answer to a publish, when there is more to it than the sequence."""

    seq: int = 0
    error: Problem | None = None


_read = msgspec.json.Decoder(Ack).decode


def nobody_heard(answer: bytes | int) -> bool:
    """No server stood ready to take it: an answer of headers alone."""
    return not isinstance(answer, int) and answer[:8] == b"NATS/1.0"


def stored_at(answer: bytes | int) -> int:
    """The sequence under which it was stored; 0 when somebody else wrote to that subject since we
    looked. Any other refusal is raised."""
    if isinstance(answer, int):
        return answer
    if nobody_heard(answer):
        raise StoreError(
            "no JetStream answers: it is not enabled, or its stream has no leader now",
            transient=True,
        )
    ack = _read(answer)
    if ack.error is not None and ack.error.err_code not in _CONFLICTS:
        raise refused(ack.error.err_code, ack.error.description)
    return ack.seq if ack.error is None else 0


def framed(message: Out, reply: bytes) -> bytes:
    subject, body, headers = message
    if not headers:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply, len(body), body)
    head = _HEAD + headers + b"\r\n"
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (
        subject.encode(),
        reply,
        len(head),
        len(head) + len(body),
        head,
        body,
    )


def batched(message: Out, batch: bytes, at: int, *, last: bool) -> Out:
    """A message as part of an atomic batch."""
    commit = b"Nats-Batch-Commit: 1\r\n" if last else b""
    part = b"Nats-Batch-Id: %b\r\nNats-Batch-Sequence: %d\r\n" % (batch, at)
    return message._replace(headers=message.headers + part + commit)


def size(message: Out) -> int:
    """What the server counts against its max_payload: the headers too, and their frame."""
    return len(message.body) + len(message.headers) + FRAME


def too_big(message: Out, most: int) -> Rejected:
    return Rejected(
        f"a message of {size(message):,} bytes is more than this server takes ({most:,}): "
        "raise its max_payload, or make the job's arguments, result or memos smaller"
    )
