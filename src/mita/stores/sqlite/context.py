"""What a verb works with, and how it becomes a method of the store."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import update_wrapper
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field

from mita.model.gate import Gate, StoredLimit
from mita.model.outcome import TimelineKind
from mita.model.time import Moment, Wait
from mita.rules.gates import ReturnedTokens
from mita.rules.timeline import TIMELINE_LINES

from .file.statements import Statements

P = ParamSpec("P")
T = TypeVar("T")

STATEMENT_ROWS = 256  # rows in one statement at most
PADDED_ROWS = 1024  # the same, of a statement whose rows may be repeated
_to_json = msgspec.json.Encoder().encode


class Wanted(NamedTuple):
    """What a claim asks for. `ageing`: see `mita.ports.store`."""

    limit: int
    lease: Wait
    worker: str
    ageing: Wait | None


class NotedLine(NamedTuple):
    """A line of a timeline that is to be written: the number of its job, and what it says. `error`
    is '' if there is none."""

    seq: int
    kind: TimelineKind
    note: str
    error: str = ""
    worker: str | None = None


def as_json(values: Iterable[Any]) -> str:
    """A list for `json_each`: one statement for all values instead of one for each."""
    return _to_json(list(values)).decode()


class SqliteContext(Struct):
    """One transaction: the connection, the statements, the time, and the topics to notify after
    the commit.

    `now` is the store's clock, read once, after the lock was taken. `room` is the number of bytes
    that the arguments and the result of a job may have."""

    connection: sqlite3.Connection
    sql: Statements
    path: Path
    room: int
    now: Moment
    topics: set[str] = field(default_factory=set)
    returned: ReturnedTokens | None = None

    def returned_us(
        self, rate: Gate | StoredLimit, queue: str, key: str | None, claimed: Moment
    ) -> int:
        """By how much a start that did not happen moves the number of a rate back."""
        if self.returned is None:
            self.returned = ReturnedTokens(self.now)
        return self.returned.returned_us(rate, queue, key, claimed)

    def run(self, name: str, /, **values: Any) -> int:
        """Run a statement. Returns how many rows it changed."""
        return self.connection.execute(self.sql[name], values).rowcount

    def row(self, name: str, /, **values: Any) -> Any:
        """The first row that a statement returns, or None."""
        return self.connection.execute(self.sql[name], values).fetchone()

    def rows(self, name: str, /, **values: Any) -> list[Any]:
        """All rows that a statement returns."""
        return self.connection.execute(self.sql[name], values).fetchall()

    def value(self, name: str, /, **values: Any) -> Any:
        """The single value that a statement returns."""
        return self.connection.execute(self.sql[name], values).fetchone()[0]

    def run_many(self, name: str, rows: Sequence[Sequence[Any]], shared: Sequence[Any] = ()) -> int:
        """Run a statement over many rows of values; `shared` values come before them. Returns how
        many rows it changed."""
        changed = 0
        for part in _parts(rows) if len(rows) != 1 else (rows,):
            text = self.sql[name, len(part), len(part[0])]
            values = (*shared, *chain.from_iterable(part))
            changed += self.connection.execute(text, values).rowcount
        return changed

    def run_padded(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement over many rows of values, for which it does not matter if the last row is
        there several times. It takes fewer statements than `run_many`: beside a busy event loop the
        interpreter lock makes each statement expensive, and other writers wait for its end."""
        for at in range(0, len(rows), PADDED_ROWS):
            some = rows[at : at + PADDED_ROWS]
            size = 1 << (len(some) - 1).bit_length()
            values = chain.from_iterable((*some, *[some[-1]] * (size - len(some))))
            self.connection.execute(self.sql[name, size, len(some[0])], tuple(values))

    def texts(self, name: str, rows: Sequence[Sequence[Any]]) -> list[str]:
        """Run a statement that returns one text over many rows of values."""
        return [
            self.connection.execute(
                self.sql[name, len(part), len(part[0])], tuple(chain.from_iterable(part))
            ).fetchone()[0]
            for part in _parts(rows)
        ]

    def note(
        self,
        seq: int,
        kind: TimelineKind,
        note: str,
        worker: str | None = None,
        error: str = "",
    ) -> None:
        """Add a line to the timeline of a job."""
        self.run("note", job=seq, at=self.now, kind=kind, note=note, worker=worker, error=error)
        self._fold([seq])

    def note_many(self, lines: Sequence[NotedLine], *, after_run: bool = False) -> None:
        """Add a line to the timeline of each of several jobs. `after_run`: a line without a worker
        gets the one that has its job."""
        if lines:
            self.run_many("note_many", lines, (self.now, after_run))
            self._fold(line.seq for line in lines)

    def note_alike(self, lines: Sequence[tuple[int, str]], shared: tuple[Any, ...]) -> None:
        """Add lines that differ only in job and note to timelines, after runs that have ended.
        `shared`: the time, kind, worker and error of the lines."""
        self.run_many("note_alike", lines, shared)
        self._fold(seq for seq, _ in lines)

    def _fold(self, seqs: Iterable[int]) -> None:
        """Shorten the timelines of these jobs, to which one line was added (`rules.timeline`)."""
        which = as_json(seqs)
        if self.value("note_fold_any", seqs=which, keep=TIMELINE_LINES):
            self.run("note_fold", seqs=which, keep=TIMELINE_LINES)
            self.run("note_fold_delete", seqs=which, keep=TIMELINE_LINES)


