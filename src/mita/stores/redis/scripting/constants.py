"""What the scripts take over from the rules and the model.

In the text of a script `State.RUNNING` stands for `'running'`, and so for every enum in `ENUMS`; a
name of `NUMBERS`, `TEXTS` or `RULES` stands for its value. `RULES` are tables that Lua looks up:
what a change may be asked of, what was asked first, and the busy policy. Lua makes such a table
where it is used, and only then. `SETS` are needed more often, and made once in a call."""

from typing import Any

from mita.model.gate import LONGEST_INTERVAL_US, MOST_HOLDERS
from mita.model.history import HOURS_KEPT_MS, MINUTES_KEPT_MS
from mita.model.job import (
    DEFAULT_PRIORITY,
    NORMAL_WEIGHT_THOUSANDTHS,
    PRIORITIES,
    Asked,
    State,
    WhenBusy,
)
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    Held,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    RewriteJob,
    SignalJob,
    TimelineKind,
)
from mita.model.record import DisplayState
from mita.model.repeat import RepeatState
from mita.model.time import HOUR, LATEST, MINUTE
from mita.ports.store import ASKED, REPEATS
from mita.rules.asked import STATE_AFTER, may_ask
from mita.rules.busy import (
    BUSY_NOTE,
    BUSY_POLICIES,
    BUSY_RETENTION,
    RATE_POLICY,
    REPLACED_NOTE,
    BusyPolicy,
)
from mita.rules.durable import ARRIVAL, SIGNAL, WAIT
from mita.rules.gates import ONE_MS_US
from mita.rules.readable import SET_ASIDE_KEEP, unreadable
from mita.rules.shares import NO_GROUP, TURN_STEPS
from mita.rules.states import AMENDABLE, DEAD, TERMINAL, WAITING
from mita.rules.timeline import TIMELINE_LINES
from mita.stores.shared.record import COUNTERS

from .lua_text import as_lua
from .record_layout import LUA_CONSTANTS, live_defaults

CALL_ITEMS = 1000  # the most items in one call, and the most jobs that one claim looks at
# What tests make smaller, so that few jobs reach every branch.
SIZES = {
    "SMALLEST_BATCH_JOBS": 8,  # so many jobs of one claim get one lease together
    "SHORT_LIST_JOBS": 128,  # up to this length a job is searched in a list and taken out
}
ENUMS = (State, DisplayState, Asked, WhenBusy, TimelineKind, Answer, Held, RepeatState)
NUMBERS = {
    "CALL_ITEMS": CALL_ITEMS,
    "ENOUGH_STARTS": 32,  # a claim that has started and turned away so many looks no further
    "WOKEN_KEYS": 200,  # the most keys with a rate that one call wakes; the next call goes on
    "TIMELINE_LINES": TIMELINE_LINES,
    "LATEST": LATEST,  # the due time of a job that waits for others or for a signal
    "DEFAULT_PRIORITY": DEFAULT_PRIORITY,
    "LOWEST_PRIORITY": PRIORITIES[0],
    "HIGHEST_PRIORITY": PRIORITIES[-1],
    "ZERO_BYTE": ord("0"),  # stands for priority 0 in the text of the used priorities
    "BUSY_RETENTION_MS": BUSY_RETENTION,
    "SET_ASIDE_RETENTION_MS": SET_ASIDE_KEEP,
    "PAGE_INDEX_RETENTION_MS": 600_000,  # how long ids stay sorted after a page was read
    "CALL_RETENTION_MS": 600_000,  # how long the answer to a call is kept for a repetition
    "MINUTE_MS": MINUTE,
    "HOUR_MS": HOUR,
    "MINUTES_KEPT_MS": MINUTES_KEPT_MS,
    "HOURS_KEPT_MS": HOURS_KEPT_MS,
    "MOST_HOLDERS": MOST_HOLDERS,
    "LONGEST_INTERVAL_US": LONGEST_INTERVAL_US,
    "ONE_MS_US": ONE_MS_US,
    "ONE_TURN": TURN_STEPS * NORMAL_WEIGHT_THOUSANDTHS,  # divided by the weight of a job
    "NORMAL_WEIGHT": NORMAL_WEIGHT_THOUSANDTHS,
    "LARGEST_NUMBER": 2**53 - 1,  # the largest whole number that a double holds exactly
}
# What of flow control a queue uses: letters in its `meta` (`lua/include/flow.lua`).
USES = {
    "LIMITED": "q",  # the queue has a limit
    "KEY_LIMITS": "k",  # a key has a limit that an operator has set
    "RATES": "r",  # a job with a rate has started, or waits
    "GROUPS": "g",  # a job with `fair` was enqueued
}
TEXTS = {
    "ASKED_TOPIC": ASKED,
    "REPEATS_TOPIC": REPEATS,
    "BUSY_NOTE": BUSY_NOTE,
    "RATE_NOTE": RATE_POLICY.why,
    "REPLACED_NOTE": REPLACED_NOTE,
    "ARRIVAL_PREFIX": ARRIVAL,
    "SIGNAL_PREFIX": SIGNAL,
    "WAIT_PREFIX": WAIT,
    "NO_GROUP": NO_GROUP,
    **USES,
    "UNREADABLE_ERROR": unreadable("its record cannot be read"),
}
_CHANGES: dict[str, type[Change]] = {
    "reschedule": RescheduleJob,
    "cancel": CancelJob,
    "retry": RetryJob,
    "prioritise": PrioritiseJob,
    "delete": DeleteJob,
    "signal": SignalJob,
    "rewrite": RewriteJob,
}


def _set(states: Any) -> dict[str, bool]:
    return {state.value: True for state in sorted(states)}


def _policy(policy: BusyPolicy) -> dict[str, Any]:
    return {
        "state": policy.state.value,
        "line": policy.line.value,
        "ends": policy.ends,
        "replaces": policy.replaces,
    }


SETS = {"STATES": _set(State), "ENDED": _set(TERMINAL)}
RULES: dict[str, Any] = {
    "REVIVABLE": _set(DEAD),
    "AMENDABLE": {name: _set(AMENDABLE[change]) for name, change in _CHANGES.items()},
    "STATE_AFTER": {asked.value: state.value for asked, state in STATE_AFTER.items()},
    "MAY_ASK": {
        before.value: {wanted.value: may_ask(before, wanted) for wanted in Asked}
        for before in Asked
    },
    "BUSY_POLICIES": {when.value: _policy(policy) for when, policy in BUSY_POLICIES.items()},
    "RATE_POLICY": _policy(RATE_POLICY),
    "MOVED_BY_DEBOUNCE": _set(WAITING),
    "COUNTERS": list(COUNTERS),
    "LIVE_DEFAULTS": list(live_defaults().values()),
}


def sets_as_lua() -> str:
    """One line for each set. A script keeps the sets that it names."""
    return "".join(f"local {name} = {as_lua(states)}\n" for name, states in SETS.items())


def replacements() -> dict[str, str]:
    """The text of Lua for every name of an enum, a number or a text."""
    named = {
        f"{kind.__name__}.{member.name}": as_lua(member.value) for kind in ENUMS for member in kind
    }
    values = {**LUA_CONSTANTS, **NUMBERS, **SIZES, **TEXTS}
    rules = {name: f"({as_lua(table)})" for name, table in RULES.items()}
    return named | rules | {name: as_lua(value) for name, value in values.items()}
