"""How a run ended, before anything was decided about its job."""

from typing import TypeAlias

from msgspec import Struct

from .flow import AddedSteps
from .time import Wait, When


class Returned(Struct, frozen=True, tag=True, gc=False):
    """The handler returned a value (packed), and may have `added` steps to its flow."""

    result: bytes
    added: AddedSteps | None = None


class Raised(Struct, frozen=True, tag=True):
    """The handler raised an error. `final`: do not retry. `wait`: the delay that the task's own
    backoff function chose."""

    error: str
    final: bool = False
    wait: Wait | None = None


class TimedOut(Struct, frozen=True, tag=True):
    """The handler ran longer than its timeout."""

    seconds: float


class Rescheduled(Struct, frozen=True, tag=True):
    """The handler asked to run again at another time."""

    when: When
    reason: str = ""


class Suspended(Struct, frozen=True, tag=True):
    """The handler sleeps, or waits for a signal: it runs again from its top at that time, or when
    the signal comes. `waits` is the name of the signal; None: it sleeps."""

    when: When
    waits: str | None = None


class ResourceUnavailable(Struct, frozen=True, tag=True):
    """The handler raised `Unavailable`: no job with this resource key can run until then."""

    when: When
    reason: str = ""


# why a run was interrupted
SHUT_DOWN = "the worker shut down"
STORE_AWAY = "the store was unreachable"


class Interrupted(Struct, frozen=True, tag=True):
    """The worker is shutting down, or its store was unreachable for too long. If the handler had
    not `started`, nothing is counted."""

    started: bool
    reason: str = SHUT_DOWN


class Lost(Struct, frozen=True, tag=True):
    """The lease expired: the worker that had the job died or was cut off from the store."""


class Died(Struct, frozen=True, tag=True):
    """The process that the handler ran in died; its worker is alive."""

    reason: str


class Stopped(Struct, frozen=True, tag=True):
    """A person cancelled the job while it ran, and the handler stopped."""


class Unreadable(Struct, frozen=True, tag=True):
    """The arguments in the store cannot be decoded."""

    error: str


class Unknown(Struct, frozen=True, tag=True):
    """This worker has no task of this name."""


class Expired(Struct, frozen=True, tag=True):
    """The claim came later than `expires` allows, so the handler was not started."""


class PastDeadline(Struct, frozen=True, tag=True):
    """The deadline of the job was over when the claim could start, so the handler was not
    started."""


Ending: TypeAlias = (
    Returned
    | Raised
    | TimedOut
    | Rescheduled
    | Suspended
    | ResourceUnavailable
    | Interrupted
    | Lost
    | Died
    | Stopped
    | Unreadable
    | Unknown
    | Expired
    | PastDeadline
)
