"""The plan of a flow: who tells whom, for flows of any shape."""

from hypothesis import given
from hypothesis import strategies as st

from mita.model.flow import MOST_PREDECESSORS
from mita.model.job import State
from mita.rules.flow import (
    Told,
    number_of,
    pack_told,
    read_told,
    receivers,
    step_id,
    together,
    told_to_counter,
)
from mita.rules.flow_plan import PlannedJob, PlannedStep, merged, plan

RESULTS = st.tuples(st.integers(0, 50), st.binary(max_size=3))


@st.composite
def shapes(draw: st.DrawFn) -> list[PlannedStep]:
    """Random flows: each step may wait for any of the steps before it."""
    steps: list[PlannedStep] = []
    for number in range(1, draw(st.integers(1, 40)) + 1):
        before = st.lists(st.integers(1, number - 1), unique=True) if number > 1 else st.just([])
        predecessors = draw(before)
        wanted = frozenset(one for one in predecessors if draw(st.booleans()))
        queue, always = draw(st.sampled_from("ab")), draw(st.booleans())
        steps.append(PlannedStep(queue, predecessors, wanted, always))
    return steps


def sent(jobs: list[PlannedJob]) -> dict[int, list[int]]:
    """Which numbers tell each number."""
    tells: dict[int, list[int]] = {}
    for job in jobs:
        for dependants in job.place.dependants:
            for receiver in range(dependants.first, dependants.last + 1):
                tells.setdefault(receiver, []).append(job.place.number)
    return tells


@given(steps=shapes())
def test_every_job_is_told_by_as_many_as_it_needs(steps: list[PlannedStep]) -> None:
    _, jobs = plan("f", "name", steps)
    told = sent(jobs)
    for job in jobs:
        from_counters = sum(
            one.place.counter is not None and one.place.counter.first == job.place.number
            for one in jobs
        )
        assert len(told.get(job.place.number, [])) + from_counters == job.place.needs


@given(steps=shapes())
def test_no_job_is_stored_before_those_that_it_tells(steps: list[PlannedStep]) -> None:
    """If the enqueue stops in the middle, no job that can start is without its dependants."""
    _, jobs = plan("f", "name", steps)
    startable = [not job.place.needs for job in jobs]
    assert startable == sorted(startable)


@given(steps=shapes())
def test_small_flows_have_no_jobs_in_between(steps: list[PlannedStep]) -> None:
    spec, jobs = plan("f", "name", steps)
    assert len(jobs) == spec.needs == len(steps)
    assert all(job.place.counter is not None and job.place.counter.first == 0 for job in jobs)


def test_a_large_group_is_gathered_in_a_tree() -> None:
    """No job has more predecessors than allowed, and the number of jobs in between is small."""
    members = 10_000
    steps = [PlannedStep("a", []) for _ in range(members)]
    everyone = list(range(1, members + 1))
    steps.append(PlannedStep("b", everyone, frozenset(everyone)))
    spec, jobs = plan("f", "name", steps)
    assert max(job.place.needs for job in jobs) <= MOST_PREDECESSORS
    assert spec.needs <= MOST_PREDECESSORS
    assert len(jobs) - len(steps) < len(steps) * 0.03
    callback = next(job for job in jobs if job.place.number == members + 1)
    assert callback.place.needs == 100
    places = sorted(
        to.place for job in jobs for to in job.place.dependants if to.first == members + 1
    )
    assert places == list(range(0, members, MOST_PREDECESSORS))


def test_a_fan_out_is_one_entry() -> None:
    steps = [PlannedStep("a", []), *(PlannedStep("a", [1], frozenset({1})) for _ in range(9999))]
    _, jobs = plan("f", "name", steps)
    first = next(job for job in jobs if job.place.number == 1)
    assert [(one.first, one.last) for one in first.place.dependants] == [(2, 10_000)]


@given(steps=shapes())
def test_merged_dependants_are_the_same_ids(steps: list[PlannedStep]) -> None:
    _, jobs = plan("f", "name", steps)
    for job in jobs:
        one_by_one = [id for to in job.place.dependants for id in receivers("f", to)]
        assert len(one_by_one) == len(set(one_by_one))
        assert merged(job.place.dependants) == job.place.dependants


@given(number=st.integers(0, 999_999))
def test_ids_of_steps(number: int) -> None:
    id = step_id("0" * 32, number)
    assert number_of("0" * 32, id) == number
    assert id == "0" * 32 if number == 0 else id > "0" * 32


@given(told=st.lists(RESULTS, unique_by=lambda one: one[0]))
def test_results_come_together_in_the_order_of_their_places(told: list[tuple[int, bytes]]) -> None:
    """However they are grouped on the way."""
    all_told = [Told(place, (result,)) for place, result in told]
    half = sorted(all_told, key=lambda one: one.place)[: len(all_told) // 2]
    rest = [one for one in all_told if one not in half]
    groups = [together(group) for group in (rest, half) if group]
    assert together(groups).results == together(all_told).results
    assert read_told(pack_told(together(groups))) == together(groups)


@given(states=st.lists(st.sampled_from([State.SUCCEEDED, State.FAILED, State.CANCELLED])))
def test_a_counter_counts_every_step_once(states: list[State]) -> None:
    all_told = together(told_to_counter(n, state) for n, state in enumerate(states, 1))
    counted = all_told.succeeded + len(all_told.failed) + len(all_told.cancelled)
    assert counted == len(states)
    assert all(states[n - 1] is State.FAILED for n in all_told.failed)
