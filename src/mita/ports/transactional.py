"""Stores that can take part in a transaction of the user's own."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from mita.errors import UsageError
from mita.model.job import Claim, NewJob, Receipt
from mita.model.time import Wait

from .store import Can, Store


class TransactionalEnqueue(Protocol):
    """What can write jobs in a transaction of the user's own: a store, or an outbox. `connection`
    is the user's own, inside a transaction that only the user ends."""

    async def enqueue_in(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Enqueue the jobs in the transaction: they exist exactly if it commits."""

    def enqueue_in_sync(self, connection: Any, jobs: Sequence[NewJob]) -> list[Receipt]:
        """`enqueue_in`, for a connection that is not async."""


class Transactional(TransactionalEnqueue, Protocol):
    """What a store with `Can.ENQUEUE_IN_YOUR_TRANSACTION` can do as well."""

    async def complete_in(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """Settle the claim as succeeded, exactly if the transaction commits. Raises `LeaseLost` for
        a stale token."""

    def complete_in_sync(self, connection: Any, claim: Claim, result: bytes, keep: Wait) -> None:
        """`complete_in`, for a connection that is not async."""


def transactional(store: Store) -> Transactional:
    """Return the store as one that can join the user's transaction. Raises `UsageError` if it
    cannot."""
    if Can.ENQUEUE_IN_YOUR_TRANSACTION not in store.can:
        raise UsageError(
            "this store cannot take part in your transaction: only postgresql:// can, with its "
            "jobs in the same database as your data. Enqueue after the commit instead, or give "
            "the app an outbox in your database: Mita(…, outbox=Outbox(…)) of mita.contrib.outbox"
        )
    return cast(Transactional, store)


def completing(store: Store) -> Transactional:
    """Return the store as one that can complete a job in the user's transaction. Raises
    `UsageError` if it cannot."""
    if Can.ENQUEUE_IN_YOUR_TRANSACTION not in store.can:
        raise UsageError(
            "this store cannot complete a job in your transaction, also not with an outbox: only "
            "postgresql:// can, with its jobs in the same database as your data. Make the handler "
            "safe to repeat instead: for example insert job.id into a table of yours, where it is "
            "unique, in the same transaction"
        )
    return cast(Transactional, store)
