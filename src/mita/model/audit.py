"""The audit log: who changed what, when, and why."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from .time import Moment


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change that a person made, or tried to make.

    `id` is made by the writer and sorts by time, as ids of jobs do; `at` is set by the store. `who`
    made the change, `via` says through what (`api`, `cli` or `web`), and `why` is the reason that
    was given. `what` is the verb (`retry`, `pause`, …), `target` what it was applied to (`job 01…`,
    `queue mail`). `count` is how many jobs it changed. `result` is `done`, `too late`, `refused: …`
    and so on. `details` are further facts; never arguments of jobs, never values of signals."""

    id: str
    at: Moment = 0
    who: str
    via: str
    what: str
    target: str
    why: str = ""
    count: int = 0
    result: str = "done"
    details: dict[str, Any] = {}


class AuditLine(Struct, frozen=True, kw_only=True):
    """One entry of the audit log as people see it. `at` is in UTC; the other fields are those of
    `AuditEntry`."""

    id: str
    at: datetime
    who: str
    via: str
    what: str
    target: str
    why: str
    count: int
    result: str
    details: dict[str, Any]


class AuditPage(Struct, frozen=True):
    """Entries of the audit log, newest first. `after` is the argument that gets the next page; None
    on the last page."""

    entries: tuple[AuditLine, ...]
    after: str | None = None
