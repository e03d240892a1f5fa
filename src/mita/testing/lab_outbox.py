"""The outbox of an app in a lab: it writes to the same table, under a name of its own. So only the
lab relays its rows, and the lab relays no others."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from mita.errors import UsageError
from mita.model.job import NewJob, Receipt
from mita.ports.outbox import JobOutbox
from mita.ports.store import Store

RELAY_POLL_S = 0.005


class LabOutbox:
    """An outbox in front of that of the app. `used`: rows were written in this lab. A lab whose
    tests write none never connects to its database."""

    def __init__(self, behind: JobOutbox, name: str) -> None:
        self.behind: Any = behind.named(name)
        self.used = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write jobs in the user's transaction."""
        self.used = True
        return cast(list[Receipt], await self.behind.enqueue_in(connection, jobs))

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """`enqueue_in`, for a connection that is not async."""
        self.used = True
        return cast(list[Receipt], self.behind.enqueue_in_sync(connection, jobs))

    async def send(self, store: Store, time_limit: float) -> bool:
        """Send the rows of committed transactions to the store. Returns whether there were any.
        Raises `UsageError` if the store refuses one."""
        if not self.used or not (await self.behind.view()).rows:
            return False
        relaying = asyncio.create_task(self.behind.relay(store, "lab"))
        try:
            async with asyncio.timeout(time_limit):
                while not relaying.done() and (await self.behind.view()).rows:  # noqa: ASYNC110
                    await asyncio.sleep(RELAY_POLL_S)
        finally:
            relaying.cancel()
            await asyncio.wait([relaying])
        parked = await self.behind.parked(1)
        if parked:
            await self.behind.delete([row.id for row in await self.behind.parked(1000)])
            raise UsageError(f"a job of {parked[0].task!r} was not sent: {parked[0].error}")
        return True
