"""The audit log: a sorted set of ids, and a hash of the entries. Filters are applied in the script,
so that only what matches is sent."""

from collections.abc import Sequence

from mita.model.audit import AuditEntry
from mita.rules import audit
from mita.rules.text import writable
from mita.stores.shared.audit import as_entry, pack_entry

from .context import RedisContext


async def record_audit(context: RedisContext, entries: Sequence[AuditEntry]) -> None:
    """Add entries, and delete the entries that are too many or too old."""
    args = [
        part
        for entry in entries
        for part in (
            entry.id,
            writable(entry.who),
            writable(entry.what),
            writable(entry.target),
            pack_entry(entry),
        )
    ]
    bounds = (audit.AUDIT_ENTRIES, audit.AUDIT_KEEP)
    await context.in_namespace("record_audit", context.now(), *bounds, *args)


async def audit_page(
    context: RedisContext,
    after: str | None,
    limit: int,
    who: str | None,
    what: str | None,
    target: str | None,
) -> list[AuditEntry]:
    """The entries that match, newest first, with ids below `after`."""
    filters = ["" if one is None else f"+{writable(one)}" for one in (who, what, target)]
    found: list[AuditEntry] = []
    below: str | bytes = after or ""
    while True:
        args = (context.now(), below, limit - len(found), *filters)
        now, below, *rows = await context.in_namespace("audit_page", *args)
        entries = [_entry(*row) for row in zip(rows[::3], rows[1::3], rows[2::3], strict=True)]
        found += [entry for entry in entries if audit.is_kept(entry, now)]
        if not below or len(found) >= limit:
            return found


def _entry(id: bytes, at: int, packed: bytes) -> AuditEntry:
    return as_entry(id.decode(errors="backslashreplace"), at, packed)
