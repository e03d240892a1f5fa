"""What the walk draws from: few names and few waits, so that things meet."""

from hypothesis import strategies as st
from msgspec.structs import replace

from mita.model.flow import FlowPlace
from mita.model.gate import Gate, StoredLimit
from mita.model.job import PRIORITIES, NewJob, State, WhenBusy
from mita.model.outcome import (
    CancelJob,
    Change,
    Counter,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    RewriteJob,
    SignalJob,
    Verdict,
)
from mita.model.record import DisplayState
from mita.model.repeat import Repeat, RepeatState
from mita.model.time import HOUR, LATEST, NOW, When
from mita.model.view import JobFilter
from mita.rules.durable import wait_name
from mita.rules.labels import with_tags
from mita.rules.options import with_flow

QUEUES = st.sampled_from([["a"], ["a"], ["a", "b"], ["b", "a"], ["b"]])
LIMITS = st.sampled_from([1, 2, 3, 4, 0])
LEASES = st.sampled_from([20, 100])
KEEPS = st.sampled_from([0, 40, HOUR])
# the whole range, and often one of a few, so that jobs of one priority meet
ANY_PRIORITY = st.integers(PRIORITIES[0], PRIORITIES[-1])
DRAWN_PRIORITIES = st.one_of(*[st.sampled_from([5, 5, 0, 9])] * 3, ANY_PRIORITY)
PICKS = st.lists(st.integers(0, 11), min_size=1, max_size=3)
FIRINGS = st.lists(st.integers(0, 2), max_size=2)
NAMES = st.sampled_from(["x", "y", wait_name("x")])
SIGNALS = st.sampled_from(["x", "x", "y"])

# A moment `at` is a distance from now here; the walk adds its clock.
UNTIL_TOLD = When(at=LATEST)
LATER = [When(10), When(30), When(at=-50), When(at=25), UNTIL_TOLD]
WHENS = st.sampled_from([NOW, NOW, NOW, NOW, NOW, *LATER])
STARTS = st.sampled_from([NOW, NOW, NOW, NOW, NOW, *LATER, UNTIL_TOLD, UNTIL_TOLD])
# the options of a plain job, and of a step of a flow; for a store they are bytes
PLACES = st.sampled_from([b"\x80", b"\x80", with_flow(b"", FlowPlace("f", 2, 2, (), None))])
SENDERS = st.sampled_from(["a", "a", "b", "c"])
TOLD = st.lists(
    st.tuples(st.integers(0, 11), SENDERS, st.sampled_from([b"", b"\x00told"])),
    min_size=1,
    max_size=4,
)

# Each key with a rate has one rate, and is no key of jobs without it: which of two rates a key has
# at a moment is not part of the contract. The other gates share their keys with resources.
RATE = Gate("g", None, 15_000, 2)
RATE_AND_LIMIT = Gate("h", 1, 10_000, 1)
GATES: st.SearchStrategy[tuple[Gate, ...]] = st.sampled_from(
    [
        *[()] * 8,
        *[(RATE,)] * 2,
        (RATE_AND_LIMIT,),
        (Gate("s", 1),),
        (Gate("s", 2), RATE),
        (Gate("q", 1), Gate("r", 1), RATE_AND_LIMIT),
    ]
)
KEYS = st.sampled_from(["r", "r", "r", "s", "q", "g", "h"])
# an operator's limit of a queue, or of a key; only keys with a rate get another
CONCURRENCIES = st.sampled_from([None, None, StoredLimit(0), StoredLimit(1), StoredLimit(2)])
STORED_LIMITS = st.one_of(
    CONCURRENCIES,
    st.sampled_from([StoredLimit(None, 5_000, 1), StoredLimit(2, 20_000, 3)]),
)
LIMITED: st.SearchStrategy[tuple[str | None, StoredLimit | None]] = st.one_of(
    st.tuples(st.none(), STORED_LIMITS),
    st.tuples(st.sampled_from(["g", "h"]), STORED_LIMITS),
    st.tuples(st.sampled_from(["r", "s"]), CONCURRENCIES),
)
AGEINGS = st.sampled_from([None, 10, 40])

_DRAFTS: st.SearchStrategy[NewJob] = st.builds(
    NewJob,
    id=st.just(""),
    task=st.sampled_from(["t", "u"]),
    queue=st.sampled_from(["a", "a", "a", "b"]),
    payload=st.sampled_from([b"", b"\x00\xff"]),
    options=PLACES,
    tags=st.sampled_from([(), (), (), ("x:1",), ("x:1", "y")]),
    headers=st.sampled_from([b"", b"\x80"]),
    priority=DRAWN_PRIORITIES,
    when=STARTS,
    unique=st.sampled_from([None, None, None, "u", "v"]),
    unique_for=st.sampled_from([0, 0, 30]),
    resource=st.sampled_from([None, None, "r", "r", "r", "s"]),
    limit=st.sampled_from([1, 1, 2]),
    when_busy=st.sampled_from(
        [WhenBusy.WAIT, WhenBusy.WAIT, WhenBusy.WAIT, WhenBusy.SKIP, WhenBusy.REPLACE]
    ),
    gates=GATES,
    fair=st.sampled_from([None, None, None, "x", "y", "z"]),
    weight=st.sampled_from([1000, 1000, 1000, 2000, 500]),
    throttle=st.sampled_from([0, 0, 0, 0, 25]),
    debounce=st.sampled_from([0, 0, 0, 15, 30]),
    debounce_max=st.sampled_from([0, 0, 40]),
    fresh=st.booleans(),
)


