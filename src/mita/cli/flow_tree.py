"""The steps of a flow as a tree that fits on a screen.

Steps one after the other are lines below each other. Steps side by side are branches. A step that
waits for several branches follows them at the level where they began, and says after which steps it
comes. Many steps of one task that are side by side are folded into one line for each state."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from mita.model.record import DisplayState, FlowRecord, FlowStep
from mita.rules.flow import step_id
from mita.rules.words import brief

_FOLDED_STEPS = 12  # more steps of one task side by side are folded
_NAMED_STEPS = 3  # of a folded state: as many have lines of their own
_NAMED_ROWS = 4  # of numbers, in `after 1-3, 5, …`
_MOST_LEVELS = 12  # levels of branches; what is deeper is only counted
_NEAR_LEVELS = 50  # to look for a step among those before another one
_GONE = "gone"

TreeRow = tuple[str, str, str, str]  # step, state, took, note


class _Placed(Struct):
    """What follows a step: branches that wait for this step alone, and joins of its branches."""

    branches: list[FlowStep] = []
    joins: list[FlowStep] = []


class FlowTree:
    """The steps of a flow, each placed below the step that it follows."""

    def __init__(self, flow: FlowRecord, now: datetime) -> None:
        self._now = now
        self._steps = {step.id: step for step in flow.steps}
        self._parent: dict[str | None, str | None] = {None: None}
        self._depth: dict[str | None, int] = {None: 0}
        self._placed: dict[str | None, _Placed] = {None: _Placed()}
        for step in flow.steps:
            self._place(step)

    def rows(self) -> list[TreeRow]:
        """The lines of the tree."""
        found: list[TreeRow] = []
        self._below(self._placed[None], "", 0, found)
        return found

    # ------------------------------------------------------------ where each step is

    def _place(self, step: FlowStep) -> None:
        before = self._nearest(self.predecessors(step)) or {step.added_by}
        is_join = len(before) > 1
        parent = self._common(before)
        placed = self._placed.setdefault(parent, _Placed())
        (placed.joins if is_join else placed.branches).append(step)
        self._parent[step.id] = parent
        self._depth[step.id] = self._depth[parent] + 1

    def predecessors(self, step: FlowStep) -> list[str]:
        """The ids of the steps that it waits for."""
        flow = step.id.rpartition(".")[0]
        ids = (step_id(flow, n) for first, last in step.after for n in range(first, last + 1))
        return [id for id in ids if id in self._parent]

    def _nearest(self, ids: Sequence[str]) -> set[str | None]:
        """These steps without those that are before others of them."""
        before: set[str | None] = set(ids)
        for id in ids if 1 < len(ids) <= 1000 else ():
            above = self._parent[id]
            for _ in range(_NEAR_LEVELS):
                if above is None:
                    break
                before.discard(above)
                above = self._parent[above]
        return before

    def _common(self, ids: set[str | None]) -> str | None:
        """The nearest step before all of these; None: only the beginning is."""
        while len(ids) > 1:
            deepest = max(self._depth[id] for id in ids)
            ids = {self._parent[id] if self._depth[id] == deepest else id for id in ids}
        [common] = ids
        return common if common in self._depth else None

    # ------------------------------------------------------------ lines

    def _below(self, placed: _Placed, prefix: str, level: int, found: list[TreeRow]) -> None:
        """The branches of a step, and then what joins them."""
        branches = _folded(placed.branches)
        if len(branches) == 1 and not placed.joins:
            self._series([branches[0]], prefix, prefix, level, found)
            return
        for group in branches:
            if level == _MOST_LEVELS:
                found.append((f"{prefix}… {len(branches):,} branches are deeper", "", "", ""))
                break
            is_last = group is branches[-1]
            first, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            self._series([group], prefix + first, prefix + rest, level + 1, found)
        self._series(_folded(placed.joins), prefix, prefix, level, found)

    def _series(
        self,
        groups: list[list[FlowStep]],
        first: str,
        prefix: str,
        level: int,
        found: list[TreeRow],
    ) -> None:
        """Groups of steps below each other, and what follows each. A group is one step, or many
        that are folded."""
        todo = groups[::-1]
        while todo:
            group = todo.pop()
            for row in self._group(group):
                found.append((first + row[0], *row[1:]))
                first = prefix
            after = [self._placed[step.id] for step in group if step.id in self._placed]
            if len(group) == 1 and after:
                [placed] = after
                if len(placed.branches) == 1 and not placed.joins:
                    todo.append(placed.branches)
                else:
                    branches = _Placed(placed.branches)
                    self._below(branches, prefix, level, found)
                    todo += _folded(placed.joins)[::-1]
            elif after:
                follow = [step for one in after for step in (*one.branches, *one.joins)]
                todo += _by_task(follow)[::-1]

    def _group(self, group: list[FlowStep]) -> list[TreeRow]:
        if len(group) == 1:
            return [self._row(group[0])]
        states: dict[str, list[FlowStep]] = {}
        for step in group:
            states.setdefault(_state(step), []).append(step)
        rows: list[TreeRow] = []
        for state in (*DisplayState, _GONE):
            steps = states.get(state, [])
            many = len(steps) > _NAMED_STEPS
            rows += [self._folded_row(steps)] if many else [self._row(step) for step in steps]
        return rows

    def _row(self, step: FlowStep) -> TreeRow:
        added = "+" if step.added_by else ""
        name = f"{added}{step.number} {step.task}".rstrip()
        return name, _state(step), self._took(step), self._note(step)

    def _folded_row(self, steps: list[FlowStep]) -> TreeRow:
        took = [step.finished - step.started for step in steps if step.started and step.finished]
        average = f"avg {brief(sum(took, timedelta()) / len(took))}" if took else ""
        first = next((step for step in steps if step.error), None)
        added = "+" if steps[0].added_by else ""
        note = "" if first is None else f"step {added}{first.number}: {first.error}"
        return f"{steps[0].task} × {len(steps):,}", _state(steps[0]), average, note  # noqa: RUF001

    def _took(self, step: FlowStep) -> str:
        if step.started is None:
            return ""
        if step.state is DisplayState.RUNNING:
            return f"for {brief(self._now - step.started)}"
        return "" if step.finished is None else brief(step.finished - step.started)

    def _note(self, step: FlowStep) -> str:
        parts = [step.error] if step.error and step.state is not DisplayState.SUCCEEDED else []
        parts += [f"key {step.blocked_at}"] if step.blocked_at else []
        if len(before := self.predecessors(step)) > 1:
            parts.append(f"after {_rows(step)}")
            if step.state is DisplayState.WAITING:
                left = sum(not self._steps[id].finished for id in before)
                parts.append(f"waits for {left:,} of {len(before):,}")
        parts += ["always"] if step.always else []
        return " · ".join(parts)


def _state(step: FlowStep) -> str:
    return _GONE if step.state is None else step.state.value


def _folded(steps: Iterable[FlowStep]) -> list[list[FlowStep]]:
    """Each step alone, but many of one task together."""
    groups = _by_task(steps)
    many = {group[0].task: group for group in groups if len(group) > _FOLDED_STEPS}
    rest = [[step] for group in groups if len(group) <= _FOLDED_STEPS for step in group]
    return sorted([*many.values(), *rest], key=lambda group: (bool(group[0].added_by), group[0].id))


def _by_task(steps: Iterable[FlowStep]) -> list[list[FlowStep]]:
    groups: dict[str, list[FlowStep]] = {}
    for step in steps:
        groups.setdefault(step.task, []).append(step)
    return list(groups.values())


def _rows(step: FlowStep) -> str:
    """The numbers of the steps that it waits for: `2-13, 15`, or `+1-3` for added steps."""
    added = "+" if step.added_by else ""
    rows = [f"{added}{first}" + f"-{last}" * (last > first) for first, last in step.after]
    return ", ".join([*rows[:_NAMED_ROWS], *(["…"] if len(rows) > _NAMED_ROWS else [])])
