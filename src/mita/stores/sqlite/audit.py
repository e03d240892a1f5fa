"""The audit log: a table of its own."""

from collections.abc import Sequence

from mita.model.audit import AuditEntry
from mita.rules import audit
from mita.rules.text import writable
from mita.stores.shared.audit import as_entry, pack_entry

from .context import SqliteContext


def record_audit(context: SqliteContext, entries: Sequence[AuditEntry]) -> None:
    """Add entries, and delete the entries that are too many or too old."""
    for entry in entries:
        context.run(
            "record_audit",
            id=entry.id,
            at=context.now,
            who=writable(entry.who),
            what=writable(entry.what),
            target=writable(entry.target),
            entry=pack_entry(entry),
        )
    context.run("record_audit_trim", most=audit.AUDIT_ENTRIES)
    prune_audit(context)


def audit_page(
    context: SqliteContext,
    after: str | None,
    limit: int,
    who: str | None,
    what: str | None,
    target: str | None,
) -> list[AuditEntry]:
    """The entries that match, newest first, with ids below `after`."""
    rows = context.rows(
        "audit_page",
        after=audit.AFTER_ALL if after is None else after,
        before=context.now - audit.AUDIT_KEEP,
        who=who,
        what=what,
        target=target,
        limit=limit,
    )
    return [as_entry(*row) for row in rows]


def prune_audit(context: SqliteContext) -> None:
    """Delete the oldest entries, if they are too old."""
    context.run("prune_audit", before=context.now - audit.AUDIT_KEEP)
