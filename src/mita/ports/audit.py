"""The part of the store contract that keeps the audit log."""

from collections.abc import Sequence
from typing import Protocol

from mita.model.audit import AuditEntry


class AuditLog(Protocol):
    """The operations on the audit log. Only operators' acts write to it; jobs never do."""

    async def record_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries; the store sets their `at`. An id that is there already changes nothing.
        The oldest entries beyond `AUDIT_ENTRIES`, and entries older than `AUDIT_KEEP`, are deleted
        (`rules.audit`)."""

    async def audit_page(
        self, after: str | None, limit: int, who: str | None, what: str | None, target: str | None
    ) -> list[AuditEntry]:
        """Return up to `limit` entries that match, newest id first, with ids below `after`. `who`
        and `what` are compared as they are; `target` is searched for in the target. None: any.
        Entries older than `AUDIT_KEEP` are not returned, even if they are not deleted yet."""
