"""Waking jobs that wait at keys which the clock has opened, as the first part of a claim.

The claim goes on in the same transaction: the woken jobs are shown to it, and their keys are locked
and known. So a job that starts is never seen in the queue by others, whose watermarks stay right:
its due time is old."""

from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

from mita.model.time import Wait
from mita.stores.postgres import resources
from mita.stores.postgres.codec import Row, Rows, ShownRow
from mita.stores.postgres.context import PostgresContext, Query, RoundTrip, RoundTrips, query
from mita.stores.postgres.server.arrays import numbers
from mita.stores.postgres.throughput.watermarks import ResourceKey

from .key_states import KeyStates, key_columns


class ClaimOrder(NamedTuple):
    """The order in which the jobs of these queues start."""

    queues: list[str]
    ageing: Wait | None

    def place(self, row: Row) -> tuple[int, ...]:
        """The place of a job in this order. `row` has the columns of `ShownRow`."""
        priority, due, ageing = row[ShownRow.priority], row[ShownRow.due], self.ageing
        rank = -priority if ageing is None else due - priority * ageing
        return self.queues.index(row[ShownRow.queue]), rank, -priority, due, row[ShownRow.seq]


class DueKeys:
    """Keys whose waiting jobs the clock may wake."""

    def __init__(self, context: PostgresContext, keys: Sequence[ResourceKey]) -> None:
        self._context = context
        self._keys = [(queue, key) for queue, key in keys[: resources.LOCKED_KEYS]]
        self._numbers: list[int] = []
        self.states = KeyStates([], [])
        self.rows: Rows = []  # of the jobs that were woken

    @property
    def count(self) -> int:
        """How many jobs are woken."""
        return sum(self._numbers)

    def lock(self) -> RoundTrips[None]:
        """Lock the keys, and decide how many of their jobs are woken. A key that another session
        has locked is left to that session."""
        keys = self._keys
        locked, firsts, rows = yield RoundTrip(
            resources.try_lock(self._context, keys),
            *resources.first_waiters(self._context, keys),
            first=True,
        )
        found = [
            (key, first, row)
            for key, first, row, (got,) in zip(keys, firsts, rows, locked, strict=True)
            if got
        ]
        self._keys = [key for key, _, _ in found]
        self.states = KeyStates(self._keys, [row for *_, row in found])
        self._numbers = [
            self.states.wake(key, resources.waiter(first), first[0], None)
            for key, first, _ in found
        ]

    def show(self) -> list[Query | None]:
        """Wake the jobs for the claim that follows in this transaction."""
        queries = [self._query("key_show"), self.states.store()]
        self._context.hints.expect(self.states.now, self.states.wakes.items())
        return queries

    def joined(self, shown: Rows, order: ClaimOrder, *, is_full: bool) -> tuple[Rows, bool]:
        """The jobs that the claim has shown in this order, with the woken jobs among them; and
        whether some that were woken are left out: the claim `is_full`, and they come after its last
        job. The claim may also have seen some of them in the queue."""
        woken = self.rows
        if is_full and shown:
            last = order.place(shown[-1])
            woken = [row for row in woken if order.place(row) <= last]
        ids = {row[ShownRow.id] for row in woken}
        all = [row for row in shown if row[ShownRow.id] not in ids]
        for row in woken:
            insort(all, row, key=order.place)
        return all, len(woken) < len(self.rows)

    def release(self) -> list[Query | None]:
        """Wake the jobs for any claim."""
        woken = zip(self._keys, self._numbers, strict=True)
        self._context.topics.update(queue for (queue, _), number in woken if number)
        return [self._query("key_return") if self.count else None, self.states.store()]

    def _query(self, name: str) -> Query:
        return query(name, **key_columns(self._keys), numbers=numbers(self._numbers))
