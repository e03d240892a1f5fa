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

from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import TypeAlias

import msgspec
from msgspec import Struct

from mita.model.flow import Addition, Dependants, FlowPlace
from mita.model.job import PRIORITIES, State
from mita.model.time import MINUTE, SECOND, Wait

from .durable import ARRIVAL, signal_name

FLOW_TASK = "mita.flow"  # the job of a flow
ADDED_TASK = "mita.added"  # the job of steps that a handler has added
GATHER_TASK = "mita.gather"  # a job that gathers others
FLOW_TASKS = frozenset({FLOW_TASK, ADDED_TASK, GATHER_TASK})
CHILD = "child:"  # so the names of signals of children begin
SUCCEEDED = "succeeded:"  # and names of signals of steps that were retried
ADDED = "added:"  # and names of signals of steps that have added others
MOST_SPANS = 100  # of predecessors to which the span of a run has a link
FLOW_PRIORITY = PRIORITIES[-1]  # these jobs take no time, and others wait for them
_ID_DIGITS = 6
STEP_SUFFIX_CHARACTERS = 1 + _ID_DIGITS  # by which the id of a step is longer than that of its flow
_AGAIN = " again "
LONGEST_PLAIN_ID_CHARACTERS = 32  # a step has the id of its flow, a point and a number
_FIRST_PATROL: Wait = 30 * SECOND
_PATROL_PER_STEP: Wait = SECOND // 100
_LONGEST_PATROL: Wait = 30 * MINUTE

Numbers: TypeAlias = tuple[int, ...]  # of steps


class Told(Struct, frozen=True, array_like=True, gc=False):
    """What a job tells another one.

    To a dependant: the `results` (packed), of which the first has this `place`, or with `always`
    how each job `ended`. To a counter: how many steps `succeeded`, the numbers of steps that
    `failed` or were `cancelled`, and the ids of `additions` that did not succeed.

    `kept` is the result of the job that tells this, whether it is wanted or not. Only its first
    dependant has it, for a run of the same job that finds that it has ended before.

    `spans` are those of the runs that tell this, if they are traced."""

    place: int = 0
    results: tuple[bytes, ...] = ()
    ended: tuple["EndedStep", ...] = ()
    succeeded: int = 0
    failed: Numbers = ()
    cancelled: Numbers = ()
    kept: bytes | None = None
    additions: tuple[str, ...] = ()
    spans: tuple[bytes, ...] = ()


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
read_addition = msgspec.msgpack.Decoder(Addition).decode
read_child = msgspec.msgpack.Decoder(ChildOutcome).decode
NO_RESULT = _pack(None)
read_told = msgspec.msgpack.Decoder(Told).decode


# what the functions raise that read these values
UNREADABLE_VALUE = (msgspec.MsgspecError, ValueError, RecursionError)


# what a step tells the counter of its flow if it has succeeded
_SUCCESS = Told(succeeded=1)
ONE_SUCCESS = _pack(_SUCCESS)


def pack_told(told: Told) -> bytes:
    """The value of an arrival."""
    return _pack(told)


def pack_addition(addition: Addition) -> bytes:
    """The value of the signal that a step gives its counter."""
    return _pack(addition)


def pack_child(outcome: ChildOutcome) -> bytes:
    """The value of the signal that a child gives its parent."""
    return _pack(outcome)


def child_id(parent: str, name: str) -> str:
    """The id of a child job. A parent that runs again finds the same child. It is longer than the
    id of a plain job, even if the caller chose a short one for the parent: so a worker tells
    children from plain jobs."""
    size = 6 if len(parent) >= LONGEST_PLAIN_ID_CHARACTERS else 16
    return f"{parent}.{blake2b(name.encode(), digest_size=size).hexdigest()}"


def child_signal(id: str) -> str:
    """The name of the signal by which this child tells its parent how it ended."""
    return f"{CHILD}{id}"


def child_again(id: str, number: int) -> str:
    """The name of the signal by which this child tells its parent how it ended after a retry, for
    which the parent waits for the `number`th time."""
    return f"{child_signal(id)}{_AGAIN}{number}"


def child_of_signal(name: str) -> str:
    """The id of the child that gives the signal with this name."""
    id, again, number = name.removeprefix(CHILD).rpartition(_AGAIN)
    return id if again and number.isdigit() else name.removeprefix(CHILD)


