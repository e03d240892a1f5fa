"""Flows: jobs that wait for the end of other jobs."""

from msgspec import Struct

from .job import NewJob

MOST_STEPS = 100_000  # of one flow
# A job has at most so many predecessors. More are gathered in groups, each by a job of its own, so
# that no record grows without bound and no record is written by all.
MOST_PREDECESSORS = 100


class Dependants(Struct, frozen=True, array_like=True, gc=False):
    """Jobs of one queue that wait for the same job: those with the numbers `first` to `last` of its
    flow (0 is the flow itself). Each of them waits for `needs` jobs.

    `place` is the place of this job's result among those that they get. `wants_result`: the result
    is one of their arguments. `always`: they start however this job ends."""

    queue: str
    first: int
    last: int
    needs: int
    place: int = 0
    wants_result: bool = False
    always: bool = False


class FlowPlace(Struct, frozen=True, array_like=True, gc=False):
    """The place of a job in its flow; it is stored with the job's options. `counter` is the job
    that counts the steps that have ended. `needs` is for how many jobs this one waits, and
    `predecessors` are their numbers, as pairs of the first and the last of a row. A child job
    (`job.run`) has only a `parent`, the id of the job that waits for it. The own job of steps that
    a handler has added (`job.add`) has the place of their `adder`."""

    flow: str
    number: int
    needs: int = 0
    dependants: tuple[Dependants, ...] = ()
    counter: Dependants | None = None
    always: bool = False
    predecessors: tuple[tuple[int, int], ...] = ()
    parent: str | None = None
    adder: "FlowPlace | None" = None


class Addition(Struct, frozen=True, array_like=True, gc=False):
    """Steps that the handler of a step has added. They are a flow of their own (`flow` is its id);
    its own job is in `queue` and waits for `needs` jobs. `sources` are the added steps that wait
    only for their adder. `result` is that of the adder: where there is an addition, the adder has
    succeeded."""

    flow: str
    queue: str
    needs: int
    sources: tuple[Dependants, ...]
    result: bytes


class AddedSteps(Struct, frozen=True):
    """An addition, and its jobs in the order in which they are stored. An addition that an earlier
    run has stored has none."""

    addition: Addition
    jobs: tuple[NewJob, ...] = ()


class Arrival(Struct, frozen=True, gc=False):
    """A job tells another one, the `receiver` in `queue`, how it ended (`value`, packed). When
    `needs` jobs have told the receiver, it is due."""

    queue: str
    receiver: str
    sender: str
    value: bytes
    needs: int
