"""Entries of the audit log as bytes."""

import msgspec
from msgspec.structs import replace

from mita.model.audit import AuditEntry
from mita.model.time import LATEST, Moment
from mita.rules.readable import BAD, UNKNOWN

pack_entry = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AuditEntry).decode


def as_entry(id: object, at: object, packed: object) -> AuditEntry:
    """The stored entry, with the time that the store noted. One that cannot be read is shown, with
    the reason: an audit log must not hide that there was a change."""
    moment: Moment = max(0, min(at, LATEST)) if isinstance(at, int) else 0
    name = id if isinstance(id, str) else UNKNOWN
    try:
        if not isinstance(packed, bytes):
            raise TypeError(f"it is no text of bytes but {type(packed).__name__}")
        return replace(_decode(packed), id=name, at=moment)
    except BAD as error:
        return AuditEntry(
            id=name,
            at=moment,
            who=UNKNOWN,
            via=UNKNOWN,
            what=UNKNOWN,
            target=UNKNOWN,
            result=f"this entry cannot be read: {error}",
        )
