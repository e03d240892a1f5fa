"""Groups of a queue take turns, start by start. The rule is in `rules.shares`."""

import sqlite3
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS, Claim, Weight
from mita.model.outcome import Busy
from mita.model.time import Wait
from mita.rules.shares import NO_GROUP, finish_tag, start_tag
from mita.stores.sqlite.codec import read_candidates, to_claim
from mita.stores.sqlite.context import SqliteContext, Wanted, as_json

from .admission import Admission
from .key_states import as_number_us

SCAN_JOBS = 1000  # jobs that one claim examines at most
MORE_JOBS = 32  # jobs of one group that are looked up when it needs more
READ_JOBS = 100  # jobs that are read together at most
ALL_JOBS = 1_000_000_000  # more than a queue ever has
_Queued: TypeAlias = tuple[int, int, Weight]  # due, seq, weight
_Entry: TypeAlias = tuple[int, int, int, str]  # virtual time, due, seq, name of the group
_read_jobs = msgspec.json.Decoder(list[_Queued]).decode
# priority, its virtual time, group, virtual time of the group, its first jobs
_Found: TypeAlias = tuple[int, int | None, str | None, int | None, list[_Queued]]
_read_groups = msgspec.json.Decoder(list[_Found]).decode


class Group(Struct, frozen=True):
    """The first due jobs of one group. `is_whole`: there are no others."""

    fair: str | None
    jobs: list[_Queued]
    is_whole: bool


class PriorityTurns(Struct):
    """The groups of one priority, by name, and which job of each is next (`at`). `heap` has each
    group that has a job, by the virtual time at which it starts: none of them is before `virtual`,
    so the entries stay right while it moves. `moved`: the groups whose time has changed."""

    priority: int
    virtual: int
    finished: dict[str, int] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    heap: list[_Entry] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)

    def add(self, name: str, group: Group) -> None:
        """Add a group, or other jobs of a group that was used up."""
        self.groups[name], self.at[name] = group, 0
        self._push(name, group, 0)

    def _push(self, name: str, group: Group, at: int) -> None:
        """Add a group with its next job, if it has one."""
        if at < len(group.jobs):
            due, seq, _ = group.jobs[at]
            tag = start_tag(self.virtual, self.finished.get(name, 0))
            heappush(self.heap, (tag, due, seq, name))

    def take(self, *, starts: bool) -> bool:
        """Take the job whose turn it is: it starts, or it was sent away. Returns whether more jobs
        of its group must be looked up."""
        tag, _, _, name = heappop(self.heap)
        group, at = self.groups[name], self.at[name]
        if starts:
            self.virtual = tag
            weight = NORMAL_WEIGHT_THOUSANDTHS if group.fair is None else group.jobs[at][2]
            self.finished[name] = finish_tag(tag, weight)
            self.moved.add(name)
        at += 1
        self.at[name] = at
        self._push(name, group, at)
        return at == len(group.jobs) and not group.is_whole

    def used_up(self) -> list[str]:
        """The groups of which more jobs must be looked up."""
        return [
            name
            for name, group in self.groups.items()
            if not group.is_whole and self.at[name] == len(group.jobs)
        ]

    def copied(self) -> "PriorityTurns":
        """A copy that can be changed by itself."""
        dicts = (self.finished.copy(), self.groups.copy(), self.at.copy())
        return PriorityTurns(
            self.priority, self.virtual, *dicts, self.heap.copy(), self.moved.copy()
        )


class QueueTurns:
    """All groups of one queue, and whose turn it is."""

    def __init__(self, priorities: Iterable[PriorityTurns], ageing: Wait | None) -> None:
        self.priorities = list(priorities)
        self.ageing = ageing

    def next(self) -> PriorityTurns | None:
        """The priority that starts the next job, or None if no job is ready."""
        if len(self.priorities) == 1:
            [one] = self.priorities
            return one if one.heap else None
        ready = [one for one in self.priorities if one.heap]
        return min(ready, key=self._rank) if ready else None

    def _rank(self, one: PriorityTurns) -> tuple[int, int]:
        _, due, _, _ = one.heap[0]
        rank = 0 if self.ageing is None else due - one.priority * self.ageing
        return rank, -one.priority

    def start_many(self, most: int) -> list[int]:
        """Start the next jobs. Returns their numbers: fewer than `most` if no other job is ready,
        or if more jobs of a group must be looked up."""
        seqs: list[int] = []
        while len(seqs) < most and (one := self.next()):
            seqs.append(one.heap[0][2])
            if one.take(starts=True):
                break
        return seqs

    def copied(self) -> "QueueTurns":
        """A copy that can be changed by itself."""
        return QueueTurns([one.copied() for one in self.priorities], self.ageing)


