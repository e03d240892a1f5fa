"""What a person asked of a running job comes before what its run came to.

A cancel or a reschedule of a running job is only noted (`Job.asked`). When the run ends, the job
goes where it was asked to go; counters, error and timeline are written as the verdict says. If the
jobs that wait for it know already that it succeeded, it has succeeded (`Verdict.told`). Stores that
settle in SQL or Lua get `STATE_AFTER` as text, so that the rule is stated here alone.
"""

from collections.abc import Mapping

from mita.model.job import Asked, State
from mita.model.outcome import TimelineKind, Verdict

STATE_AFTER: Mapping[Asked, State] = {
    Asked.CANCEL: State.CANCELLED,
    Asked.RESCHEDULE: State.QUEUED,
}


def in_time(asked: Asked | None, verdict: Verdict) -> Asked | None:
    """What was asked of a job while it ran; None if it comes too late."""
    return None if verdict.told else asked


def state_after(asked: Asked | None, verdict: Verdict) -> State:
    """The state of a job whose run ended with this verdict, after what was asked meanwhile."""
    asked = in_time(asked, verdict)
    return verdict.state if asked is None else STATE_AFTER[asked]


def kind_after(asked: Asked | None, verdict: Verdict) -> TimelineKind:
    """The kind of the timeline line for this run. What was asked changes where the job goes, so
    then the timeline says how the run ended even if it ended well. It also says that if what was
    asked came too late."""
    return verdict.event or (TimelineKind.NONE if asked is None else TimelineKind(verdict.state))


def may_ask(before: Asked | None, wanted: Asked) -> bool:
    """Whether this may be asked of a running job of which `before` was asked. A cancel is final."""
    return before is not Asked.CANCEL or wanted is Asked.CANCEL
