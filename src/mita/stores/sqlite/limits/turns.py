"""Groups of a queue take turns, start by start. The rule is in `rules.shares`."""

import sqlite3
from collections import Counter as Counters
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS, Claim, Weight
from mita.model.outcome import Busy
from mita.model.time import Moment, Wait
from mita.rules.shares import NO_GROUP, finish_tag, start_tag
from mita.stores.sqlite import resources
from mita.stores.sqlite.codec import read_candidates, to_claim
from mita.stores.sqlite.context import SqliteContext, Wanted, as_json

from .key_states import as_number_us

SCAN_JOBS = 1000  # jobs that one claim examines at most
FIRST_JOBS = 4  # jobs of each group that are looked up first
MORE_JOBS = 32  # jobs of one group that are looked up when it needs more
READ_JOBS = 100  # jobs that are read together at most
AHEAD_JOBS = 1_000_000  # more than a queue ever has
_Queued: TypeAlias = tuple[int, int, Weight]  # due, seq, weight
_Entry: TypeAlias = tuple[int, int, int, str]  # virtual time, due, seq, name of the group
_read_jobs = msgspec.json.Decoder(list[_Queued]).decode
_read_groups = msgspec.json.Decoder(list[tuple[int, str | None, list[_Queued]]]).decode


class Group(Struct):
    """The first due jobs of one group, and which of them is next. `is_whole`: there are no
    others."""

    fair: str | None
    jobs: list[_Queued]
    is_whole: bool
    at: int = 0

    @property
    def name(self) -> str:
        return NO_GROUP if self.fair is None else self.fair

    def after_start(self, at: int, tag: int) -> int:
        """The virtual time of the group after it has started this job."""
        weight = NORMAL_WEIGHT_THOUSANDTHS if self.fair is None else self.jobs[at][2]
        return finish_tag(tag, weight)


class PriorityTurns(Struct):
    """The groups of one priority. `heap` has each group that has a job, by the virtual time at
    which it starts: none of them is before `virtual`, so the entries stay right while it moves."""

    priority: int
    virtual: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    heap: list[_Entry] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)

    def push(self, group: Group) -> None:
        """Add a group with its next job, if it has one."""
        if group.at < len(group.jobs):
            due, seq, _ = group.jobs[group.at]
            tag = start_tag(self.virtual, self.finished.get(group.name, 0))
            heappush(self.heap, (tag, due, seq, group.name))


class QueueTurns:
    """All groups of one queue, and whose turn it is."""

    def __init__(self, priorities: Iterable[PriorityTurns], ageing: Wait | None) -> None:
        self.priorities = {one.priority: one for one in priorities}
        self.ageing = ageing

    def next(self) -> tuple[PriorityTurns, Group] | None:
        """The group that starts its next job, or None."""
        one = self._first({one.priority: one.heap for one in self.priorities.values()})
        return None if one is None else (one, one.groups[one.heap[0][3]])

    def _first(self, heaps: Mapping[int, list[_Entry]]) -> PriorityTurns | None:
        """The priority whose next job starts first."""
        ranks = [
            (self._rank(priority, heap[0][1]), -priority, *heap[0][1:3], priority)
            for priority, heap in heaps.items()
            if heap
        ]
        return self.priorities[min(ranks)[-1]] if ranks else None

    def _rank(self, priority: int, due: Moment) -> int:
        return -priority if self.ageing is None else due - priority * self.ageing

    def take(self, one: PriorityTurns, group: Group, *, starts: bool) -> int:
        """Take the next job of the group whose turn it is: it starts, or it was sent away. Returns
        its number."""
        tag, _, seq, _ = heappop(one.heap)
        if starts:
            one.virtual = tag
            one.finished[group.name] = group.after_start(group.at, tag)
            one.moved.add(group.name)
        group.at += 1
        one.push(group)
        return seq

    def order(self, most: int) -> Iterator[int]:
        """The numbers of the next jobs, if all of them start; fewer if a group must be read on.
        Nothing changes."""
        heaps = {one.priority: one.heap.copy() for one in self.priorities.values()}
        taken: Counters[tuple[int, str]] = Counters()
        for _ in range(most):
            one = self._first(heaps)
            if one is None:
                return
            tag, _, seq, name = heappop(heaps[one.priority])
            yield seq
            group = one.groups[name]
            at = group.at + taken[one.priority, name]
            taken[one.priority, name] += 1
            if at + 1 < len(group.jobs):
                due, seq, _ = group.jobs[at + 1]
                heappush(heaps[one.priority], (group.after_start(at, tag), due, seq, name))
            elif not group.is_whole:
                return


