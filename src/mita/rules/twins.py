"""What an enqueue does whose unique key another job has: its twin.

- A plain unique key: nothing is stored, and the caller gets the twin.
- `debounce`: a twin that waits is moved and gets the newest arguments. A twin that runs has begun
  with older arguments, so a new job is stored and takes the key over.
- `throttle`: the key is taken for that long from the enqueue, whatever becomes of the job.
"""

from enum import StrEnum

from mita.model.job import NewJob, State
from mita.model.time import Moment

from .states import WAITING


class TwinAct(StrEnum):
    """What happens to a new job and its twin."""

    KEEP = "keep"  # the twin stays as it is, and the new job is not stored
    MOVE = "move"  # the twin gets the new arguments and due time; the new job is not stored
    REPLACE = "replace"  # the new job is stored and takes the key; the twin goes on without it


def act_on_twin(new: NewJob, twin: State) -> TwinAct:
    """What an enqueue does whose key belongs to a job in this state."""
    if not new.debounce:
        return TwinAct.KEEP
    if twin in WAITING:
        return TwinAct.MOVE
    return TwinAct.REPLACE if twin is State.RUNNING else TwinAct.KEEP


def debounced_due(new: NewJob, created: Moment, now: Moment) -> Moment:
    """When a twin that was created then is due after one more enqueue: `debounce` from now, but
    not later than `debounce_max` after it was created, and never in the past."""
    due = now + new.debounce
    if new.debounce_max:
        due = min(due, created + new.debounce_max)
    return max(now, due)
