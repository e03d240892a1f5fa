"""What the parts of one worker share."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mita.events import Emit
from mita.model.time import Wait
from mita.ports.clock import StoreClock
from mita.ports.store import Store
from mita.rules.judge import Retention
from mita.settings import WorkerSettings
from mita.tasks import Task

from .run_tally import RunTally
from .shared_values import SharedValues


class WorkerContext(Struct, frozen=True, kw_only=True):
    """The store of one worker, what it runs and how, and where it reports what happens. `id` is new
    for each start of a worker; `lease` is that of the settings in milliseconds; `shared` are the
    values that its runs share; `tally` counts them."""

    id: str
    store: Store
    tasks: Mapping[str, Task[Any, Any]]
    settings: WorkerSettings
    lease: Wait
    retention: Retention
    clock: StoreClock
    emit: Emit
    shared: SharedValues
    tally: RunTally = field(default_factory=RunTally)
