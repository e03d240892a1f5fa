"""Writing what belongs to one rate in steps, instead of in an atomic batch.

A server with one replica makes a directory for every batch and waits for its disk several times:
3 ms on an idle disk, 20 ms and more on a busy one, during which it stores nothing else. A rate is
used every few milliseconds. So what its jobs need is written with plain publishes, in an order in
which a crash between two steps does no harm:

1. The record of the key, fenced: it decides who may use these tokens. If the process dies now, the
   tokens are not used. The wake ticket is still there, and comes to another store.
2. New waiters. One whose job is not blocked in the end wakes nothing (`resources.open_key`).
3. The claim list, the next wake ticket, and the records of the jobs, each fenced: a job that was
   changed by another writer at that moment is left to it.
4. The removal of waiters whose jobs do not wait any more."""

from collections.abc import Sequence

from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.client.wire import NatsWire
from mita.stores.nats.codec import ResourceKeyRecord

from .subjects import RecordKind, Subjects

_WITH_A_RATE = (RecordKind.RESOURCE_KEY, RecordKind.WAITER, RecordKind.CLAIM_LIST, RecordKind.WAKE)


class RateSteps:
    """The messages of a transaction, divided into steps."""

    def __init__(self, subjects: Subjects, messages: Sequence[OutMessage]) -> None:
        self._start = len(subjects.root) + 1
        self.keys: list[OutMessage] = []
        self._waiters: list[OutMessage] = []
        self._records: list[OutMessage] = []
        self._removals: list[OutMessage] = []
        self._others = False
        for message in messages:
            self._place(message).append(message)

    def _place(self, message: OutMessage) -> list[OutMessage]:
        kind = message.subject[self._start :].split(".", 1)[0]
        if kind == RecordKind.RESOURCE_KEY:
            return self.keys
        if kind == RecordKind.WAITER:
            return self._waiters if message.body else self._removals
        self._others = self._others or kind not in (*_WITH_A_RATE, RecordKind.JOB)
        return self._records

    def are_enough(self, keys: dict[str, ResourceKeyRecord]) -> bool:
        """True if these messages need no batch: they belong to at most one key, which has nothing
        but a rate. `keys` are the records of keys after the commit, by subject."""
        after = [keys.get(message.subject) for message in self.keys]
        only_rate = all(
            key is not None and key.limit is None and not key.holders and not key.waiting
            for key in after
        )
        return only_rate and len(self.keys) <= 1 and not self._others

    async def write(self, wire: NatsWire) -> dict[str, int] | None:
        """Write them. Returns the sequence of each subject, 0 if it was changed by another writer;
        None if the key was, and nothing is written."""
        written: dict[str, int] = {}
        for step in (self.keys, self._waiters, [*self._records, *self._removals]):
            seqs = await wire.store(step)
            written.update(zip((message.subject for message in step), seqs, strict=True))
            if step is self.keys and 0 in seqs:
                return None
        return written
