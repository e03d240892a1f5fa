"""The table of moves, and that everything else keeps to it."""

import re

from hypothesis import given
from hypothesis import strategies as st

from mita.model.ending import Ending
from mita.model.job import Claim, State
from mita.model.outcome import (
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    RewriteJob,
)
from mita.model.time import NOW
from mita.rules.judge import Retention, judge
from mita.rules.states import ALIVE, TABLE, TERMINAL, WAITING, Transition, allowed, as_mermaid, step

from .given import claims, endings

EDGES = {(source, target) for sources, target in TABLE.values() for source in sources}


@given(state=st.sampled_from(State), why=st.sampled_from(Transition))
def test_a_step_leads_where_the_table_says_and_nowhere_else(state: State, why: Transition) -> None:
    sources, target = TABLE[why]
    assert step(state, why) == (target if state in sources else None)


def test_every_step_is_in_the_table_and_every_state_on_the_map() -> None:
    assert set(TABLE) == set(Transition)
    assert {state for edge in EDGES for state in edge} == set(State)
    assert set(State) == ALIVE | TERMINAL
    assert not ALIVE & TERMINAL
    assert WAITING < ALIVE


def test_every_state_can_be_reached_from_the_queue() -> None:
    reached = {State.QUEUED}
    for _ in State:
        reached |= {target for source, target in EDGES if source in reached}
    assert reached == set(State)


def test_every_living_job_can_still_end() -> None:
    """I1"""
    ends = set(TERMINAL)
    for _ in State:
        ends |= {source for source, target in EDGES if target in ends}
    assert ends == set(State)


def test_only_a_person_leads_out_of_a_terminal_state_and_out_of_success_nobody() -> None:
    """I10"""
    out = {why for why, (sources, _) in TABLE.items() if sources & TERMINAL}
    assert out == {Transition.REVIVE}
    assert State.SUCCEEDED not in TABLE[Transition.REVIVE][0]


def test_success_and_failure_come_out_of_a_run_and_of_nothing_else() -> None:
    """I2"""
    for target in (State.SUCCEEDED, State.FAILED):
        assert {source for source, to in EDGES if to == target} == {State.RUNNING}


@given(claim=claims(), ending=endings(), roll=st.floats(0, 1))
def test_every_verdict_leads_along_the_table(claim: Claim, ending: Ending, roll: float) -> None:
    verdict = judge(claim, ending, Retention(), roll)
    assert (State.RUNNING, verdict.state) in EDGES


def test_every_change_is_allowed_where_the_table_has_a_way_for_it() -> None:
    def sources(why: Transition) -> frozenset[State]:
        return TABLE[why][0]

    changes: dict[type, tuple[Change, frozenset[State]]] = {
        RescheduleJob: (
            RescheduleJob(NOW),
            sources(Transition.RESCHEDULE) | sources(Transition.REVIVE),
        ),
        CancelJob: (CancelJob(keep=0), sources(Transition.CANCEL)),
        RetryJob: (RetryJob(NOW), sources(Transition.REVIVE)),
        PrioritiseJob: (PrioritiseJob(1), ALIVE),
        RewriteJob: (RewriteJob(b""), (ALIVE - {State.RUNNING}) | sources(Transition.REVIVE)),
    }
    for change, states in changes.values():
        assert allowed(change) == states
        assert State.SUCCEEDED not in allowed(change)
    assert allowed(DeleteJob()) == TERMINAL


def test_the_picture_is_the_table() -> None:
    lines = as_mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    drawn = {
        match.groups()
        for line in lines
        if (match := re.fullmatch(r" +(\w+) --> (\w+): (\w+)", line))
    }
    assert drawn == {
        (source, target, why)
        for why, (sources, target) in TABLE.items()
        for source in sources
        if source != target
    }
    pruned = {
        match[1]
        for line in lines
        if (match := re.fullmatch(r" +(\w+) --> \[\*\]: prune, delete", line))
    }
    assert pruned == TERMINAL
    assert "    [*] --> queued: enqueue" in lines
    assert len(lines) == len(set(lines)) == 2 + len(drawn) + len(TERMINAL)
