"""Notifying workers of jobs in a user's transaction, as soon as it is committed.

A NOTIFY inside the transaction would be delivered at its commit. But PostgreSQL lets transactions
that notify commit one after the other, each after the disk has answered the one before: with 64
writers that made their commits ten times slower (docs/inside/postgres.md). So we ask the server, on
a connection of our own, whether the transaction has ended: often at first, less often the longer it
takes, and with one statement for all transactions. The user's commit is not affected."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from mita.errors import StoreError
from mita.stores.postgres.connection import SerialConnection
from mita.stores.postgres.context import PostgresContext, RoundTrip, RoundTrips, query
from mita.stores.postgres.server.arrays import texts

SHORTEST_DELAY_S, LONGEST_DELAY_S = 0.002, 0.2  # between two checks of a transaction
GIVE_UP_AFTER_S = 60.0  # after that the workers find the jobs by polling
LAST_CHECK_TIMEOUT_S = 2.0  # how long the check at closing may take


class OpenTransaction:
    """A transaction that may still be open: what to notify after its commit, and when to check."""

    def __init__(self, topics: set[str], now_s: float) -> None:
        self.topics = topics
        self.since_s = now_s
        self.next_check_s = now_s + SHORTEST_DELAY_S

    def checked(self, now_s: float) -> None:
        """Plan the next check. The delay grows with the transaction's age, so that a job waits at
        most half as long again as the commit took."""
        delay_s = max((now_s - self.since_s) / 2, SHORTEST_DELAY_S)
        self.next_check_s = now_s + min(delay_s, LONGEST_DELAY_S)


class CommitWatcher:
    """Watches the users' transactions of one store. On the store's loop, except for `watch`."""

    def __init__(self, connection: SerialConnection, notify: Callable[[set[str]], None]) -> None:
        self._connection, self._notify = connection, notify
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, OpenTransaction] = {}
        self._checks: asyncio.Task[None] | None = None
        self._closed = False

    def watch(self, transaction_id: str, topics: set[str]) -> None:
        """Notify these topics when this transaction commits. May be called on any thread."""
        with suppress(RuntimeError):  # the store's loop has ended
            self._loop.call_soon_threadsafe(self._watch, transaction_id, topics)

    def _watch(self, transaction_id: str, topics: set[str]) -> None:
        known = self._open.setdefault(transaction_id, OpenTransaction(set(), self._loop.time()))
        known.topics |= topics
        if self._checks is None and not self._closed:
            self._checks = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._open:
                first_s = min(each.next_check_s for each in self._open.values())
                await asyncio.sleep(first_s - self._loop.time())
                await self._check()
        finally:
            self._checks = None

    async def _check(self) -> None:
        ids = list(self._open)
        try:
            ended = await self._connection.run(lambda _: _ended(_, ids), repeatable=True)
        except StoreError:
            self._open.clear()  # the workers find the jobs at their next poll
            return
        for id, committed in ended:
            topics = self._open.pop(id).topics
            if committed:
                self._notify(topics)
        now_s = self._loop.time()
        for id in ids:
            if (each := self._open.get(id)) is not None:
                each.checked(now_s)
                if now_s - each.since_s > GIVE_UP_AFTER_S:
                    del self._open[id]

    async def close(self) -> None:
        """Check once more: a program that ends has committed by now."""
        self._closed = True
        await asyncio.sleep(0)  # lets a `watch` from another thread arrive
        if self._checks is not None:
            self._checks.cancel()
            await asyncio.gather(self._checks, return_exceptions=True)
        if self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_CHECK_TIMEOUT_S):
                    await self._check()


def _ended(_: PostgresContext, ids: Iterable[str]) -> RoundTrips[list[tuple[str, bool]]]:
    [rows] = yield RoundTrip(query("enqueue_in_ended", ids=texts(list(ids))), last=True)
    return [(id, committed) for id, committed in rows]
