"""A connection of the store: it serves one call at a time, reconnects, and retries."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncRawCursor, pq

from mita.errors import MitaError, StoreError
from mita.ports.backoff import Backoff

from . import maintenance
from .codec import Rows
from .context import PostgresContext, Query, RoundTrip, RoundTrips, StoreState
from .server.connect import CALL_TIMEOUT_S, PsycopgConnection, connect, is_pooled
from .server.errors import NoAnswerInTime, translated, was_rolled_back
from .server.silence import SilenceWatchdog
from .server.statements import numbered

T = TypeVar("T")
FIRST_RETRY_S, LONGEST_RETRY_S, MOST_RETRIES = 0.05, 1.6, 6  # after a transient error
CLOSE_TIMEOUT_S = 5.0  # how long closing waits for calls that are under way
UNSYNCED = Query("unsynced", {}, "select set_config('synchronous_commit', 'off', true)")
BEGIN_SNAPSHOT = "begin isolation level repeatable read, read only"
_IDLE = pq.TransactionStatus.IDLE


class SerialConnection:
    """Serves calls one after the other. Connects at the first call, and again after the connection
    was lost."""

    def __init__(
        self, state: StoreState, settings: dict[str, str], timeout_s: float = CALL_TIMEOUT_S
    ) -> None:
        self._state = state
        self._settings = settings
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()
        self._connection: PsycopgConnection | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def run(
        self, verb: Callable[[PostgresContext], RoundTrips[T]], *, repeatable: bool = False
    ) -> T:
        """Run a verb. `repeatable`: running it twice has the same effect as once, so it is retried
        even if it is unknown whether it was committed.

        When the caller is cancelled, the call is finished all the same: the connection is never
        left in the middle of a transaction."""
        if self._closed:
            raise StoreError("the store was closed", transient=False)
        call = asyncio.get_running_loop().create_task(self._serve(verb, repeatable=repeatable))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            call.add_done_callback(_retrieve)
            raise

    async def _serve(
        self, verb: Callable[[PostgresContext], RoundTrips[T]], *, repeatable: bool
    ) -> T:
        async with self._turn:
            maybe_done = False
            backoff = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S)
            while True:
                context = PostgresContext(self._state, maybe_done=maybe_done)
                try:
                    result = await self._attempt_readable(verb, context)
                except (psycopg.Error, MitaError) as error:
                    ours = self._translated(error)
                    sent = isinstance(error, psycopg.Error) and not was_rolled_back(error)
                    if (
                        backoff.failures == MOST_RETRIES
                        or not getattr(ours, "transient", False)
                        or (sent and not repeatable)
                        or isinstance(error, NoAnswerInTime)
                    ):
                        raise ours from (error if ours is not error else error.__cause__)
                    maybe_done = maybe_done or sent
                else:
                    self._committed(context)
                    return result
                await backoff.sleep()

    def _committed(self, context: PostgresContext) -> None:
        if context.new_queues:
            self._state.known_queues |= context.new_queues
        if context.topics:
            self._state.notify(context.topics)

    async def _attempt_readable(
        self, verb: Callable[[PostgresContext], RoundTrips[T]], context: PostgresContext
    ) -> T:
        """Run the verb; once more if it may have read unreadable records and they were set
        aside."""
        try:
            return await self._attempt(verb, context)
        except Exception as error:
            if not maintenance.may_be_a_record(error) or not await self._attempt(
                maintenance.set_aside, context
            ):
                raise
        return await self._attempt(verb, context)

    async def _attempt(
        self, verb: Callable[[PostgresContext], RoundTrips[T]], context: PostgresContext
    ) -> T:
        connection = await self.connected()
        context.pooled = is_pooled(connection)
        state = self._state
        try:
            with SilenceWatchdog(state.params, connection, self._timeout_s, state.silence):
                return await drive(connection, state, verb(context))
        except BaseException:
            await self._leave_transaction(connection)
            raise

    async def connected(self) -> PsycopgConnection:
        """The driver's connection, made now if there is none."""
        if self._connection is None or self._connection.closed:
            self._connection = await connect(self._state.params, self._settings)
        return self._connection

    async def _leave_transaction(self, connection: PsycopgConnection) -> None:
        """Roll back after an error. Drop the connection if that is not possible."""
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

    def _translated(self, error: psycopg.Error | MitaError) -> MitaError:
        return translated(error, self._state.params) if isinstance(error, psycopg.Error) else error

    async def close(self) -> None:
        """Wait a while for the calls that are under way, cancel the rest, and disconnect."""
        self._closed = True
        if self._calls:
            _, hanging = await asyncio.wait(self._calls, timeout=CLOSE_TIMEOUT_S)
            for call in hanging:
                call.cancel()
        if self._connection is not None:
            with suppress(psycopg.Error, OSError):
                await self._connection.close()


def _retrieve(call: asyncio.Task[Any]) -> None:
    """Take the error of a call whose caller was cancelled; asyncio would log it as never
    retrieved."""
    if not call.cancelled():
        call.exception()


# ------------------------------------------------------------------------------ running round trips


async def drive(connection: PsycopgConnection, state: StoreState, verb: RoundTrips[T]) -> T:
    """Run a verb's round trips, in transactions that end where a round trip says so."""
    inside = False
    answers: list[Rows] | None = None
    while True:
        try:
            trip = next(verb) if answers is None else verb.send(answers)
        except StopIteration as stop:
            if inside:
                await connection.execute("commit")
            return stop.value  # type: ignore[no-any-return]
        answers = await _send(connection, state, trip, inside=inside)
        inside = not trip.last


async def _send(
    connection: PsycopgConnection, state: StoreState, trip: RoundTrip, *, inside: bool
) -> list[Rows]:
    queries = trip.queries if trip.synced else [UNSYNCED, *trip.queries]
    texts = [state.bound(one) for one in queries]
    commit, begin, end = inside and trip.first, trip.first or not inside, trip.last
    # what a pipeline sends in one go is a transaction by itself
    alone = begin and end and not trip.snapshot
    if alone and not commit and len(texts) <= 1:
        cursors = [await execute(connection, text, values) for text, values in texts]
    else:
        async with connection.pipeline():
            if commit:
                await connection.execute("commit")
            if begin and not alone:
                await connection.execute(BEGIN_SNAPSHOT if trip.snapshot else "begin")
            cursors = [await execute(connection, text, values) for text, values in texts]
            if end and not alone:
                await connection.execute("commit")
    return [
        await cursor.fetchall() if cursor.description else []
        for cursor in cursors[len(queries) - len(trip.queries) :]
    ]


async def execute(
    connection: PsycopgConnection, text: str, values: dict[str, Any]
) -> AsyncRawCursor[tuple[Any, ...]]:
    """Send a statement with its values. The cursor takes the text as it is: another one looks for
    named values in it, each time if the text has more than 4,096 characters."""
    statement, names = numbered(text)
    cursor = AsyncRawCursor(connection)
    cursor.format = pq.Format.BINARY
    return await cursor.execute(statement, [values[name] for name in names])
