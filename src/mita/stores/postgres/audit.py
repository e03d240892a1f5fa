"""The audit log: a table of its own."""

from collections.abc import Sequence

from mita.model.audit import AuditEntry
from mita.rules import audit
from mita.stores.shared.audit import as_entry, pack_entry

from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .server.arrays import blobs, storable, texts


def record_audit(_: PostgresContext, entries: Sequence[AuditEntry]) -> RoundTrips[None]:
    """Add entries, and delete the entries that are too many or too old."""
    yield RoundTrip(
        query(
            "record_audit",
            ids=texts([entry.id for entry in entries]),
            whos=texts([entry.who for entry in entries]),
            whats=texts([entry.what for entry in entries]),
            targets=texts([entry.target for entry in entries]),
            entries=blobs([pack_entry(entry) for entry in entries]),
        ),
        query("record_audit_trim", most=audit.AUDIT_ENTRIES),
        prune_audit(),
        last=True,
    )


def audit_page(
    _: PostgresContext,
    after: str | None,
    limit: int,
    who: str | None,
    what: str | None,
    target: str | None,
) -> RoundTrips[list[AuditEntry]]:
    """The entries that match, newest first, with ids below `after`."""
    [rows] = yield RoundTrip(
        query(
            "audit_page",
            after=storable(audit.AFTER_ALL if after is None else after),
            keep=audit.AUDIT_KEEP,
            who=_optional(who),
            what=_optional(what),
            target=_optional(target),
            limit=limit,
        ),
        last=True,
    )
    return [as_entry(*row) for row in rows]


def prune_audit() -> Query:
    """The statement that deletes the oldest entries, if they are too old."""
    return query("prune_audit", keep=audit.AUDIT_KEEP)


def _optional(text: str | None) -> str | None:
    return None if text is None else storable(text)
