"""The steps of a flow as the nodes of a graph: one node for a step, or for many equal ones.

Steps are equal siblings if they run the same task after the same steps, or after steps that are
equal siblings. More than 12 of them are one node, and so are more than 12 steps of one task in a
row. So the graph of a flow of 100,000 steps has a few nodes."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter

from msgspec import Struct

from mita.model.record import DisplayState, FlowRecord, FlowStep

from .shapes import GONE

FOLDED_STEPS = 12  # more equal siblings than these are one node
_LEADING_STATES = (
    DisplayState.FAILED,
    DisplayState.RUNNING,
    DisplayState.BLOCKED,
    DisplayState.READY,
    DisplayState.SCHEDULED,
    DisplayState.WAITING,
    DisplayState.CANCELLED,
    DisplayState.SUCCEEDED,
)  # the state of a node is the first of these that one of its steps has


class FlowNode(Struct):
    """One step, or many equal ones. `after` are the numbers of nodes. `is_row`: its steps follow
    each other."""

    steps: list[FlowStep]
    after: set[int]
    is_row: bool = False
    _states: dict[str, int] = {}

    @property
    def task(self) -> str:
        """The task of its steps; `(deleted)` if it is not known any more."""
        return self.steps[0].task or "(deleted)"

    def states(self) -> dict[str, int]:
        """How many of its steps are in which state; the most important state first."""
        if not self._states:
            self._states = counted_states(self.steps)
        return self._states

    def took(self, now: datetime) -> timedelta | None:
        """How long its steps ran, on average; None if none has started."""
        ran = [
            (step.finished or now) - step.started
            for step in self.steps
            if step.started is not None and (step.finished is not None or _runs(step))
        ]
        return sum(ran, timedelta()) / len(ran) if ran else None


def counted_states(steps: Sequence[FlowStep]) -> dict[str, int]:
    """How many of these steps are in which state; the most important state first."""
    found = Counter(map(attrgetter("state"), steps))
    named = {state.value: found[state] for state in _LEADING_STATES if state in found}
    return named | {GONE: found[None]} if None in found else named


def _runs(step: FlowStep) -> bool:
    return step.state is DisplayState.RUNNING


def nodes_of(flow: FlowRecord) -> list[FlowNode]:
    """The nodes of the graph of a flow, each after those that it waits for."""
    return _Nodes(_Kinds(flow.steps)).found


class _Kinds:
    """Steps by their kind: those of one kind are equal siblings. Steps come after those that they
    wait for."""

    def __init__(self, steps: Sequence[FlowStep]) -> None:
        self.members: list[list[FlowStep]] = []
        self.before: list[frozenset[int]] = []  # the kinds that each kind comes after
        self._kind_of: dict[str, int] = {}  # of the steps that have added others, by their ids
        self._parts: dict[str | None, list[int]] = {}  # the kinds of the steps that were added by
        self._alone: list[frozenset[int]] = []  # a set for each kind, with this kind alone
        self._known: dict[tuple[str, frozenset[int]], int] = {}
        self._by_rows: dict[tuple[str | None, tuple[tuple[int, int], ...]], frozenset[int]] = {}
        adders = {step.added_by for step in steps}
        known, members, parts = self._known, self.members, self._parts
        for step in steps:  # there may be many: no call for each
            adder, after = step.added_by, step.after
            part = parts.get(adder)
            if part is None:
                part = parts[adder] = []
            if len(after) == 1 and after[0][0] == after[0][1] <= len(part):
                before = self._alone[part[after[0][0] - 1]]
            else:
                before = self._before(adder, after, part)
            key = step.task, before
            kind = known.get(key)
            if kind is None:
                kind = known[key] = len(members)
                members.append([])
                self.before.append(before)
                self._alone.append(frozenset((kind,)))
            members[kind].append(step)
            part.append(kind)
            if step.id in adders:
                self._kind_of[step.id] = kind

    def _before(
        self, adder: str | None, after: tuple[tuple[int, int], ...], part: list[int]
    ) -> frozenset[int]:
        found = self._by_rows.get((adder, after))
        if found is None:
            kinds = {kind for first, last in after for kind in part[first - 1 : last]}
            if not kinds and adder in self._kind_of:
                kinds = {self._kind_of[adder]}
            found = self._by_rows[adder, after] = frozenset(kinds)
        return found


class _Nodes:
    """Makes the nodes of kinds: one for each step, or one for a kind or a row with many steps."""

    def __init__(self, kinds: _Kinds) -> None:
        self.found: list[FlowNode] = []
        self._kinds = kinds
        self._whole: dict[int, int] = {}  # the node that has all steps of a kind
        self._of_step: dict[str, int] = {}  # the node of a step that has its own
        for row in _rows(kinds):
            steps = [step for kind in row for step in kinds.members[kind]]
            if len(steps) > FOLDED_STEPS:
                self._fold(row, steps)
            else:
                for kind in row:
                    for step in kinds.members[kind]:
                        self._place(step, kinds.before[kind])

    def _fold(self, row: Sequence[int], steps: list[FlowStep]) -> None:
        after = {node for kind in self._kinds.before[row[0]] for node in self._nodes(kind)}
        for kind in row:
            self._whole[kind] = len(self.found)
        self.found.append(FlowNode(steps, after, len(row) > 1))

    def _nodes(self, kind: int) -> list[int]:
        if kind in self._whole:
            return [self._whole[kind]]
        return [self._of_step[step.id] for step in self._kinds.members[kind]]

    def _place(self, step: FlowStep, before: frozenset[int]) -> None:
        after = set[int]()
        for kind in before:
            if kind in self._whole:
                after.add(self._whole[kind])
            else:
                after |= {
                    self._of_step[one.id]
                    for one in self._kinds.members[kind]
                    if _comes_after(step, one)
                }
        self._of_step[step.id] = len(self.found)
        self.found.append(FlowNode([step], after))


def _comes_after(step: FlowStep, one: FlowStep) -> bool:
    """Whether a step waits for this one, or was added by it."""
    if not step.after:
        return one.id == step.added_by
    if one.added_by != step.added_by:
        return False
    at = bisect_right(step.after, one.number, key=lambda row: row[0]) - 1
    return at >= 0 and one.number <= step.after[at][1]


def _rows(kinds: _Kinds) -> list[list[int]]:
    """The kinds, each alone; those of one task that follow each other as a row, if it is long."""
    followers = Counter(chain.from_iterable(kinds.before))
    rows: list[list[int]] = []
    row_of: list[list[int]] = []
    for kind, before in enumerate(kinds.before):
        row: list[int] | None = None
        if len(before) == 1:
            [last] = before
            if followers[last] == 1 and _alike(kinds, kind, last):
                row = row_of[last]
        if row is None:
            row = []
            rows.append(row)
        row.append(kind)
        row_of.append(row)
    # a row has the place of its first kind: whatever follows it comes later
    return [part for row in rows for part in ([row] if len(row) > FOLDED_STEPS else _alone(row))]


def _alike(kinds: _Kinds, one: int, other: int) -> bool:
    steps, others = kinds.members[one], kinds.members[other]
    return len(steps) == len(others) and steps[0].task == others[0].task


def _alone(row: Sequence[int]) -> list[list[int]]:
    return [[kind] for kind in row]
