"""Flows: which job tells which, and what becomes of a job whose predecessors have ended.

A flow is a job of its own, and each of its steps is one. The id of a step is that of its flow with
a number. A job that ends tells its dependants (`Arrival`). A dependant is due when all of its
predecessors have told it that they succeeded. If one of them fails or is cancelled, it is cancelled
at once, and so are its own dependants. A job with `always` is told however its predecessors end.

Every step also tells the *counter* of the flow that it has ended. When all have, the flow's own job
is due, and ends as its steps did.

A job with many predecessors would be written by all of them. So from 101 predecessors on they are
gathered by jobs in between (`gather`), each for 100 of them.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mita.model.flow import MOST_PREDECESSORS, Dependants, FlowPlace
from mita.model.job import State
from mita.model.time import MINUTE, SECOND, Wait

FLOW_TASK = "mita.flow"  # the job of a flow
GATHER_TASK = "mita.gather"  # a job that gathers others
FLOW_TASKS = frozenset({FLOW_TASK, GATHER_TASK})
CHILD = "child:"  # so the names of signals of children begin
FLOW_PRIORITY = 9  # these jobs take no time, and others wait for them
_ID_DIGITS = 6
_FIRST_PATROL: Wait = 30 * SECOND
_LONGEST_PATROL: Wait = 60 * MINUTE

T = TypeVar("T")
Numbers: TypeAlias = tuple[int, ...]  # of steps


class Told(Struct, frozen=True, array_like=True, gc=False):
    """What a job tells another one.

    To a dependant: the `results` (packed), of which the first has this `place`, or with `always`
    how each job `ended`. To a counter: how many steps `succeeded`, and the numbers of those that
    `failed` or were `cancelled`.

    `kept` is the result of the job that tells this, whether it is wanted or not. Only its first
    dependant has it, for a run of the same job that finds that it has ended before."""

    place: int = 0
    results: tuple[bytes, ...] = ()
    ended: tuple["EndedStep", ...] = ()
    succeeded: int = 0
    failed: Numbers = ()
    cancelled: Numbers = ()
    kept: bytes | None = None


class EndedStep(Struct, frozen=True, array_like=True, gc=False):
    """A predecessor, as a job with `always` sees it: its number, task and state, the first line of
    its error, and its result (packed), if it is wanted."""

    number: int
    task: str
    state: State
    error: str = ""
    result: bytes | None = None


class ChildOutcome(Struct, frozen=True, array_like=True, gc=False):
    """What a child job tells its parent: its state, its result (packed) and its error."""

    state: State
    result: bytes | None = None
    error: str = ""


_pack = msgspec.msgpack.Encoder().encode
read_child = msgspec.msgpack.Decoder(ChildOutcome).decode
NO_RESULT = _pack(None)
read_told = msgspec.msgpack.Decoder(Told).decode


def pack_told(told: Told) -> bytes:
    """The value of an arrival."""
    return _pack(told)


def pack_child(outcome: ChildOutcome) -> bytes:
    """The value of the signal that a child gives its parent."""
    return _pack(outcome)


def child_id(parent: str, name: str) -> str:
    """The id of a child job. A parent that runs again finds the same child."""
    return f"{parent}.{blake2b(name.encode(), digest_size=6).hexdigest()}"


def child_signal(id: str) -> str:
    """The name of the signal by which this child tells its parent how it ended."""
    return f"{CHILD}{id}"


def step_id(flow: str, number: int) -> str:
    """The id of a step; number 0 is the flow itself."""
    return f"{flow}.{number:0{_ID_DIGITS}d}" if number else flow


def number_of(flow: str, id: str) -> int:
    """The number of a step of this flow."""
    return int(id.removeprefix(flow).removeprefix(".") or 0)


def receivers(flow: str, dependants: Dependants) -> list[str]:
    """The ids of these dependants."""
    return [step_id(flow, number) for number in range(dependants.first, dependants.last + 1)]


def patrol_wait(age: Wait) -> Wait:
    """How long a flow of this age waits until it looks after its steps again. It is told when they
    end, so this only finds what a process that died has left undone."""
    return min(max(_FIRST_PATROL, age // 4), _LONGEST_PATROL)


# ---------------------------------------------------------------- what is told


def told_by_step(
    place: FlowPlace, to: Dependants, task: str, state: State, result: bytes | None, error: str
) -> Told:
    """What a step that has ended tells a dependant."""
    if to.always:
        wanted = result if to.wants_result else None
        ended = EndedStep(place.number, task, state, error, wanted)
        return Told(to.place, ended=(ended,))
    return Told(to.place, (NO_RESULT if result is None else result,) if to.wants_result else ())


def told_to_counter(number: int, state: State) -> Told:
    """What a step that has ended tells the counter of its flow."""
    match state:
        case State.SUCCEEDED:
            return Told(succeeded=1)
        case State.FAILED:
            return Told(failed=(number,))
        case _:
            return Told(cancelled=(number,))


def together(told: Iterable[Told]) -> Told:
    """What several jobs have told, as one: results in the order of their places."""
    ordered = sorted(told, key=lambda one: one.place)
    return Told(
        ordered[0].place if ordered else 0,
        tuple(result for one in ordered for result in one.results),
        tuple(ended for one in ordered for ended in one.ended),
        sum(one.succeeded for one in ordered),
        tuple(sorted(number for one in ordered for number in one.failed)),
        tuple(sorted(number for one in ordered for number in one.cancelled)),
    )


# ---------------------------------------------------------------- the plan of a flow


class PlannedStep(Struct):
    """A step of a flow that is being built: its queue, its `predecessors` in the order of their
    results, and which of them are arguments (`wanted`)."""

    queue: str
    predecessors: list[int]
    wanted: frozenset[int] = frozenset()
    always: bool = False


class PlannedJob(Struct, frozen=True):
    """A job of a flow, as it will be enqueued. `step` is its position in the list of steps; None
    for a job that gathers others or counts steps."""

    place: FlowPlace
    queue: str
    step: int | None = None


class FlowSpec(Struct, frozen=True, array_like=True):
    """What the job of a flow knows: the name of the flow, how many steps it has, the number of the
    first job that counts them, and how many jobs tell it. It is stored as the job's arguments."""

    name: str
    steps: int
    first_counter: int
    needs: int


