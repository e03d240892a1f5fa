"""What all runs of one worker share, and why a run is stopped."""

import asyncio
import threading
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Protocol

from mita.events import Emit
from mita.model.job import Claim
from mita.model.time import Moment, Wait
from mita.ports.store import Store
from mita.rules.expiry import milliseconds
from mita.rules.judge import Retention
from mita.tasks import Task
from mita.traces import tracer

from .shared_values import SharedValues


class Stop(Enum):
    """Why a run is being stopped from outside."""

    CANCELLED = auto()
    TIMED_OUT = auto()
    LOST = auto()
    SHUTDOWN = auto()
    STORE_AWAY = auto()


class RunContext:
    """What all runs of one worker share. `completed` has the claims that a handler settled in its
    own transaction."""

    __slots__ = (
        "completed",
        "emit",
        "keep",
        "lease",
        "loop",
        "room",
        "shared",
        "store",
        "tasks",
        "thread",
        "tracer",
        "worker",
    )

    def __init__(
        self,
        store: Store,
        keep: Retention,
        lease: Wait,
        tasks: Mapping[str, Task[Any, Any]],
        emit: Emit,
        shared: SharedValues,
    ) -> None:
        self.tasks = tasks
        self.shared = shared
        self.emit = emit
        self.store = store
        self.room = store.room
        self.keep = keep
        self.lease = lease
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.completed: set[tuple[str, int]] = set()
        self.tracer = tracer()  # set again for each batch of claims
        self.worker = ""  # its id

    def now(self, claim: Claim, spent: float) -> Moment:
        """The store's time, as far as a run knows it that claimed its job `spent` seconds ago."""
        return claim.at + milliseconds(spent)

    def was_completed(self, claim: Claim) -> bool:
        """Whether the handler settled this claim in its own transaction. Returns True once, and
        then forgets it."""
        key = claim.id, claim.token
        if key in self.completed:
            self.completed.remove(key)
            return True
        return False


class Halted(Protocol):
    """The run of a task with dependencies or middleware. `failure` is an error that one of them
    raised, and which."""

    is_cleaning_up: bool
    failure: tuple[BaseException, str] | None

    def halt(self) -> None:
        """The run must stop: cancel what it waits for on the event loop."""
