"""Messages to be sent, as bytes of the NATS protocol, and the server's answers to publishes."""

from typing import NamedTuple

import msgspec

from mita.errors import Rejected, StoreError

from .errors import refused

_HEADER_LINE = b"NATS/1.0\r\n"
# Bytes that the headers of a message take besides their own lines.
HEADER_FRAME_BYTES = len(_HEADER_LINE) + len(b"\r\n")
# Error codes for a lost race: another sequence, the same inside a batch, an abandoned batch.
_CONFLICT_CODES = (10071, 10164, 10176)


class OutMessage(NamedTuple):
    """A message to be published. `headers` are complete lines, ready to be sent."""

    subject: str
    body: bytes
    headers: bytes = b""


class ApiError(msgspec.Struct):
    """The error part of an answer of the JetStream API."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class PublishAck(msgspec.Struct):
    """The server's answer to a publish, if it contains more than the sequence."""

    seq: int = 0
    error: ApiError | None = None


_decode_ack = msgspec.json.Decoder(PublishAck).decode


def has_no_responders(answer: bytes | int) -> bool:
    """True if no server was ready to receive the message: the answer has only headers."""
    return not isinstance(answer, int) and answer[:8] == b"NATS/1.0"


def stored_at(answer: bytes | int) -> int:
    """Returns the sequence under which a message was stored, or 0 if another writer was faster.
    Raises a StoreError for any other refusal."""
    if isinstance(answer, int):
        return answer
    if has_no_responders(answer):
        raise StoreError(
            "no JetStream answers: it is not enabled, or its stream has no leader now",
            transient=True,
        )
    ack = _decode_ack(answer)
    if ack.error is not None and ack.error.err_code not in _CONFLICT_CODES:
        raise refused(ack.error.err_code, ack.error.description)
    return ack.seq if ack.error is None else 0


def framed(message: OutMessage, reply: bytes) -> bytes:
    """Returns the bytes that publish a message; the server answers to the subject `reply`."""
    subject, body, headers = message
    if not headers:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply, len(body), body)
    head = _HEADER_LINE + headers + b"\r\n"
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (
        subject.encode(),
        reply,
        len(head),
        len(head) + len(body),
        head,
        body,
    )


def batched(message: OutMessage, batch: bytes, position: int, *, last: bool) -> OutMessage:
    """Returns the message as part number `position` (from 1) of an atomic batch."""
    commit = b"Nats-Batch-Commit: 1\r\n" if last else b""
    part = b"Nats-Batch-Id: %b\r\nNats-Batch-Sequence: %d\r\n" % (batch, position)
    return message._replace(headers=message.headers + part + commit)


def removal(stream: str, seq: int) -> OutMessage:
    """Returns the request that removes one message of a stream."""
    return OutMessage(f"$JS.API.STREAM.MSG.DELETE.{stream}", b'{"seq":%d,"no_erase":true}' % seq)


def size(message: OutMessage) -> int:
    """Returns the bytes that the server counts against its max_payload, headers included."""
    return len(message.body) + len(message.headers) + HEADER_FRAME_BYTES


def too_big(message: OutMessage, max_bytes: int) -> Rejected:
    """Returns the error for a message that is larger than the server's max_payload."""
    return Rejected(
        f"a message of {size(message):,} bytes is more than this server takes ({max_bytes:,}): "
        "raise its max_payload, or make the job's arguments, result or `once` values smaller"
    )