def _parts(rows: Sequence[Sequence[Any]]) -> Iterable[Sequence[Sequence[Any]]]:
    """The rows in parts whose lengths are powers of two, so that few statements are prepared."""
    start = 0
    while start < len(rows):
        left = len(rows) - start
        size = STATEMENT_ROWS if left >= STATEMENT_ROWS else 1 << (left.bit_length() - 1)
        yield rows[start : start + size]
        start += size


# ------------------------------------------------------------ methods of the store


class VerbThread(Protocol):
    """A thread that runs verbs."""

    async def call(
        self,
        verb: Callable[..., T],
        args: tuple[Any, ...] = (),
        named: Mapping[str, Any] | None = None,
        *,
        durable: bool = True,
    ) -> T:
        """Run `verb(context, *args, **named)`."""


class HasThreads(Protocol):
    """A store with a thread that writes and a thread that reads. `ageing`: see
    `mita.ports.store`."""

    ageing: Wait | None

    @property
    def writer(self) -> VerbThread: ...

    @property
    def reader(self) -> VerbThread: ...


Method: TypeAlias = Callable[Concatenate[HasThreads, P], Coroutine[Any, Any, T]]


def written(
    verb: Callable[Concatenate[SqliteContext, P], T], *, durable: bool = True
) -> Method[P, T]:
    """A method that calls `verb` inside a transaction of the writing thread. `durable`: what it
    wrote is on disk when the method returns."""
    return _method(verb, attrgetter("writer"), durable=durable)


def read(verb: Callable[Concatenate[SqliteContext, P], T]) -> Method[P, T]:
    """A method that calls `verb` on the reading thread."""
    return _method(verb, attrgetter("reader"), durable=False)


def _method(
    verb: Callable[Concatenate[SqliteContext, P], T],
    thread_of: Callable[[HasThreads], VerbThread],
    *,
    durable: bool,
) -> Method[P, T]:
    async def method(self: HasThreads, /, *args: P.args, **named: P.kwargs) -> T:
        return await thread_of(self).call(verb, args, named, durable=durable)

    update_wrapper(method, verb)
    return method


class VerbCall(Struct, eq=False):
    """A verb with its arguments on the way to the thread, and its result on the way back."""

    verb: Callable[..., Any]
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    durable: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None
    given_up: bool = False


def set_results(calls: list[VerbCall]) -> None:
    """On the event loop: hand the results to the callers."""
    for call in calls:
        if call.future.done():  # the caller was cancelled; the call was made all the same
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)
