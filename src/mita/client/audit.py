"""The audit log of an app: `app.acting`, and reading the log."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from mita.errors import UsageError
from mita.model.audit import AuditEntry, AuditLine, AuditPage
from mita.ports.store import Store
from mita.rules.display import as_datetime
from mita.twins import RunSync, sync_twin

from .acting import Actor, AuditRecorder
from .filters import cursor, page_size


class Auditing:
    """The methods of an app for its audit log."""

    _store: Callable[[], Awaitable[Store]]
    _run_sync: RunSync
    _recorder: AuditRecorder

    @contextmanager
    def acting(self, who: str, why: str = "", via: str = "api") -> Iterator[None]:
        """Until the end of the block, record in the audit log what is changed through this app:
        `with app.acting("ada", "incident 7"): await app.pause("mail")`. It holds for the current
        task and the tasks that it starts, and for `_sync` methods; other tasks and threads are not
        affected. `who` acts, `why` is the reason, `via` says through what: `api`, `cli` or `web`.

        Each verb of an operator writes one entry when it is over, also if it was refused: enqueue,
        cancel, retry, reschedule, signal, delete, prioritise, their bulk forms, pause, resume,
        hold, unhold, limits, repeats and flows. Entries never hold arguments of jobs or values of
        signals. Raises `UsageError` if `who` or `via` is not a text, or empty."""
        for name, text in (("who", who), ("via", via)):
            if not isinstance(text, str) or not text.strip():
                raise UsageError(f"acting({name}={text!r}): give a name that the audit log keeps")
        if not isinstance(why, str):
            raise UsageError(f"acting(why={why!r}): give a text")
        with self._recorder.acting(Actor(who, via, why)):
            yield

    async def audit(
        self,
        *,
        after: str | None = None,
        limit: int = 50,
        who: str | None = None,
        what: str | None = None,
        target: str | None = None,
    ) -> AuditPage:
        """Return a page of at most `limit` entries of the audit log, newest first. `after` is the
        `after` of the page before. `who` and `what` choose the entries of one person and of one
        verb; `target` is searched for in the target (`mail`, or the id of a job). Raises
        `UsageError` if `after` is no id, or `limit` is not from 1 to 1,000."""
        size = page_size(limit)
        store = await self._store()
        found = await store.audit_page(cursor(after), size + 1, who, what, target)
        lines = tuple(map(_line, found[:size]))
        return AuditPage(lines, lines[-1].id if len(found) > size else None)

    audit_sync = sync_twin(audit)


def _line(entry: AuditEntry) -> AuditLine:
    return AuditLine(
        id=entry.id,
        at=as_datetime(entry.at),
        who=entry.who,
        via=entry.via,
        what=entry.what,
        target=entry.target,
        why=entry.why,
        count=entry.count,
        result=entry.result,
        details=entry.details,
    )
