"""The outbox that an app is given."""

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import Any, Self
from weakref import WeakSet

from mita.errors import MitaError, UsageError
from mita.model.job import NewJob, Receipt
from mita.model.outbox import OutboxRow, OutboxView
from mita.model.time import SECOND
from mita.model.view import Finding, Health
from mita.ports.store import Store
from mita.rules.display import span
from mita.rules.names import check_namespace

from .databases import connection_to, create_table
from .inside import async_driver_of, check, sync_driver_of
from .location import Location, of_django, of_engine, of_url
from .relay import RowSender, opened
from .rows import as_row, rows_of
from .statements import OutboxStatements

SHORTEST_POLL_S = 0.01
LAG_S = 30.0  # an older row is a warning of `mita doctor`


class Outbox:
    """Jobs in a table of your own database, which the workers send to the store.

        app = Mita("redis://localhost/0", outbox=Outbox("postgresql://localhost/shop"))

    Give a URL (`postgresql://…` or `sqlite:///shop.db`), an SQLAlchemy engine (sync or async), or
    `django="default"`, the name of a database in Django's settings. An app that shares the database
    with another app needs a `name` of its own. `poll` is how often the relay looks for new rows, in
    seconds. Nothing is opened until it is used. Raises `UsageError` for a database of another
    kind."""

    def __init__(
        self,
        database: Any = None,
        *,
        django: str | None = None,
        name: str = "mita",
        poll: float = 0.5,
    ) -> None:
        if (database is None) is (django is None):
            raise UsageError(
                'Outbox(…): give a URL, an SQLAlchemy engine, or django="default", and only one '
                "of them"
            )
        if django is None and not isinstance(database, str) and not hasattr(database, "dialect"):
            raise UsageError(
                f'Outbox({database!r}): give a URL, an SQLAlchemy engine, or django="default"'
            )
        if isinstance(poll, bool) or not isinstance(poll, int | float) or poll < SHORTEST_POLL_S:
            raise UsageError(f"poll={poll!r}: give seconds, {SHORTEST_POLL_S} or more")
        self._given, self._django = database, django
        self._name, self._poll = check_namespace(name), float(poll)
        self._checked: WeakSet[Any] = WeakSet()  # connections of the user that can be used
        if django is None:
            self._location  # noqa: B018  (a wrong URL is refused here, not at the first job)

    def named(self, name: str) -> Self:
        """Return an outbox in the same table with rows of its own, as that of another app."""
        other = copy(self)
        other._name = check_namespace(name)  # noqa: SLF001
        return other

    @cached_property
    def _location(self) -> Location:
        if self._django is not None:
            return of_django(self._django)
        return of_url(self._given) if isinstance(self._given, str) else of_engine(self._given)

    @cached_property
    def _sql(self) -> OutboxStatements:
        return OutboxStatements(self._location.dialect)

    @property
    def shown(self) -> str:
        """Where it is, for people. Without the password."""
        return self._location.shown

    # ------------------------------------------------------------ in the user's transaction

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write the rows of these jobs in the transaction that is open on `connection`. Raises
        `UsageError` if it is none of this database."""
        run, own = await async_driver_of(connection, self._location)
        if not self._is_checked(own):
            check(self._location, await run(self._sql.check, {}))
            self._remember(own)
        return _receipts(jobs, await run(self._sql.insert, self._values(jobs)))

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """`enqueue_in`, for a connection that is not async."""
        run, own = sync_driver_of(connection, self._location)
        if not self._is_checked(own):
            check(self._location, run(self._sql.check, {}))
            self._remember(own)
        return _receipts(jobs, run(self._sql.insert, self._values(jobs)))

    def _values(self, jobs: Sequence[NewJob]) -> dict[str, Any]:
        return {"outbox": self._name, "rows": rows_of(jobs)}

    def _is_checked(self, connection: Any) -> bool:
        with suppress(TypeError):  # one that takes no weak reference is checked each time
            return connection in self._checked
        return False

    def _remember(self, connection: Any) -> None:
        with suppress(TypeError):
            self._checked.add(connection)

    # ------------------------------------------------------------ the relay

    async def relay(self, store: Store, relay: str) -> None:
        """Send rows to the store until it is cancelled. One relay of many does this; the others
        stand by. `relay` is its name in the log."""
        await RowSender(
            self._name, self._open, self._sql, store, relay, self._poll, self.shown
        ).run()

    def _open(self, *, create: bool = False) -> Any:
        return opened(connection_to(self._location), create=create)

    # ------------------------------------------------------------ what people ask

    async def create(self) -> None:
        """Create the table, unless it is there."""
        async with self._open(create=True) as connection:
            await create_table(connection, self._location.dialect)

    async def row(self, id: str) -> OutboxRow | None:
        """Return the row of a job; None if there is none."""
        found = await self._ask(self._sql.row, id=id)
        return as_row(found[0]) if found else None

    async def beginning(self, start: str, limit: int) -> list[OutboxRow]:
        """Return some rows of jobs whose ids begin with this text, oldest first."""
        values = {"start": start, "length": len(start), "limit": limit}
        return [as_row(row) for row in await self._ask(self._sql.beginning, **values)]

    async def parked(self, limit: int) -> list[OutboxRow]:
        """Return the rows that are parked, oldest first."""
        return [as_row(row) for row in await self._ask(self._sql.parked, limit=limit)]

    async def retry(self, ids: Sequence[str]) -> int:
        """Let the relay try these parked rows again. Returns how many there were."""
        return len(await self._ask(self._sql.retry, ids=list(ids)))

    async def delete(self, ids: Sequence[str]) -> int:
        """Delete these parked rows: their jobs never run. Returns how many there were."""
        return len(await self._ask(self._sql.delete, ids=list(ids)))

    async def view(self) -> OutboxView:
        """Count the rows."""
        [(rows, oldest, parked)] = await self._ask(self._sql.view)
        return OutboxView(rows, max(0, oldest), parked)

    async def doctor(self) -> list[Finding]:
        """What is wrong with the outbox, with the remedy."""
        try:
            view = await self.view()
        except UsageError as error:
            return [Finding("outbox", str(error), Health.BAD, "mita outbox create")]
        except MitaError as error:
            remedy = f"is {self.shown} right, and does the database run?"
            return [Finding("outbox", str(error), Health.BAD, remedy)]
        found = [Finding("outbox", f"{self.shown}: {view.rows} rows wait")]
        if view.oldest > LAG_S * SECOND:
            found.append(
                Finding(
                    "outbox",
                    f"the oldest of {view.rows} rows has waited for {span(view.oldest)}",
                    Health.WARN,
                    "start a worker or `mita relay`; the log of the relay says what holds it up",
                )
            )
        if view.parked:
            found.append(
                Finding(
                    "outbox",
                    f"{view.parked} rows are parked: the store refused their jobs",
                    Health.WARN,
                    "`mita outbox` lists them with the reason; `mita outbox retry ID` or "
                    "`mita outbox delete ID`",
                )
            )
        return found

    async def _ask(self, text: str, **values: Any) -> list[tuple[Any, ...]]:
        async with self._open() as connection:
            rows: list[tuple[Any, ...]] = await connection.run(
                (text, {"outbox": self._name, **values})
            )
            return rows

    def __repr__(self) -> str:
        return f"<Outbox {self._name} in {self.shown}>"


def _receipts(jobs: Sequence[NewJob], written: list[tuple[Any, ...]]) -> list[Receipt]:
    """The receipts of these jobs. An id that is in the outbox already changes nothing."""
    ids = {id for (id,) in written}
    return [Receipt(job.id, job.id in ids) for job in jobs]