def addition_id(id: str) -> str:
    """The id of the flow of added steps, from a new id. It is longer than that of a plain job."""
    return f"{id}.added"


def added_signal(number: int) -> str:
    """The name of the signal by which step `number` tells its counter what it has added."""
    return f"{ADDED}{number}"


def succeeded_signal(id: str) -> str:
    """The name of the signal that tells a flow that this step, or what a step has added, has
    succeeded since it was counted."""
    return f"{SUCCEEDED}{id}"


def succeeded_since(values: Mapping[str, bytes]) -> set[str]:
    """The ids of the steps and additions that have succeeded since they were counted. `values` are
    the once values of the flow."""
    begin = signal_name(SUCCEEDED)
    return {name.removeprefix(begin) for name in values if name.startswith(begin)}


def additions(values: Mapping[str, bytes]) -> dict[int, Addition]:
    """What steps have told their counter that they added, by the number of the step. `values` are
    the once values of the counter."""
    begin = signal_name(ADDED)
    return {
        int(name.removeprefix(begin)): read_addition(value)
        for name, value in values.items()
        if name.startswith(begin)
    }


def readable_additions(values: Mapping[str, bytes]) -> dict[int, Addition]:
    """`additions`, without values that cannot be read: to be shown."""
    found: dict[int, Addition] = {}
    for name, value in values.items():
        with suppress(*UNREADABLE_VALUE):
            found |= additions({name: value})
    return found


def step_id(flow: str, number: int) -> str:
    """The id of a step; number 0 is the flow itself."""
    return f"{flow}.{number:0{_ID_DIGITS}d}" if number else flow


def number_of(flow: str, id: str) -> int:
    """The number of a step of this flow."""
    return int(id.removeprefix(flow).removeprefix(".") or 0)


def receivers(flow: str, dependants: Dependants) -> list[str]:
    """The ids of these dependants."""
    return [step_id(flow, number) for number in range(dependants.first, dependants.last + 1)]


def predecessors_of(place: FlowPlace) -> list[int]:
    """The numbers of the predecessors of a job."""
    return [number for first, last in place.predecessors for number in range(first, last + 1)]


def patrol_wait(age: Wait, steps: int = 0) -> Wait:
    """How long a flow of this age and size waits until it looks after its steps again. It is told
    when they end, so this only finds what a process that died has left undone. To look after many
    steps takes long, so it happens less often."""
    return min(max(_FIRST_PATROL, steps * _PATROL_PER_STEP, age // 4), _LONGEST_PATROL)


# ---------------------------------------------------------------- what is told


def told_by_sender(values: Mapping[str, bytes]) -> dict[str, Told]:
    """What others have told a job, by sender. `values` are the once values of the job."""
    return {
        name.removeprefix(ARRIVAL): _SUCCESS if value == ONE_SUCCESS else read_told(value)
        for name, value in values.items()
        if name.startswith(ARRIVAL) and value
    }


def readable_told(values: Mapping[str, bytes]) -> dict[str, Told]:
    """What others have told a job, by sender, without what cannot be read: to be shown."""
    found: dict[str, Told] = {}
    for name, value in values.items():
        with suppress(*UNREADABLE_VALUE):
            found |= told_by_sender({name: value})
    return found


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


def told_of_addition(id: str, state: State) -> Told:
    """What is told to the counter of a step whose added steps have ended. The step itself has
    succeeded."""
    return Told(succeeded=1, additions=() if state is State.SUCCEEDED else (id,))


def together(told: Iterable[Told]) -> Told:
    """What several jobs have told, as one: results in the order of their places."""
    ordered = sorted(told, key=lambda one: one.place)
    if len(ordered) == 1 and ordered[0].kept is None:
        return ordered[0]
    others = [one for one in ordered if one is not _SUCCESS]  # most jobs say only that
    return Told(
        ordered[0].place if ordered else 0,
        tuple([result for one in others for result in one.results]),
        tuple([ended for one in others for ended in one.ended]),
        len(ordered) - len(others) + sum([one.succeeded for one in others]),
        tuple(sorted([number for one in others for number in one.failed])),
        tuple(sorted([number for one in others for number in one.cancelled])),
        additions=tuple([id for one in others for id in one.additions]),
        spans=tuple([span for one in others for span in one.spans])[:MOST_SPANS],
    )