read_spec = msgspec.msgpack.Decoder(FlowSpec).decode


def pack_spec(spec: FlowSpec) -> bytes:
    """The arguments of the job of a flow."""
    return _pack(spec)


class _Draft(Struct):
    queue: str
    needs: int = 0
    always: bool = False
    step: int | None = None
    told: list[Dependants] = []
    counter: Dependants | None = None
    predecessors: list[int] = []


Source: TypeAlias = tuple[int, int, bool]  # number, place, whether its result is wanted


def plan(flow: str, name: str, steps: Sequence[PlannedStep]) -> tuple[FlowSpec, list[PlannedJob]]:
    """Return what the flow's own job knows, and the other jobs: last those that can start at once,
    and before them the jobs that they tell, so that none tells a job that is not stored yet. Steps
    have the numbers 1, 2, …; the others follow."""
    drafts = [_Draft(step.queue, always=step.always, step=n) for n, step in enumerate(steps)]
    for number, step in enumerate(steps, 1):
        _connect(drafts, number, step)
    first_counter = len(drafts) + 1
    needs = _count(drafts, len(steps), steps[0].queue)
    jobs = [
        PlannedJob(_place(flow, number, draft), draft.queue, draft.step)
        for number, draft in enumerate(drafts, 1)
    ]
    jobs.sort(key=lambda job: not job.place.needs)
    return FlowSpec(name, len(steps), first_counter, needs), jobs


def _place(flow: str, number: int, draft: _Draft) -> FlowPlace:
    return FlowPlace(
        flow,
        number,
        draft.needs,
        merged(draft.told),
        draft.counter,
        draft.always,
        rows_of(draft.predecessors),
    )


def _connect(drafts: list[_Draft], number: int, step: PlannedStep) -> None:
    """Let the predecessors of this step tell it, through jobs in between if there are many."""
    sources = [
        (source, place, source in step.wanted) for place, source in enumerate(step.predecessors)
    ]
    while len(sources) > MOST_PREDECESSORS:
        sources = [_gathered(drafts, group, step) for group in _groups(sources)]
    _tell(drafts, sources, number, step)


def _gathered(drafts: list[_Draft], group: list[Source], step: PlannedStep) -> Source:
    """Make a job that these tell, and that tells in their place."""
    drafts.append(_Draft(step.queue, always=step.always))
    _tell(drafts, group, len(drafts), step)
    return len(drafts), group[0][1], any(wanted for _, _, wanted in group)


def _tell(drafts: list[_Draft], sources: list[Source], number: int, step: PlannedStep) -> None:
    drafts[number - 1].needs = len(sources)
    drafts[number - 1].predecessors = [source for source, _, _ in sources]
    for source, place, wanted in sources:
        to = Dependants(step.queue, number, number, len(sources), place, wanted, step.always)
        drafts[source - 1].told.append(to)


def _count(drafts: list[_Draft], steps: int, home: str) -> int:
    """Let every step tell the flow that it has ended, through counters if there are many. Returns
    how many jobs the flow waits for."""
    groups, top = counter_groups(steps, len(drafts) + 1)
    for counter, members in groups.items():
        drafts.append(_Draft(home, len(members), always=True, predecessors=members))
        for number in members:
            to = Dependants(home, counter, counter, len(members), always=True)
            drafts[number - 1].counter = to
    for number in top:  # and the enqueue says that all of the flow is stored
        drafts[number - 1].counter = Dependants(home, 0, 0, len(top) + 1, always=True)
    return len(top)


def counter_groups(steps: int, first_counter: int) -> tuple[dict[int, list[int]], list[int]]:
    """Which jobs each counter of a flow counts, and which jobs tell the flow itself."""
    groups: dict[int, list[int]] = {}
    counted, counter = list(range(1, steps + 1)), first_counter
    while len(counted) > MOST_PREDECESSORS:
        rows = _groups(counted)
        counted = list(range(counter, counter + len(rows)))
        groups.update(zip(counted, rows, strict=True))
        counter += len(rows)
    return groups, counted


def _groups(items: list[T]) -> list[list[T]]:
    most = MOST_PREDECESSORS
    return [items[at : at + most] for at in range(0, len(items), most)]


def rows_of(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """These numbers, as pairs of the first and the last of a row."""
    rows: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if rows and number == rows[-1][1] + 1:
            rows[-1] = rows[-1][0], number
        else:
            rows.append((number, number))
    return tuple(rows)


def merged(told: Sequence[Dependants]) -> tuple[Dependants, ...]:
    """The same dependants in fewer entries: neighbours that differ only by number are one."""
    found: list[Dependants] = []
    for one in sorted(told, key=lambda one: (one.queue, one.first)):
        last = found[-1] if found else None
        if last is not None and one == replace(last, first=last.last + 1, last=last.last + 1):
            found[-1] = replace(last, last=one.last)
        else:
            found.append(one)
    return tuple(found)
