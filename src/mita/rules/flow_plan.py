"""The plan of a flow: from its steps to its jobs, and which of them tells which."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mita.model.flow import MOST_PREDECESSORS, Dependants, FlowPlace

T = TypeVar("T")


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
    first job that counts them, and how many jobs tell it. `in_transaction`: its jobs were stored in
    one transaction; otherwise the enqueue says when all of them are. It is stored as the job's
    arguments."""

    name: str
    steps: int
    first_counter: int
    needs: int
    in_transaction: bool = False


read_spec = msgspec.msgpack.Decoder(FlowSpec).decode


def pack_spec(spec: FlowSpec) -> bytes:
    """The arguments of the job of a flow."""
    return msgspec.msgpack.encode(spec)


class _Draft(Struct):
    queue: str
    needs: int = 0
    always: bool = False
    step: int | None = None
    told: list[Dependants] = []
    counter: Dependants | None = None
    predecessors: list[int] = []


Source: TypeAlias = tuple[int, int, bool]  # number, place, whether its result is wanted


def plan(
    flow: str, name: str, steps: Sequence[PlannedStep], *, in_transaction: bool = False
) -> tuple[FlowSpec, list[PlannedJob]]:
    """Return what the flow's own job knows, and the other jobs: last the steps that can start at
    once, and before them the jobs that they tell, so that none tells a job that is not stored yet.
    Steps have the numbers 1, 2, …; the others follow."""
    drafts = [_Draft(step.queue, always=step.always, step=n) for n, step in enumerate(steps)]
    for number, step in enumerate(steps, 1):
        _connect(drafts, number, step)
    first_counter = len(drafts) + 1
    more = 0 if in_transaction else 1  # the enqueue says that all of the flow is stored
    needs = _count(drafts, len(steps), steps[0].queue, more)
    jobs = [
        PlannedJob(_place(flow, number, draft), draft.queue, draft.step)
        for number, draft in enumerate(drafts, 1)
    ]
    jobs.sort(key=lambda job: not job.place.needs)
    return FlowSpec(name, len(steps), first_counter, needs, in_transaction), jobs


def plan_addition(
    flow: str, name: str, steps: Sequence[PlannedStep]
) -> tuple[FlowSpec, list[PlannedJob], tuple[Dependants, ...]]:
    """`plan`, for steps that a handler adds. The steps that could start at once wait for the
    adder: they come third."""
    spec, jobs = plan(flow, name, steps)
    sources: list[Dependants] = []
    for at, job in enumerate(jobs):
        if not job.place.needs:
            jobs[at] = replace(job, place=replace(job.place, needs=1))
            sources.append(Dependants(job.queue, job.place.number, job.place.number, 1))
    return spec, jobs, merged(sources)


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


def _count(drafts: list[_Draft], steps: int, home: str, more: int) -> int:
    """Let every step tell the flow that it has ended, through counters if there are many. Returns
    how many jobs the flow waits for; it is told by so many `more`."""
    groups, top = counter_groups(steps, len(drafts) + 1)
    for counter, members in groups.items():
        drafts.append(_Draft(home, len(members), always=True, predecessors=members))
        for number in members:
            to = Dependants(home, counter, counter, len(members), always=True)
            drafts[number - 1].counter = to
    for number in top:
        drafts[number - 1].counter = Dependants(home, 0, 0, len(top) + more, always=True)
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


def counter_of(number: int, spec: FlowSpec) -> int:
    """The number of the job that counts this step; 0 is the flow itself."""
    if spec.steps <= MOST_PREDECESSORS:
        return 0
    return spec.first_counter + (number - 1) // MOST_PREDECESSORS


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