def load(context: SqliteContext, queue: str, limit: int, ageing: Wait | None) -> QueueTurns:
    """The groups of a queue with their first due jobs: enough for about `limit` starts."""
    priorities: dict[int, PriorityTurns] = {}
    each, text = context.row("claim_groups", queue=queue, now=context.now, limit=limit)
    for priority, virtual, fair, finished, jobs in _read_groups(text):
        if not jobs:
            continue
        one = priorities.get(priority)
        if one is None:
            one = priorities[priority] = PriorityTurns(priority, as_number_us(virtual))
        name = NO_GROUP if fair is None else fair
        one.finished[name] = as_number_us(finished)
        one.add(name, Group(fair, jobs, is_whole=len(jobs) < each))
    return QueueTurns(priorities.values(), ageing)


def ahead(context: SqliteContext, queue: str, seq: int, ageing: Wait | None) -> int | None:
    """How many jobs of this queue start before this ready job if nothing changes."""
    order = load(context, queue, ALL_JOBS, ageing).start_many(ALL_JOBS)
    return order.index(seq) if seq in order else None


def claim_groups(
    context: SqliteContext, queue: str, wanted: Wanted, busy: list[Busy]
) -> tuple[list[Claim], bool]:
    """Claim from a queue that has groups. Returns the claims, and whether the search was cut short.
    Jobs that could not pass a gate are added to `busy`."""
    now, taken, examined = context.now, list[Any](), 0
    turns = load(context, queue, wanted.limit, wanted.ageing)
    admission = Admission(context, queue, busy)
    while len(taken) < wanted.limit and examined < SCAN_JOBS and turns.next():
        before = turns.copied()
        rows = _rows(context, turns, before, min(wanted.limit - len(taken), READ_JOBS))
        if any(row[-1].__class__ is tuple for row in rows):  # rare fields: it may have a key
            turns = before
            rows, seen = _admitted(turns, {row[0]: row for row in rows}, admission)
            examined += seen
        taken += rows
        if len(taken) < wanted.limit:
            _read_on(context, queue, turns)
    admission.finish()
    if taken:
        seqs, until = as_json([row[0] for row in taken]), now + wanted.lease
        context.run("claim_take", seqs=seqs, now=now, until=until, worker=wanted.worker)
        for one in turns.priorities:
            if one.moved:
                moved = {name: one.finished[name] for name in one.moved}
                store_turns(context, queue, one.priority, one.virtual, moved)
    cut_short = len(taken) < wanted.limit and turns.next() is not None
    return [to_claim(row, now) for row in taken], cut_short


def _rows(context: SqliteContext, turns: QueueTurns, before: QueueTurns, most: int) -> list[Any]:
    """Start the next jobs, as many as fit into one text, and read their rows. `before` is a copy of
    the turns."""
    seqs = turns.start_many(most)
    try:
        text = context.value("claim_rows", seqs=as_json(seqs))
    except sqlite3.DataError:
        if len(seqs) <= 1:
            raise
        turns.priorities = before.copied().priorities
        return _rows(context, turns, before, len(seqs) // 2)
    rows = {row[0]: row for row in read_candidates(text)}
    return [rows[seq] for seq in seqs]


def _admitted(
    turns: QueueTurns, rows: dict[int, Any], admission: Admission
) -> tuple[list[Any], int]:
    """The rows that may run, in the order of the turns, and how many were examined. A job that
    cannot pass a gate takes no turn, so the turns go on as far as the rows are known."""
    admission.load(rows.values())
    admitted, examined = [], 0
    while one := turns.next():
        row = rows.get(one.heap[0][2])
        if row is None:
            break
        examined += 1
        starts = admission.admits(row)
        if starts:
            admitted.append(row)
        if one.take(starts=starts):
            break
    return admitted, examined


def _read_on(context: SqliteContext, queue: str, turns: QueueTurns) -> None:
    """Look up more jobs of the groups that are used up, behind the last one that is known."""
    for one in turns.priorities:
        for name in one.used_up():
            fair, [*_, (due, seq, _)] = one.groups[name].fair, one.groups[name].jobs
            text = context.value(
                "claim_more_of_group",
                queue=queue,
                priority=one.priority,
                fair=fair,
                now=context.now,
                due=due,
                seq=seq,
                limit=MORE_JOBS,
            )
            jobs = _read_jobs(text)
            one.add(name, Group(fair, jobs, is_whole=len(jobs) < MORE_JOBS))


def store_turns(
    context: SqliteContext, queue: str, priority: int, virtual: int, finished: dict[str, int]
) -> None:
    """Store the virtual times of a priority and of some of its groups, and forget the groups that
    are not ahead of it."""
    which = {"queue": queue, "priority": priority, "virtual": virtual}
    context.run("claim_turn_moves", **which)
    moved = [(queue, priority, name, tag) for name, tag in finished.items()]
    context.run_many("claim_group_moves", moved)
    context.run("claim_forget_groups", **which)
