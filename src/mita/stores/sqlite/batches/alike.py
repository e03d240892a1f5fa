"""Runs that ended alike: their jobs differ only in due time and note. Binding a value costs as much
as writing a column, so the values that they share are bound once."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from mita.model.job import State
from mita.model.outcome import TimelineKind, Verdict
from mita.model.time import Moment
from mita.rules.states import TERMINAL
from mita.stores.shared.record import COUNTERS
from mita.stores.sqlite.context import NotedLine, SqliteContext

ALIKE_RUNS = 8  # so many runs that ended alike are worth a statement of their own


class SharedEnd(NamedTuple):
    """What runs that ended alike have in common, as the columns of their jobs have it. The last
    three are in the line of their timelines."""

    state: str
    error: str | None
    result: bytes | None
    counter: str
    is_stranded: bool
    finished: Moment | None
    expires: Moment | None
    group: str | None
    due_fixed: bool
    event: TimelineKind
    failure: str
    worker: str | None


class EndedRun(NamedTuple):
    """What is its own for each job: its number, its due time (None: as it was), and the note."""

    seq: int
    due: Moment | None
    note: str


def shared_end(verdict: Verdict, now: Moment, *, due_fixed: bool) -> SharedEnd:
    """What this verdict says of every job that it is about."""
    state, ended = verdict.state, verdict.state in TERMINAL
    return SharedEnd(
        state.value,
        verdict.error,
        verdict.result if state is State.SUCCEEDED else None,
        verdict.counts.value if verdict.counts else "",
        verdict.stranded,
        now if ended else None,
        now + verdict.keep if ended else None,
        verdict.group if state is State.FAILED else None,
        due_fixed,
        verdict.event,
        verdict.failure,
        verdict.worker,
    )


def write(context: SqliteContext, runs: Iterable[tuple[SharedEnd, EndedRun]]) -> None:
    """Write the ends of runs: lines of timelines first, which name the worker that has the job."""
    kinds: dict[SharedEnd, list[EndedRun]] = {}
    for shared, run in runs:
        kinds.setdefault(shared, []).append(run)
    single = [(kind, of_kind) for kind, of_kind in kinds.items() if len(of_kind) < ALIKE_RUNS]
    for kind, of_kind in kinds.items():
        if len(of_kind) >= ALIKE_RUNS:
            _write_alike(context, kind, of_kind)
    _write_single(context, [(kind, run) for kind, of_kind in single for run in of_kind])


def _write_alike(context: SqliteContext, kind: SharedEnd, runs: list[EndedRun]) -> None:
    if kind.event:
        shared = (context.now, kind.event, kind.worker, kind.failure)
        context.note_alike([(run.seq, run.note) for run in runs], shared)
    stranded = context.now if kind.is_stranded else None
    first = (kind.state, kind.due_fixed, kind.error, kind.result, stranded)
    last = (kind.finished, kind.expires, kind.group)
    counted = [kind.counter == name for name in COUNTERS]
    rows = [(run.seq, run.due) for run in runs]
    context.run_many("settle_alike", rows, (*first, *last, *counted))


def _write_single(context: SqliteContext, runs: list[tuple[SharedEnd, EndedRun]]) -> None:
    context.note_many(
        [
            NotedLine(run.seq, kind.event, run.note, kind.failure, kind.worker)
            for kind, run in runs
            if kind.event
        ],
        after_run=True,
    )
    context.run_many("settle_many", [_row(context, kind, run) for kind, run in runs])


def _row(context: SqliteContext, kind: SharedEnd, run: EndedRun) -> tuple[Any, ...]:
    """A row of `settle_many`."""
    stranded = context.now if kind.is_stranded else None
    first = (run.seq, kind.state, run.due, kind.error, kind.result, kind.counter, stranded)
    return (*first, kind.finished, kind.expires, kind.due_fixed, kind.group)
