"""The table of state changes. The guards in the stores, the diagram in the docs and the tests come
from it: stores that write SQL or Lua fill the lists of states in as text when they load it."""

from enum import StrEnum

from mita.model.job import State
from mita.model.outcome import (
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    RewriteJob,
    SignalJob,
)

Q, B, R = State.QUEUED, State.BLOCKED, State.RUNNING
WAITING = frozenset({Q, B})
ALIVE = frozenset({Q, B, R})
DEAD = frozenset({State.FAILED, State.CANCELLED})  # can be retried
TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


class Transition(StrEnum):
    """Why a job changes its state."""

    CLAIM = "claim"
    BLOCK = "block"
    WAKE = "wake"
    SKIP = "skip"
    SUCCEED = "succeed"
    RETRY = "retry"
    RESCHEDULE = "reschedule"
    RELEASE = "release"
    REFUSE = "refuse"
    FAIL = "fail"
    CANCEL = "cancel"
    REVIVE = "revive"


TABLE: dict[Transition, tuple[frozenset[State], State]] = {
    Transition.CLAIM: (frozenset({Q}), R),
    Transition.BLOCK: (frozenset({Q}), B),
    Transition.WAKE: (frozenset({B}), Q),
    Transition.SKIP: (WAITING, State.CANCELLED),
    Transition.SUCCEED: (frozenset({R}), State.SUCCEEDED),
    Transition.RETRY: (frozenset({R}), Q),
    Transition.RESCHEDULE: (ALIVE, Q),
    Transition.RELEASE: (frozenset({R}), Q),
    Transition.REFUSE: (frozenset({R}), B),
    Transition.FAIL: (frozenset({R}), State.FAILED),
    Transition.CANCEL: (ALIVE, State.CANCELLED),
    Transition.REVIVE: (DEAD, Q),
}


def step(state: State, why: Transition) -> State | None:
    """The state that `why` leads to from here; None when it does not lead anywhere."""
    sources, target = TABLE[why]
    return target if state in sources else None


AMENDABLE: dict[type[Change], frozenset[State]] = {
    RescheduleJob: TABLE[Transition.RESCHEDULE][0] | TABLE[Transition.REVIVE][0],
    CancelJob: TABLE[Transition.CANCEL][0],
    RetryJob: TABLE[Transition.REVIVE][0],
    PrioritiseJob: ALIVE,
    DeleteJob: TERMINAL,
    SignalJob: ALIVE,
    RewriteJob: WAITING | DEAD,
}


def allowed(change: Change) -> frozenset[State]:
    """The states in which a person may ask for this change."""
    return AMENDABLE[type(change)]


def sources(why: Transition) -> frozenset[State]:
    """The states from which this step leads on."""
    return TABLE[why][0]


def as_mermaid() -> str:
    """The table as a picture."""
    lines = ["stateDiagram-v2", "    [*] --> queued: enqueue"]
    lines += [
        f"    {source} --> {target}: {why}"
        for why, (sources, target) in TABLE.items()
        for source in sorted(sources)
        if source != target
    ]
    lines += [f"    {state} --> [*]: prune, delete" for state in sorted(TERMINAL)]
    return "\n".join(lines)
