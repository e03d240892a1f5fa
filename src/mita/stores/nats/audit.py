"""The audit log: one message for each entry.

Entries whose ids begin alike, which is about five hours, share a subject. So the server's list of
these subjects is short, and it says how many entries each has."""

from collections.abc import Iterator, Sequence

from mita.errors import StoreError
from mita.model.audit import AuditEntry
from mita.rules import audit
from mita.stores.shared.audit import as_entry, pack_entry

from .client.errors import refused
from .client.messages import OutMessage
from .codec import AuditRecord, pack
from .context import NatsContext
from .stream.decode import decode_audit
from .stream.job_records import TTL, whole_seconds
from .stream.reader import StoredMessage
from .stream.removal import remove
from .stream.subjects import RecordKind

REMOVED_ENTRIES = 1000  # in one call


async def record_audit(context: NatsContext, entries: Sequence[AuditEntry]) -> None:
    """Add entries. The server deletes them when they are too old, and this the oldest of too
    many."""
    now, headers = context.clock.now(), TTL % whole_seconds(audit.AUDIT_KEEP)
    await context.wire.store(
        [
            OutMessage(
                context.subjects.audit(entry.id),
                pack(AuditRecord(entry.id, now, pack_entry(entry))),
                headers,
            )
            for entry in entries
        ]
    )
    counts = await _counts(context)
    surplus = sum(counts.values()) - audit.AUDIT_ENTRIES
    for subject in sorted(counts):
        if surplus <= 0:
            return
        oldest, _ = await context.reader.slice(subject, 1, min(surplus, REMOVED_ENTRIES))
        surplus -= await remove(context, [message.seq for message in oldest])


async def audit_page(
    context: NatsContext,
    after: str | None,
    limit: int,
    who: str | None,
    what: str | None,
    target: str | None,
) -> list[AuditEntry]:
    """The entries that match, newest first, with ids below `after`. Five hours are read at a time;
    with a filter, that may be all of the log."""
    last = audit.AFTER_ALL if after is None else context.subjects.audit(after)
    found: list[AuditEntry] = []
    for subject in sorted((one for one in await _counts(context) if one <= last), reverse=True):
        messages = [message async for slice in context.reader.scan(subject) for message in slice]
        # one may have been sent twice: the first counts
        entries = {entry.id: entry for entry in _entries(messages[::-1])}
        found += [
            entry
            for entry in sorted(entries.values(), key=lambda entry: entry.id, reverse=True)
            if (after is None or entry.id < after)
            and audit.is_kept(entry, context.clock.now())
            and audit.matches(entry, who, what, target)
        ]
        if len(found) >= limit:
            break
    return found[:limit]


def _entries(messages: Sequence[StoredMessage]) -> Iterator[AuditEntry]:
    for message in messages:
        record = decode_audit(message.body)
        if record is None:
            yield as_entry(f"{message.subject.rsplit('.', 1)[1]}-{message.seq}", 0, message.body)
        else:
            yield as_entry(record.id, record.at, record.entry)


async def _counts(context: NatsContext) -> dict[str, int]:
    """How many entries there are on each subject of the audit log."""
    wanted = {"subjects_filter": context.subjects.all(RecordKind.AUDIT)}
    info = await context.wire.api(f"STREAM.INFO.{context.subjects.stream}", wanted)
    if problem := info.get("error"):
        raise refused(problem.get("err_code", 0), problem.get("description", ""))
    try:
        return dict(info["state"].get("subjects") or {})
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"NATS gave an answer that makes no sense: {error}") from error