def load(
    context: SqliteContext, queue: str, each: int, ageing: Wait | None, now: Moment
) -> QueueTurns:
    """The groups of a queue with their first due jobs, `each` of a group."""
    priorities: dict[int, PriorityTurns] = {}
    groups = _read_groups(context.value("claim_groups", queue=queue, now=now, each=each))
    for priority, _, _ in groups:
        priorities.setdefault(priority, PriorityTurns(priority))
    for priority, fair, tag in context.rows("claim_turns", queue=queue):
        if priority not in priorities:
            continue  # nothing is ready there
        if fair is None:
            priorities[priority].virtual = as_number_us(tag)
        else:
            priorities[priority].finished[fair] = as_number_us(tag)
    for priority, fair, jobs in groups:
        group = Group(fair, jobs, is_whole=len(jobs) < each)
        priorities[priority].groups[group.name] = group
        priorities[priority].push(group)
    return QueueTurns(priorities.values(), ageing)


def ahead(context: SqliteContext, queue: str, seq: int, ageing: Wait | None) -> int | None:
    """How many jobs of this queue start before this ready job if nothing changes."""
    turns = load(context, queue, AHEAD_JOBS, ageing, context.now)
    return next((at for at, other in enumerate(turns.order(AHEAD_JOBS)) if other == seq), None)


def claim_groups(
    context: SqliteContext, queue: str, wanted: Wanted, busy: list[Busy]
) -> tuple[list[Claim], bool]:
    """Claim from a queue that has groups. Returns the claims, and whether the search was cut short.
    Jobs that could not pass a gate are added to `busy`."""
    now = context.now
    turns = load(context, queue, FIRST_JOBS, wanted.ageing, now)
    admission, rows = resources.Admission(context, queue, busy), dict[int, Any]()
    taken: list[Any] = []
    examined = 0
    while len(taken) < wanted.limit and examined < SCAN_JOBS and (turn := turns.next()):
        one, group = turn
        seq = group.jobs[group.at][1]
        if seq not in rows:
            rows.update(_rows(context, turns, min(wanted.limit - len(taken), READ_JOBS), rows))
        examined += 1
        starts = admission.admits(rows[seq])
        if starts:
            taken.append(rows[seq])
        turns.take(one, group, starts=starts)
        if group.at == len(group.jobs) and not group.is_whole:
            _read_on(context, queue, one, group)
    admission.finish()
    if taken:
        seqs, until = as_json([row[0] for row in taken]), now + wanted.lease
        context.run("claim_take", seqs=seqs, now=now, until=until, worker=wanted.worker)
        _store(context, queue, turns)
    cut_short = len(taken) < wanted.limit and turns.next() is not None
    return [to_claim(row, now) for row in taken], cut_short


def _rows(
    context: SqliteContext, turns: QueueTurns, most: int, known: dict[int, Any]
) -> Iterator[tuple[int, Any]]:
    """The rows of the jobs whose turn it is next: as many as fit into one text."""
    seqs = [seq for seq in turns.order(most) if seq not in known]
    try:
        text = context.value("claim_rows", seqs=as_json(seqs))
    except sqlite3.DataError:
        if most <= 1:
            raise
        yield from _rows(context, turns, most // 2, known)
    else:
        yield from ((row[0], row) for row in read_candidates(text))


def _read_on(context: SqliteContext, queue: str, one: PriorityTurns, group: Group) -> None:
    """Look up more jobs of a group, behind the last one that is known."""
    due, seq, _ = group.jobs[-1]
    text = context.value(
        "claim_more_of_group",
        queue=queue,
        priority=one.priority,
        fair=group.fair,
        now=context.now,
        due=due,
        seq=seq,
        limit=MORE_JOBS,
    )
    group.jobs, group.at = _read_jobs(text), 0
    group.is_whole = len(group.jobs) < MORE_JOBS
    one.push(group)


def _store(context: SqliteContext, queue: str, turns: QueueTurns) -> None:
    """Store the virtual times that have changed, and forget those that nobody is ahead of."""
    for one in turns.priorities.values():
        if not one.moved:
            continue
        which = {"queue": queue, "priority": one.priority, "virtual": one.virtual}
        context.run("claim_turn_moves", **which)
        moved = [(queue, one.priority, name, one.finished[name]) for name in one.moved]
        context.run_many("claim_group_moves", moved)
        context.run("claim_forget_groups", **which)
