"""A connection of our own, the calls that wait for it, and what happens when it breaks."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import pq

from mita.errors import MitaError, StoreError
from mita.ports.backoff import Backoff
from mita.ports.clock import Clock
from mita.ports.store import SILENCE

from . import aside
from .connection import ANSWER, Connection, NoAnswer, connect, translated, was_rolled_back
from .silence import Waiting
from .statements import Statements
from .steps import Act, Ask, Rows, Step, Steps, ask
from .watermarks import Marks

T = TypeVar("T")
FIRST_PAUSE_S, LONGEST_PAUSE_S, MOST_TRIES = 0.05, 1.6, 6  # after a transient error
PATIENCE = 5.0  # seconds that closing waits for calls that are under way
UNSYNCED = ask("unsynced")
STILL = "begin isolation level repeatable read, read only"
_IDLE = pq.TransactionStatus.IDLE


class Place:
    """What all lines of one store have in common."""

    def __init__(self, told: dict[str, Any], sql: Statements, clock: Clock | None) -> None:
        self.told = told
        self.sql = sql
        self.clock = clock
        self.silence = SILENCE
        self.marks = Marks()
        self.queues: set[str] = set()
        self.fit: WeakSet[Any] = WeakSet()  # the users' connections on which jobs can be written
        self.ring: Callable[[set[str]], None] = lambda _: None

    def act(self, *, tried: bool) -> Act:
        return Act(self.sql.namespace, self.marks, self.queues, tried=tried)

    def bound(self, question: Ask) -> tuple[str, dict[str, Any]]:
        """A statement's text and values."""
        values = (
            question.values if self.clock is None else {**question.values, "now": self.clock.now()}
        )
        return question.text or self.sql[question.name], values


class Line:
    """Calls are served one after the other. The connection is made at the first, and again after it
    was lost."""

    def __init__(self, place: Place, settings: dict[str, str], answer: float = ANSWER) -> None:
        self._place = place
        self._settings = settings
        self._answer = answer
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def do(self, verb: Callable[[Act], Steps[T]], *, again: bool = False) -> T:
        """Run a verb. `again`: doing it twice is as good as once, so it is tried again even if
        nobody knows how far it came.

        A caller who is cancelled leaves; the call is finished all the same: the connection is never
        left in the middle."""
        if self._closed:
            raise StoreError("the store was closed", transient=False)
        call = asyncio.get_running_loop().create_task(self._serve(verb, again=again))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            call.add_done_callback(_retrieve)  # its error is of interest to nobody any more
            raise

    async def _serve(self, verb: Callable[[Act], Steps[T]], *, again: bool) -> T:
        async with self._turn:
            tried = False
            backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
            while True:
                act = self._place.act(tried=tried)
                try:
                    result = await self._attempt_readable(verb, act)
                except (psycopg.Error, MitaError) as error:
                    ours = self._ours(error)
                    sent = isinstance(error, psycopg.Error) and not was_rolled_back(error)
                    if (
                        backoff.failures == MOST_TRIES
                        or not getattr(ours, "transient", False)
                        or (sent and not again)
                        or isinstance(error, NoAnswer)
                    ):
                        raise ours from (error if ours is not error else error.__cause__)
                    tried = tried or sent
                else:
                    if act.topics:
                        self._place.ring(act.topics)
                    return result
                await backoff.sleep()

    async def _attempt_readable(self, verb: Callable[[Act], Steps[T]], act: Act) -> T:
        """Once more if it may have met records that cannot be read, and they could be set aside."""
        try:
            return await self._attempt(verb(act))
        except Exception as error:
            if not aside.may_be_a_record(error) or not await self._attempt(
                aside.set_aside(act, self._place.sql)
            ):
                raise
        return await self._attempt(verb(act))

    async def _attempt(self, steps: Steps[T]) -> T:
        connection = await self.connection()
        try:
            with Waiting(self._place.told, connection, self._answer, self._place.silence):
                return await drive(connection, self._place, steps)
        except BaseException:
            await self._tidy(connection)
            raise

    async def connection(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = await connect(self._place.told, self._settings)
        return self._connection

    async def _tidy(self, connection: Connection) -> None:
        """After an error: leave the transaction, or the whole connection if that is not
        possible."""
        try:
            if not connection.closed and connection.info.transaction_status is not _IDLE:
                await connection.rollback()
            usable = not connection.closed and connection.info.transaction_status is _IDLE
        except (psycopg.Error, OSError):
            usable = False
        if not usable:
            self._connection = None
            with suppress(psycopg.Error, OSError):
                await connection.close()

    def _ours(self, error: psycopg.Error | MitaError) -> MitaError:
        return translated(error, self._place.told) if isinstance(error, psycopg.Error) else error

    async def close(self) -> None:
        """After the calls that are under way, unless they hang."""
        self._closed = True
        if self._calls:
            _, hanging = await asyncio.wait(self._calls, timeout=PATIENCE)
            for call in hanging:
                call.cancel()
        if self._connection is not None:
            with suppress(psycopg.Error, OSError):
                await self._connection.close()


# ---------------------------------------------------------------- the driver of our own connections


async def drive(connection: Connection, place: Place, steps: Steps[T]) -> T:
    """Run steps: each in one round trip, in transactions that end where a step says so."""
    inside = False
    answers: list[Rows] | None = None
    while True:
        try:
            step = next(steps) if answers is None else steps.send(answers)
        except StopIteration as stop:
            if inside:
                await connection.execute("commit")
            return stop.value  # type: ignore[no-any-return]
        answers = await _run(connection, place, step, begin=not inside, end=step.last)
        inside = not step.last


async def _run(
    connection: Connection, place: Place, step: Step, *, begin: bool, end: bool
) -> list[Rows]:
    asks = step.asks if step.synced else [UNSYNCED, *step.asks]
    texts = [place.bound(question) for question in asks]
    # what a pipeline sends in one go is a transaction by itself
    alone = begin and end and not step.still
    if alone and len(texts) <= 1:
        cursors = [await connection.execute(text, values, binary=True) for text, values in texts]
    else:
        async with connection.pipeline():
            if begin and not alone:
                await connection.execute(STILL if step.still else "begin")
            cursors = [
                await connection.execute(text, values, binary=True) for text, values in texts
            ]
            if end and not alone:
                await connection.execute("commit")
    return [
        await cursor.fetchall() if cursor.description else []
        for cursor in cursors[len(asks) - len(step.asks) :]
    ]


def _retrieve(call: asyncio.Task[Any]) -> None:
    """Take the error of a call whose caller has left, or asyncio logs it as never retrieved."""
    if not call.cancelled():
        call.exception()
