"""The relay: it sends the rows of an outbox to the store, in their order.

A row is sent in three steps, so that its job runs once whatever is killed in between:

1. The job is enqueued under the id of the row, **held**: due at the end of time. An id that exists
   changes nothing, so this step can be repeated.
2. The row is marked as placed.
3. The job is told that it may start, as a step of a flow is told. Telling it twice changes nothing,
   nor does telling a job that has ended or was deleted. Then the row is deleted.

Only a row that is not placed is ever enqueued, and its job cannot have started. So no job is
enqueued again after it has run, however short its record is kept."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import MsgspecError

from mita.engine.backoff import StoreBackoff
from mita.errors import MitaError, Rejected, StoreError, UsageError
from mita.model.flow import Arrival
from mita.model.job import NewJob
from mita.model.outbox import OutboxRow, RowState
from mita.model.outcome import CancelJob
from mita.model.time import LATEST, NOW
from mita.ports.store import Can, Store
from mita.printable import printable

from .databases import OutboxConnection
from .rows import RELEASER, as_row, held, job_of
from .statements import OutboxStatements

log = logging.getLogger("mita.relay")

BATCH_ROWS = 200
STANDBY_S = 1.0  # between two tries to get the lock
LONGEST_PAUSE_S = 5.0  # while the database or the store is unreachable
MOST_ERROR_BYTES = 2_000


class SentRows:
    """What becomes of the rows of one batch: `placed` are to be released, `done` are over, and
    `parked` were refused, each with the reason."""

    def __init__(self) -> None:
        self.placed: list[tuple[OutboxRow, NewJob]] = []
        self.done: list[str] = []
        self.parked: dict[str, str] = {}


class RowSender:
    """Sends rows until it is cancelled. `connect` opens a connection to the database."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Any],
        statements: OutboxStatements,
        store: Store,
        relay: str,
        poll: float,
        shown: str,
    ) -> None:
        self._outbox, self._connect, self._sql = name, connect, statements
        self._store, self._relay, self._poll, self._shown = store, relay, poll, shown

    async def run(self) -> None:
        """Be the relay of this outbox, or wait for the one that is."""
        backoff = StoreBackoff("relay the rows of the outbox", LONGEST_PAUSE_S)
        while True:
            try:
                async with self._connect() as connection:
                    await self._stand_by(connection, backoff)
                    await self._turn(connection, backoff)
                    log.info("%s relays the outbox in %s", self._relay, self._shown)
                    while True:
                        await self._turn(connection, backoff)
            except MitaError as error:  # of the database: the lock is lost with the connection
                await backoff.after(_as_store_error(error))
            except Exception as error:
                # a fault of ours must not end the worker that this runs in
                log.exception("the relay of the outbox failed and starts again")
                await backoff.after(StoreError(f"{type(error).__name__}: {error}", transient=True))

    async def _stand_by(self, connection: OutboxConnection, backoff: StoreBackoff) -> None:
        if await connection.lock(self._outbox):
            return
        log.info("%s stands by: another relay sends the rows of the outbox", self._relay)
        while not await connection.lock(self._outbox):
            backoff.reset()
            await asyncio.sleep(STANDBY_S)

    async def _turn(self, connection: OutboxConnection, backoff: StoreBackoff) -> None:
        """Send one batch, or wait a moment if there is none."""
        values = {"outbox": self._outbox, "limit": BATCH_ROWS}
        rows = [as_row(row) for row in await connection.run((self._sql.pending, values))]
        try:
            if rows:
                await self._send(connection, rows)
        except CannotSend as away:
            await backoff.after(away.error)
            return
        backoff.reset()
        if len(rows) < BATCH_ROWS:
            await asyncio.sleep(self._poll)

    async def _send(self, connection: OutboxConnection, rows: Sequence[OutboxRow]) -> None:
        sending = SentRows()
        fresh: list[tuple[OutboxRow, NewJob]] = []
        for row in rows:
            try:
                job = job_of(row)
            except MsgspecError as error:
                sending.parked[row.id] = f"the row cannot be read: {error}"
                continue
            (sending.placed if row.state is RowState.PLACED else fresh).append((row, job))
        await self._place(fresh, sending)
        marked = await self._write_down(connection, sending)
        ours = [
            job for row, job in sending.placed if row.state is RowState.PLACED or row.id in marked
        ]
        await self._release(ours)
        await self._forget([row.id for row, job in sending.placed if job not in ours], connection)
        if ids := [job.id for job in ours]:
            await connection.run((self._sql.remove, {"outbox": self._outbox, "ids": ids}))
        log.debug("relayed %d rows of the outbox", len(ids) + len(sending.done))

    async def _write_down(self, connection: OutboxConnection, sending: SentRows) -> set[str]:
        """Note in the database what the store has taken and what it has refused. Returns the ids of
        the rows that are marked as placed. A row that is not among them was taken by another relay
        in the meantime, which only happens if the lock was lost: its job is not released."""
        steps: list[tuple[str, dict[str, Any]]] = [
            (self._sql.park, {"outbox": self._outbox, "ids": [id], "error": error})
            for id, error in sending.parked.items()
        ]
        new = [row.id for row, _ in sending.placed if row.state is RowState.NEW]
        for text, ids in ((self._sql.remove, sending.done), (self._sql.place, new)):
            if ids:
                steps.append((text, {"outbox": self._outbox, "ids": ids}))
        marked = await connection.run(*steps) if steps else []
        for id, error in sending.parked.items():
            log.error("row %s of the outbox is parked: %s", id, error)
        return {id for (id,) in marked} if new else set()

    # ------------------------------------------------------------ the store

    async def _place(self, rows: list[tuple[OutboxRow, NewJob]], sending: SentRows) -> None:
        """Enqueue these jobs. If the store refuses them, find out which ones: the others are
        sent."""
        if not rows:
            return
        jobs = [held(job) if job.when is NOW else job for _, job in rows]
        try:
            receipts = await self._store.enqueue(jobs)
        except (UsageError, Rejected) as error:
            await self._check_store()
            if len(rows) == 1:
                sending.parked[rows[0][0].id] = printable(str(error))[:MOST_ERROR_BYTES]
                return
            middle = len(rows) // 2
            await self._place(rows[:middle], sending)
            await self._place(rows[middle:], sending)
            return
        except StoreError as error:
            raise CannotSend(error) from error
        made = {one.id for one in receipts if one.created}
        there = [one.id for one in receipts if not one.created]
        made |= await self._held(there) if there else set()
        for row, job in rows:
            if job.when is NOW and row.id in made:
                sending.placed.append((row, job))
            else:  # it is due later, or there is another job with its id or its unique key
                sending.done.append(row.id)

    async def _forget(self, ids: Sequence[str], connection: OutboxConnection) -> None:
        """Delete the jobs that this relay has placed after another one had sent them: they are
        held, and their rows are gone."""
        for id in ids:
            values = {"outbox": self._outbox, "id": id}
            if await connection.run((self._sql.row, values)) or id not in await self._held([id]):
                continue
            log.warning("job %s was sent by another relay: its second copy is deleted", id)
            await self._store.amend([id], CancelJob(0, "the second copy of a row of the outbox"))

    async def _held(self, ids: Sequence[str]) -> set[str]:
        """Which of these jobs are held: a relay has placed them, and not noted that any more."""
        try:
            jobs = await self._store.find(ids)
        except StoreError as error:
            raise CannotSend(error) from error
        return {job.id for job in jobs if job is not None and job.due == LATEST}

    async def _check_store(self) -> None:
        """Raise `CannotSend` if the store refuses everything: then the rows are not to blame."""
        try:
            await self._store.queue_names()
        except MitaError as error:
            raise CannotSend(error) from error

    async def _release(self, jobs: Sequence[NewJob]) -> None:
        """Let these jobs start, in their order."""
        try:
            for wave in _waves(jobs, in_one=Can.KEEP_EXACT_ORDER in self._store.can):
                await self._store.arrive(
                    [Arrival(job.queue, job.id, RELEASER, b"", 1) for job in wave]
                )
        except StoreError as error:
            raise CannotSend(error) from error


class CannotSend(Exception):
    """The store does not take any job now."""

    def __init__(self, error: MitaError) -> None:
        super().__init__(str(error))
        self.error = _as_store_error(error)


def _as_store_error(error: MitaError) -> StoreError:
    return error if isinstance(error, StoreError) else StoreError(str(error), transient=True)


def _waves(jobs: Sequence[NewJob], *, in_one: bool) -> Iterator[list[NewJob]]:
    """Yields the jobs in parts that may be released at once. A store that keeps no exact order gets
    the jobs of one resource key one after the other."""
    if in_one:
        yield list(jobs)
        return
    waves: list[list[NewJob]] = []
    released: dict[tuple[str, str | None], int] = {}
    for job in jobs:
        key = (job.queue, job.resource)
        number = 0 if job.resource is None else released.get(key, 0)
        released[key] = number + 1
        if number == len(waves):
            waves.append([])
        waves[number].append(job)
    yield from waves


@asynccontextmanager
async def opened(connection: OutboxConnection, *, create: bool = False) -> Any:
    """Open a connection for the length of a block."""
    try:
        await connection.open(create=create)
        yield connection
    finally:
        await connection.close()
