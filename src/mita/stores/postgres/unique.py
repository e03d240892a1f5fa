"""Unique keys: which job has one, and giving them out. Also what an enqueue with `debounce` or
`throttle` does that meets a taken key, as `rules.twins` says."""

from collections.abc import Sequence
from typing import NamedTuple

from mita.model.job import NewJob, Receipt, State
from mita.model.time import Moment
from mita.rules.twins import TwinAct, act_on_twin, debounced_due

from .codec import Row, Rows
from .context import Query, RoundTrip, RoundTrips, query
from .server.arrays import blobs, jsons, numbers, texts
from .throughput import new_columns


def take(jobs: list[NewJob]) -> Query:
    """Give unique keys to these jobs. If several jobs of a batch have the same key, the first gets
    it. Sorted, so that two batches with the same keys cannot deadlock."""
    first = {(job.queue, job.unique or ""): job.id for job in reversed(jobs)}
    keys = sorted(first)
    return query(
        "unique_take",
        queues=texts([queue for queue, _ in keys]),
        keys=texts([key for _, key in keys]),
        ids=texts([first[key] for key in keys]),
    )


def holders(jobs: list[NewJob]) -> Query:
    """Which jobs have the unique keys of these jobs."""
    return query(
        "unique_holders",
        queues=texts([job.queue for job in jobs]),
        keys=texts([job.unique for job in jobs]),
    )


# ------------------------------------------------------------------------- debounce and throttle


class Twin(NamedTuple):
    """The job that has a unique key. `state` is None for a job that is gone: it keeps the key for a
    while."""

    id: str
    state: State | None
    created: Moment
    blocked_at: str | None = None


class Move(NamedTuple):
    """A waiting job that gets the arguments and the due time of a newer enqueue."""

    id: str
    due: Moment
    new: NewJob


class TwinBatch:
    """The jobs of one enqueue, some with `debounce` or `throttle`. They are stored, and act on each
    other and on stored jobs, in their order."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self._jobs = jobs
        self.receipts: list[Receipt] = []
        self.queues: set[str] = set()  # of the jobs that were stored or moved
        self.left_keys: list[tuple[str, str | None]] = []  # at which moved jobs waited
        self._twins: dict[tuple[str, str], Twin] = {}
        self._given: dict[tuple[str, str], NewJob] = {}
        self._acts: list[list[NewJob] | list[Move]] = []
        self._now: Moment = 0

    def run(self) -> RoundTrips[None]:
        """Store the jobs, or act on the jobs that have their keys. The keys and these jobs are
        locked first, so that it is one act."""
        keys = sorted({(job.queue, job.unique) for job in self._jobs if job.unique is not None})
        where = {"queues": texts([key[0] for key in keys]), "keys": texts([key[1] for key in keys])}
        ids = texts([job.id for job in self._jobs])
        yield RoundTrip(query("unique_lock", **where))
        _, found, known = yield RoundTrip(
            query("unique_twins", **where),
            query("unique_read", **where),
            query("enqueue_known_ids", ids=ids),
        )
        self._read(found)
        present = {id for (id,) in known}
        for job in self._jobs:
            self.receipts.append(self._enqueue(job, present))
        if queries := self._queries():
            yield RoundTrip(*queries)

    def _read(self, found: Rows) -> None:
        for row in found:
            self._now = row[4]
            if (twin := _twin(row)) is not None:
                self._twins[row[0], row[1]] = twin

    def _enqueue(self, new: NewJob, present: set[str]) -> Receipt:
        if new.id in present:
            return Receipt(new.id, created=False)
        key = (new.queue, new.unique or "")
        twin = None if new.unique is None else self._twins.get(key)
        if twin is not None:
            act = TwinAct.KEEP if twin.state is None else act_on_twin(new, twin.state)
            if act is TwinAct.MOVE:
                move = Move(twin.id, debounced_due(new, twin.created, self._now), new)
                self._add_move(move)
                self.left_keys.append((new.queue, twin.blocked_at))
                self.queues.add(new.queue)
            if act is not TwinAct.REPLACE:
                return Receipt(twin.id, created=False)
        if new.unique is not None:
            self._twins[key] = Twin(new.id, State.QUEUED, self._now)
            self._given[key] = new
        present.add(new.id)
        self._add_job(new)
        self.queues.add(new.queue)
        return Receipt(new.id)

    def _add_job(self, new: NewJob) -> None:
        if not self._acts or not isinstance(self._acts[-1][0], NewJob):
            self._acts.append([])
        self._acts[-1].append(new)  # type: ignore[arg-type]

    def _add_move(self, move: Move) -> None:
        """One statement moves several jobs, but none twice."""
        last = self._acts[-1] if self._acts else []
        if not last or any(not isinstance(one, Move) or one.id == move.id for one in last):
            self._acts.append([])
        self._acts[-1].append(move)  # type: ignore[arg-type]

    def _queries(self) -> list[Query]:
        queries = []
        if self._given:
            jobs = list(self._given.values())
            queries.append(
                query(
                    "unique_give",
                    queues=texts([job.queue for job in jobs]),
                    keys=texts([job.unique for job in jobs]),
                    ids=texts([job.id for job in jobs]),
                    throttles=numbers(job.throttle or None for job in jobs),
                )
            )
        for act in self._acts:
            new = [one for one in act if isinstance(one, NewJob)]
            moves = [one for one in act if isinstance(one, Move)]
            queries.append(
                Query("enqueue_decided", new_columns.columns(new)) if new else _move(moves)
            )
        return queries


def _twin(row: Row) -> Twin | None:
    """The job that has a key; None if the key is free."""
    _, _, id, until, now, state, created, blocked_at = row
    if not id or (until is not None and until <= now):
        return None
    return Twin(id, None if state is None else State(state), created or 0, blocked_at)


def _store(jobs: list[NewJob]) -> Query:
    return Query("enqueue_decided", new_columns.columns(jobs))


def _move(moves: list[Move]) -> Query:
    return query(
        "enqueue_move",
        ids=texts([move.id for move in moves]),
        dues=numbers(move.due for move in moves),
        payloads=blobs([move.new.payload for move in moves]),
        options=blobs([move.new.options for move in moves]),
        headers=blobs([move.new.headers for move in moves]),
        tags=jsons([move.new.tags or None for move in moves]),
    )
