"""The audit log: a list of entries in the order of their ids."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import islice, takewhile
from operator import attrgetter

from msgspec.structs import replace

from mita.model.audit import AuditEntry
from mita.rules import audit

from .context import MemoryContext

_ID = attrgetter("id")


def record_audit(context: MemoryContext, entries: Sequence[AuditEntry]) -> None:
    """Add entries, and delete the entries that are too many or too old."""
    log = context.state.audit
    for entry in entries:
        at = bisect_left(log, entry.id, key=_ID)
        if at == len(log) or log[at].id != entry.id:
            insort(log, replace(entry, at=context.now), key=_ID)
    del log[: max(0, len(log) - audit.AUDIT_ENTRIES)]
    prune_audit(context)


def audit_page(
    context: MemoryContext,
    after: str | None,
    limit: int,
    who: str | None,
    what: str | None,
    target: str | None,
) -> list[AuditEntry]:
    """The entries that match, newest first, with ids below `after`."""
    found = (
        entry
        for entry in reversed(context.state.audit)
        if (after is None or entry.id < after)
        and audit.is_kept(entry, context.now)
        and audit.matches(entry, who, what, target)
    )
    return list(islice(found, limit))


def prune_audit(context: MemoryContext) -> None:
    """Delete the oldest entries, if they are too old."""
    log = context.state.audit
    old = takewhile(lambda entry: not audit.is_kept(entry, context.now), log)
    del log[: sum(1 for _ in old)]
