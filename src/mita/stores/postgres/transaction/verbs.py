"""The verbs that are part of a user's transaction."""

from collections.abc import Sequence
from typing import Any, TypeVar

from mita.errors import LeaseLost
from mita.model.job import Claim, NewJob, Receipt
from mita.model.outcome import Settlement
from mita.model.time import Wait
from mita.rules.judge import success
from mita.stores.postgres.connection import SerialConnection
from mita.stores.postgres.context import (
    PostgresContext,
    RoundTrip,
    RoundTrips,
    StoreState,
    query,
)
from mita.stores.postgres.enqueue import enqueue
from mita.stores.postgres.settle import settle

from .commit_watcher import CommitWatcher
from .drivers import drive_async, drive_sync

T = TypeVar("T")


class UserTransactionVerbs:
    """What a store can do on a user's connection."""

    _state: StoreState
    _commits: CommitWatcher | None = None
    _short: SerialConnection

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Enqueue in the transaction that is open on `connection`: the jobs exist if it commits.
        Then the workers are notified."""
        if not jobs:
            return []
        context = self._user_context()
        verb = _with_transaction_id(context, enqueue(context, jobs))
        receipts = await drive_async(connection, self._state, verb)
        self._notify_at_commit(context)
        return receipts

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """The same from sync code. It works before the store is open; then no worker is notified,
        and the workers find the jobs by polling."""
        if not jobs:
            return []
        context = self._user_context()
        verb = _with_transaction_id(context, enqueue(context, jobs))
        receipts = drive_sync(connection, self._state, verb)
        self._notify_at_commit(context)
        return receipts

    async def complete_in(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """Settle the run as succeeded in the transaction that is open on `connection`. Raises
        `LeaseLost` when the run has lost its job; then roll back. The settlement at the end of the
        run is then stale and changes nothing."""
        context = self._user_context()
        verb = _success(context, claim, result, keep)
        _must_hold(claim, await drive_async(connection, self._state, verb))
        self._notify_at_commit(context)

    def complete_in_sync(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """The same from sync code."""
        context = self._user_context()
        verb = _success(context, claim, result, keep)
        _must_hold(claim, drive_sync(connection, self._state, verb))
        self._notify_at_commit(context)

    async def _ask_identity(self) -> str:
        """Ask the server which database the jobs are in."""
        return await self._short.run(_identity, repeatable=True)

    def _user_context(self) -> PostgresContext:
        return PostgresContext(self._state, in_user_transaction=True)

    def _notify_at_commit(self, context: PostgresContext) -> None:
        if self._commits is not None and context.topics and context.transaction_id is not None:
            self._commits.watch(context.transaction_id, context.topics)


def _with_transaction_id(context: PostgresContext, verb: RoundTrips[T]) -> RoundTrips[T]:
    """Run the verb. If workers must be notified at the commit, also ask for the transaction's
    id."""
    result = yield from verb
    if context.topics and context.transaction_id is None:
        [[(context.transaction_id,)]] = yield RoundTrip(query("enqueue_in_transaction_id"))
    return result


def _identity(_: PostgresContext) -> RoundTrips[str]:
    [[(identity,)]] = yield RoundTrip(query("enqueue_in_identity"), last=True)
    return str(identity)


def _success(
    context: PostgresContext, claim: Claim, result: bytes, keep: Wait
) -> RoundTrips[list[bool]]:
    settlement = Settlement(claim, success(result, keep))
    return _with_transaction_id(context, settle(context, [settlement]))


def _must_hold(claim: Claim, took: list[bool]) -> None:
    if took != [True]:
        raise LeaseLost(f"job {claim.id} belongs to another run by now: roll your transaction back")
