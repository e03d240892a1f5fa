"""An outbox: jobs that are written in the user's transaction and sent to the store after it."""

from collections.abc import Sequence
from typing import Protocol, Self

from mita.errors import UsageError
from mita.model.outbox import OutboxRow, OutboxView
from mita.model.view import Finding

from .store import Store
from .transactional import TransactionalEnqueue


class JobOutbox(TransactionalEnqueue, Protocol):
    """A table in a database of the user's own. `enqueue_in` writes jobs there, in the user's
    transaction; `relay` sends them to the store. `mita.contrib.outbox.Outbox` is one."""

    @property
    def shown(self) -> str:
        """Where it is, for people. Without the password."""

    async def relay(self, store: Store, relay: str) -> None:
        """Send rows to the store until it is cancelled. One relay of many does this; the others
        stand by. `relay` is its name in the log. It waits for a database or a store that is
        unreachable."""

    def named(self, name: str) -> Self:
        """Return an outbox in the same table with rows of its own."""

    async def create(self) -> None:
        """Create the table, unless it is there."""

    async def row(self, id: str) -> OutboxRow | None:
        """Return the row of a job; None if there is none."""

    async def beginning(self, start: str, limit: int) -> list[OutboxRow]:
        """Return some rows of jobs whose ids begin with this text, oldest first."""

    async def parked(self, limit: int) -> list[OutboxRow]:
        """Return the rows that are parked, oldest first."""

    async def retry(self, ids: Sequence[str]) -> int:
        """Let the relay try these parked rows again. Returns how many there were."""

    async def delete(self, ids: Sequence[str]) -> int:
        """Delete these parked rows: their jobs never run. Returns how many there were."""

    async def view(self) -> OutboxView:
        """Count the rows."""

    async def doctor(self) -> list[Finding]:
        """What is wrong with the outbox, with the remedy."""


def checked_outbox(given: JobOutbox | None) -> JobOutbox | None:
    """Return what an app was given as its outbox. Raises `UsageError` if it is none."""
    if given is None or hasattr(given, "enqueue_in"):
        return given
    raise UsageError(
        f"outbox={given!r}: give an outbox, for example outbox=Outbox('sqlite:///shop.db') of "
        "mita.contrib.outbox"
    )


def needed_outbox(outbox: JobOutbox | None) -> JobOutbox:
    """Return the outbox of an app. Raises `UsageError` if it has none."""
    if outbox is None:
        raise UsageError(
            "this app has no outbox: give it one, Mita(…, outbox=Outbox(…)) of mita.contrib.outbox"
        )
    return outbox
