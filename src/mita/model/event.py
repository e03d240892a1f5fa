"""What happened to a job, told to whoever listens. (An `Event` is a line of a job's own timeline, in the store.)"""

from enum import StrEnum

from msgspec import Struct

from .time import Moment


class Kind(StrEnum):
    """What happened. Those that end in a terminal state are `succeeded`, `failed` and `cancelled`."""

    ENQUEUED = "enqueued"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRIED = "retried"
    RESCHEDULED = "rescheduled"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    REVIVED = "revived"
    STALE = "stale"
    MISSED = "missed"


class Reason(StrEnum):
    """Why a job was moved in time, which is never a failure."""

    HANDLER = "handler"
    API = "api"
    RESOURCE_BUSY = "resource_busy"
    UNAVAILABLE = "unavailable"
    SHUTDOWN = "shutdown"


class JobEvent(Struct, frozen=True, array_like=True, gc=False):
    """One thing that happened to one job. Never arguments, results or the text of an error.

    `at` is the moment by the store's clock, as well as whoever tells it knows that clock. `attempt` counts from 1. `seconds`
    is how long the run took, `wait` how long until the start (`started`) or until the next try (`retried`). `reason` says
    why a job was rescheduled (`handler`, `api`, `resource_busy`, `unavailable`, `shutdown`).

    `missed` belongs to no job: here `count` events were lost before the next one, 0 when nobody knows how many.
    """

    kind: Kind
    id: str = ""
    task: str = ""
    queue: str = ""
    at: Moment = 0
    worker: str = ""
    attempt: int = 0
    seconds: float = 0.0
    wait: float = 0.0
    reason: str = ""
    count: int = 0
