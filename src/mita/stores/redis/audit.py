"""The audit log: a sorted set of ids, and a hash of the entries."""

from collections.abc import Sequence

from mita.model.audit import AuditEntry
from mita.rules import audit
from mita.stores.shared.audit import as_entry, pack_entry

from .context import RedisContext

AT_DIGITS = 15  # of the time before each packed entry
READ_ENTRIES = 1000  # that one call reads; filters are applied here


async def record_audit(context: RedisContext, entries: Sequence[AuditEntry]) -> None:
    """Add entries, and delete those that are too many or too old."""
    args = [part for entry in entries for part in (entry.id, pack_entry(entry))]
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
    found: list[AuditEntry] = []
    filtered = any(one is not None for one in (who, what, target))
    read, below = READ_ENTRIES if filtered else limit, after or ""
    while True:
        now, *rows = await context.in_namespace("audit_page", context.now(), below, read)
        some = [_entry(*pair) for pair in zip(rows[::2], rows[1::2], strict=True)]
        found += [
            entry
            for entry in some
            if audit.is_kept(entry, now) and audit.matches(entry, who, what, target)
        ]
        if len(found) >= limit or len(some) < read:
            return found[:limit]
        below = some[-1].id


def _entry(id: bytes, stored: bytes) -> AuditEntry:
    digits = stored[:AT_DIGITS]
    at = int(digits) if digits.isdigit() else 0
    return as_entry(id.decode(errors="backslashreplace"), at, stored[AT_DIGITS:])
