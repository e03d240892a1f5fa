"""Mita: a durable job queue in which when a job runs is first-class."""

from mita.app import Mita
from mita.errors import JobCancelled, JobFailed, LeaseLost, MitaError, StoreError, UsageError
from mita.model.event import JobEvent
from mita.model.pattern import All, Cron, Every
from mita.model.policy import Retry
from mita.tasks import Abort, Handle, Job, Reschedule, Unavailable

__all__ = [
    "Abort",
    "All",
    "Cron",
    "Every",
    "Handle",
    "Job",
    "JobCancelled",
    "JobEvent",
    "JobFailed",
    "LeaseLost",
    "Mita",
    "MitaError",
    "Reschedule",
    "Retry",
    "StoreError",
    "Unavailable",
    "UsageError",
]
