"""Bulk runs: changes of many jobs that a job of Mita itself makes, as people see them and as they
are stored."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from .job import State
from .record import DisplayState
from .time import Moment

BulkVerb: TypeAlias = Literal["retry", "cancel", "reschedule", "delete", "amend"]
"""What a bulk run does with each of its jobs."""


class ChosenJob(Struct, frozen=True, array_like=True):
    """A job that a bulk run will change, as it was when it was chosen. `finished` is None for a job
    that had not ended."""

    id: str
    state: State
    token: int = 0
    finished: Moment | None = None
    reschedules: int = 0


class ChosenJobs(Struct, frozen=True):
    """What a bulk run has chosen: how many jobs, and how many chunks they are stored in."""

    total: int
    chunks: int


class BulkRecord(Struct, frozen=True, kw_only=True):
    """A bulk run at one point in time. `filters` chose the jobs, and `rate` is how many it changes
    in a second (None: as fast as the store allows).

    `total` is None until the jobs are chosen. `done` of them were looked at, and `answers` counts
    what came of it: the values of `Answer`, and `refused` for arguments that do not fit a job;
    `refusal` says why the first one was refused. A run that waits at first has no `started`.
    `error` is why it failed. A record that this app cannot read has an empty `verb`."""

    id: str
    verb: BulkVerb | Literal[""]
    state: DisplayState
    created: datetime
    filters: dict[str, str] = {}
    rate: float | None = None
    reason: str = ""
    total: int | None = None
    done: int = 0
    answers: dict[str, int] = {}
    refusal: str = ""
    started: datetime | None = None
    finished: datetime | None = None
    error: str | None = None

    @property
    def changed(self) -> int:
        """How many jobs were changed, or will be when their run ends."""
        return self.answers.get("done", 0) + self.answers.get("asked", 0)


class BulkPage(Struct, frozen=True):
    """Bulk runs, newest first. `after` is the argument that gets the next page; None on the last
    page."""

    bulks: tuple[BulkRecord, ...]
    after: str | None = None