def _as_a_client_makes_it(draft: NewJob) -> NewJob:
    """The tags of a job are also in its options."""
    return replace(draft, options=with_tags(draft.options, draft.tags)) if draft.tags else draft


DRAFTS = _DRAFTS.map(_as_a_client_makes_it)

BATCHES = st.lists(DRAFTS, min_size=1, max_size=3)

WAITS = st.sampled_from([None, NOW, When(10), When(30)])
ERRORS = st.sampled_from(
    [None, "Boom: %", "Bang: _", 'Bang: no\n  File "a.py", line 1\n    raise Boom("%_")']
)
COUNTERS = st.sampled_from([None, *Counter])
FAILURES = st.sampled_from(["", "shop.Boom: é"])
EVENTS = st.sampled_from(["", "", "told"])
GROUPS = {"t": "0" * 16, "u": "f" * 16}  # of failures, by task: a group has one task

ENDED: st.SearchStrategy[Verdict] = st.builds(
    Verdict,
    state=st.sampled_from([State.FAILED, State.CANCELLED]),
    counts=COUNTERS,
    result=st.sampled_from([None, b"half"]),
    error=ERRORS,
    keep=KEEPS,
    unstarted=st.booleans(),
    event=EVENTS,
    note=st.just("why"),
    failure=FAILURES,
    group=st.sampled_from([None, *GROUPS.values()]),
)
HAPPY: st.SearchStrategy[Verdict] = st.builds(
    Verdict,
    state=st.just(State.SUCCEEDED),
    result=st.sampled_from([b"", b"\x00result"]),
    keep=KEEPS,
    event=EVENTS,
    told=st.sampled_from([False, False, True]),
)
BACK: st.SearchStrategy[Verdict] = st.builds(
    Verdict,
    state=st.just(State.QUEUED),
    when=WAITS,
    counts=COUNTERS,
    error=ERRORS,
    stranded=st.booleans(),
    unstarted=st.booleans(),
    event=EVENTS,
    note=st.just("why"),
    failure=FAILURES,
)
WAITING: st.SearchStrategy[Verdict] = st.builds(
    Verdict,
    state=st.just(State.QUEUED),
    when=st.sampled_from([When(10), When(30), When(HOUR)]),
    waits=SIGNALS,
    event=st.just("waiting"),
)
REFUSED: st.SearchStrategy[Verdict] = st.builds(
    Verdict,
    state=st.just(State.BLOCKED),
    hold=st.sampled_from([NOW, When(20), When(60)]),
    counts=st.just(Counter.BUSY),
    event=st.just("unavailable"),
)
VERDICTS: st.SearchStrategy[Verdict] = st.one_of(HAPPY, HAPPY, ENDED, BACK, BACK, WAITING, REFUSED)
THREE_VERDICTS = st.lists(VERDICTS, min_size=3, max_size=3)

CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(
        RescheduleJob,
        st.sampled_from([NOW, When(10), When(30), When(at=0)]),
        st.sampled_from(["from outside", "by Ada"]),
    ),
    st.builds(CancelJob, keep=KEEPS, reason=st.sampled_from(["", "enough"])),
    st.builds(RetryJob, st.sampled_from([NOW, When(20), UNTIL_TOLD])),
    st.builds(PrioritiseJob, DRAWN_PRIORITIES),
    st.builds(DeleteJob),
    st.builds(SignalJob, SIGNALS, st.sampled_from([b"", b"\x00yes"])),
    st.builds(RewriteJob, st.sampled_from([b"", b"\x91\x01", b"\xc0" * 300]), st.just("by Ada")),
)

FILTERS: st.SearchStrategy[JobFilter] = st.builds(
    JobFilter,
    queue=st.sampled_from([None, None, "a"]),
    task=st.sampled_from([None, None, "t"]),
    state=st.sampled_from([None, None, *State]),
    shown=st.sampled_from([None, None, None, *DisplayState]),
    resource=st.sampled_from([None, None, "r", "s", "g"]),
    unique=st.sampled_from([None, None, None, "u"]),
    repeat=st.sampled_from([None, None, None, "daily"]),
    error=st.sampled_from([None, None, None, "Boom", "%", "_"]),
    tag=st.sampled_from([None, None, None, "x:1"]),
    group=st.sampled_from([None, None, None, "", *GROUPS.values()]),
)

REPEATS: st.SearchStrategy[Repeat] = st.builds(
    Repeat,
    key=st.sampled_from(["daily", "daily", "hourly"]),
    spec=st.sampled_from([b"1", b"2"]),
    cursor=st.sampled_from([-20, 0, 20, None]),  # a distance from now, as above
    state=st.sampled_from([RepeatState.ACTIVE] * 5 + [RepeatState.PARKED]),
    reason=st.sampled_from(["", "why"]),
)
