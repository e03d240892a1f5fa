"""Fair shares: a group that has ready jobs gets its share of the starts, within one start."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from mita.model.job import MOST_WEIGHT_THOUSANDTHS, NORMAL_WEIGHT_THOUSANDTHS
from mita.rules.shares import TURN_STEPS, finish_tag, start_tag

WEIGHTS = (
    st.sampled_from([500, 1000, 2000, 3000])
    | st.integers(100, 10_000)
    | st.integers(1, MOST_WEIGHT_THOUSANDTHS)
)
GROUPS = st.lists(WEIGHTS, min_size=1, max_size=6)
# Which of the groups with the same virtual time goes first is decided by due time and age.
TIES = st.lists(st.integers(0, 5), min_size=60, max_size=60)
# The jobs that come before each start: to which group, and how many.
ARRIVALS = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 8)), max_size=2), min_size=60, max_size=60
)


class Queue:
    """One queue and priority, as a store keeps it."""

    def __init__(self, weights: list[int]) -> None:
        self.weights = weights
        self.virtual = 0
        self.finished: dict[int, int] = {}
        self.ready = [0] * len(weights)

    def start(self, tie: int) -> int | None:
        """Start one job. Returns its group; None if no group has a ready job."""
        tags = {
            group: start_tag(self.virtual, self.finished.get(group, 0))
            for group, jobs in enumerate(self.ready)
            if jobs
        }
        if not tags:
            return None
        first = [group for group, tag in tags.items() if tag == min(tags.values())]
        group = first[tie % len(first)]
        self.virtual = tags[group]
        self.finished[group] = finish_tag(self.virtual, self.weights[group])
        self.finished = {one: tag for one, tag in self.finished.items() if tag > self.virtual}
        self.ready[group] -= 1
        return group


def step(weight: int) -> int:
    """How far a start moves a group of this weight."""
    return finish_tag(0, weight)


@given(weight=st.integers(1, MOST_WEIGHT_THOUSANDTHS))
def test_a_weight_is_exact_to_a_thousandth(weight: int) -> None:
    due = Fraction(TURN_STEPS * NORMAL_WEIGHT_THOUSANDTHS, weight)
    assert due * Fraction(999, 1000) <= step(weight) <= due
    assert step(weight) > 0


@given(weights=GROUPS, ties=TIES)
def test_each_group_gets_its_share_of_any_starts_in_a_row(
    weights: list[int], ties: list[int]
) -> None:
    """While all groups have ready jobs: in any N starts in a row, a group's starts differ from its
    share by one, and by less than its share of one round more."""
    queue = Queue(weights)
    queue.ready = [len(ties)] * len(weights)
    order = [queue.start(tie) for tie in ties]
    exact = [Fraction(1, step(weight)) for weight in weights]
    for group, weight in enumerate(exact):
        share = weight / sum(exact)
        most = 1 + (len(weights) - 2) * share
        ahead = [Fraction(0)]
        for started in order:
            ahead.append(ahead[-1] + (started == group) - share)
        assert max(ahead) - min(ahead) <= most


@given(k=st.integers(1, 6), ties=TIES)
def test_of_equal_groups_each_gets_one_start_in_every_round(k: int, ties: list[int]) -> None:
    queue = Queue([NORMAL_WEIGHT_THOUSANDTHS] * k)
    queue.ready = [len(ties)] * k
    order = [queue.start(tie) for tie in ties]
    for at in range(0, len(order) - k + 1, k):
        assert sorted(map(str, order[at : at + k])) == [str(group) for group in range(k)]


@given(weights=GROUPS, ties=TIES, arrivals=ARRIVALS)
def test_groups_that_come_and_go_share_while_they_have_jobs(
    weights: list[int], ties: list[int], arrivals: list[list[tuple[int, int]]]
) -> None:
    """Of two groups that both have ready jobs for a while, neither gets more than one start (by
    weight) ahead of the other in that time, whatever other groups do."""
    queue = Queue(weights)
    ready: list[list[bool]] = []  # before each start, by group
    order: list[int | None] = []
    for tie, new in zip(ties, arrivals, strict=True):
        for group, jobs in new:
            queue.ready[group % len(weights)] += jobs
        ready.append([jobs > 0 for jobs in queue.ready])
        order.append(queue.start(tie))
    for one in range(len(weights)):
        for other in range(one):
            _share(one, other, weights, ready, order)


def _share(
    one: int, other: int, weights: list[int], ready: list[list[bool]], order: list[int | None]
) -> None:
    ahead = [0]
    for both, started in zip(ready, order, strict=True):
        if not (both[one] and both[other]):
            ahead = [0]
            continue
        moved = (started == one) * step(weights[one]) - (started == other) * step(weights[other])
        ahead.append(ahead[-1] + moved)
        assert max(ahead) - min(ahead) <= step(weights[one]) + step(weights[other])


@given(weights=GROUPS, ties=TIES, arrivals=ARRIVALS)
def test_no_start_is_left_unused(
    weights: list[int], ties: list[int], arrivals: list[list[tuple[int, int]]]
) -> None:
    """As long as any group has a ready job, one starts."""
    queue = Queue(weights)
    for tie, new in zip(ties, arrivals, strict=True):
        for group, jobs in new:
            queue.ready[group % len(weights)] += jobs
        before = sum(queue.ready)
        assert (queue.start(tie) is not None) == (before > 0)


@given(weights=st.lists(WEIGHTS, min_size=2, max_size=6), idle=st.integers(1, 50), ties=TIES)
def test_a_group_that_was_idle_goes_next_and_catches_nothing_up(
    weights: list[int], idle: int, ties: list[int]
) -> None:
    """Before a group that comes back each other group has one turn at most; and it gets no turns
    for the time in which it had no jobs."""
    queue = Queue(weights)
    queue.ready = [0, *[200] * (len(weights) - 1)]
    for n in range(idle):
        queue.start(ties[n % len(ties)])
    queue.ready[0] = 200
    order = [queue.start(tie) for tie in ties]
    assert order.index(0) < len(weights)
    mine = order.count(0) * step(weights[0])
    others = [order.count(group) * step(weights[group]) for group in range(1, len(weights))]
    assert mine <= min(others) + step(weights[0]) + max(map(step, weights[1:]))
