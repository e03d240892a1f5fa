"""An optimistic transaction over one stream.

It reads records, computes, and writes. Every write carries the sequence that was read for its
subject (0: there was nothing), so the server refuses it if another writer was faster. Several
writes go out as one atomic batch: all or none. A refused transaction starts again from its reads.
An atomic batch costs the server milliseconds, so jobs without keys are claimed and settled without
a transaction."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from mita.errors import StoreError
from mita.model.job import State
from mita.model.time import SECOND, Wait
from mita.rules.gates import ReturnedTokens
from mita.rules.states import TERMINAL
from mita.stores.nats.client.messages import OutMessage, too_big
from mita.stores.nats.codec import NatsJob, QueueRecord, ResourceKeyRecord
from mita.stores.nats.context import NatsContext

from .job_records import (
    EXPECT_SEQ,
    TTL,
    LocatedJob,
    fenced,
    is_about_to_fire,
    is_due_soon,
    locate,
    paired_ticket,
    record_message,
    ticket_message,
)
from .reader import StoredMessage
from .removal import remove
from .stepwise import RateSteps

FIRE_WAIT_MS: Wait = 10 * SECOND  # a schedule that does not fire in this time is an error
FIRE_POLL_S = 0.02
TRANSACTION_TRIES = 50
RETRY_DELAY_S = 0.002  # times the number of tries, up to `RETRY_DELAY_STEPS`, times a random part
RETRY_DELAY_STEPS = 20
BATCH_MESSAGES = 1000  # the server takes no larger batch

T = TypeVar("T")


class AboutToFire(Exception):
    """The server is making a ticket of this job at the moment: retry when it has."""


class StreamTransaction:
    """Reads and writes of one try. `now` is its time, `wakeups` the topics to notify after the
    commit."""

    def __init__(self, context: NatsContext) -> None:
        self.context = context
        self.now = context.clock.now()
        self.wakeups: set[str] = set()
        self.returned = ReturnedTokens(self.now)
        self.written: dict[str, int] = {}  # after the commit: the sequence of each subject
        # Waiters of keys that were read in advance, by the pattern of their subjects, and whether
        # these are all.
        self.waiters: dict[str, tuple[list[StoredMessage], bool]] = {}
        self.after_commit: list[Callable[[], Awaitable[None]]] = []
        # Records of keys as they will be after the commit, by subject (`keys`).
        self.keys: dict[str, ResourceKeyRecord] = {}
        self.queues: dict[str, QueueRecord] = {}  # the same of queues, by name
        self.wake_seqs: set[int] = set()  # wake tickets that are removed after the commit
        self.at_rate = False  # jobs of rates start or wait: perhaps no batch is needed (`stepwise`)
        self._read: dict[str, StoredMessage] = {}
        self._put: dict[str, tuple[bytes, bytes]] = {}
        self._unfenced: set[str] = set()  # subjects of `_put` that may replace anything
        self._jobs: dict[str, LocatedJob] = {}
        self._new_tickets: dict[str, NatsJob] = {}
        self.stale_tickets: list[int] = []  # sequences; removed after the commit

    # ------------------------------------------------------------ records

    async def read(self, subjects: Iterable[str]) -> None:
        """Read these subjects, except those already read."""
        missing = [subject for subject in dict.fromkeys(subjects) if subject not in self._read]
        if not missing:
            return
        self.add_read(await self.context.reader.last(missing))
        for subject in missing:
            self._read.setdefault(subject, StoredMessage(subject, 0, b""))

    def add_read(self, found: Iterable[StoredMessage]) -> None:
        """Use messages that were read elsewhere: the commit fails if they have changed."""
        for message in found:
            self._read.setdefault(message.subject, message)

    async def body(self, subject: str) -> bytes:
        """Returns the body at this subject as it will be after the commit."""
        if subject in self._put:
            return self._put[subject][0]
        await self.read([subject])
        return self._read[subject].body

    async def sequence(self, subject: str) -> int:
        """Returns the sequence that this transaction has read for a subject; 0: none."""
        await self.read([subject])
        return self._read[subject].seq

    def put(self, subject: str, body: bytes, headers: bytes = b"") -> None:
        """Write a message. Its subject must have been read, or be new by its nature."""
        self._put[subject] = body, headers

    def put_unfenced(self, subject: str, body: bytes, headers: bytes = b"") -> None:
        """Write a message whatever is stored there: another record of this transaction decides."""
        self.put(subject, body, headers)
        self._unfenced.add(subject)

    def take_back(self, subject: str) -> None:
        """Do not write this message after all."""
        self._put.pop(subject, None)

    def remove(self, subject: str) -> None:
        """Write an empty message that the server removes soon: a batch cannot delete."""
        self._put[subject] = b"", TTL % 1

    def writes(self, subject: str) -> bool:
        """True if this transaction writes to this subject."""
        return subject in self._put

    def puts(self, prefix: str) -> dict[str, bytes]:
        """Returns the bodies that this transaction writes to subjects with this prefix."""
        return {
            subject: body for subject, (body, _) in self._put.items() if subject.startswith(prefix)
        }

    # ------------------------------------------------------------ jobs

    async def jobs(self, ids: Iterable[str]) -> list[LocatedJob]:
        """Returns what is stored for these ids, changes of this transaction included."""
        wanted = list(ids)
        missing = [id for id in dict.fromkeys(wanted) if id not in self._jobs]
        if missing:
            self._jobs.update(await locate(self.context, missing))
        return [self._jobs[id] for id in wanted]

    def add_job(self, id: str, located: LocatedJob) -> None:
        """Use a job that was read elsewhere: the commit fails if it has changed."""
        self._jobs[id] = located

    async def job(self, id: str) -> LocatedJob:
        """Returns what is stored for this id, changes of this transaction included."""
        return (await self.jobs([id]))[0]

    def write(self, located: LocatedJob, record: NatsJob) -> None:
        """Write a job's new record, and only that: `job_changes.change` also updates its keys.
        Raises AboutToFire if the server is making a ticket of the job, Rejected if the record is
        too large."""
        if is_about_to_fire(located.schedule_at, self.now):
            raise AboutToFire(located.schedule_at)
        subject = located.subject or self.context.subjects.record(record.queue, record.id)
        located.subject = subject
        self._read.setdefault(subject, StoredMessage(subject, located.seq, b""))
        body, headers = record_message(self.context, record, self.now)
        if len(body) > self.context.max_record:
            raise too_big(OutMessage(subject, body), self.context.wire.max_payload)
        self.put(subject, body, headers)
        self._new_tickets.pop(subject, None)
        if record.state is State.QUEUED and is_due_soon(record, self.now):
            self._new_tickets[subject] = record
        if located.ticket and (record.state in TERMINAL or record.state is State.QUEUED):
            # The old ticket would be valid again once the record is gone: when the ended job is
            # removed, or when the server makes a ticket of the record.
            self.stale_tickets.append(located.ticket_seq)
        located.record = None if record.gone else record

    # ------------------------------------------------------------ the end

    async def commit(self) -> bool:
        """Write everything. Returns False if another writer was faster: nothing was written."""
        if not self._put:
            await self._after_commit()
            return True
        messages = self._messages()
        if self.at_rate and len(messages) > 1 and not self._new_tickets:
            steps = RateSteps(self.context.subjects, messages)
            if steps.are_enough(self.keys):
                return await self._commit_steps(steps)
        if len(messages) == 1:
            [last] = await self.context.wire.store(messages)
        else:
            last = await self.context.wire.store_batch(messages)
        if not last:
            return False
        first = last - len(messages) + 1
        self.written = {message.subject: first + at for at, message in enumerate(messages)}
        await self._store_tickets()
        await self._after_commit()
        return True

    async def _commit_steps(self, steps: RateSteps) -> bool:
        written = await steps.write(self.context.wire)
        if written is None:
            return False
        self.written = written
        await self._after_commit()
        return True

    async def _after_commit(self) -> None:
        if self.stale_tickets:
            await remove(self.context, self.stale_tickets)
        self._notify()
        for act in self.after_commit:
            await act()

    def _messages(self) -> list[OutMessage]:
        """Returns what to write. In a batch, each new ticket comes right after its record."""
        messages = [
            OutMessage(subject, body, self._headers(subject, headers))
            for subject, (body, headers) in self._put.items()
        ]
        if len(messages) == 1 or len(messages) + len(self._new_tickets) > BATCH_MESSAGES:
            return messages
        tickets, self._new_tickets = self._new_tickets, {}
        if not tickets:
            return messages
        paired: list[OutMessage] = []
        for message in messages:
            paired.append(message)
            if (record := tickets.get(message.subject)) is not None:
                paired.append(paired_ticket(self.context, record, self.now))
        return paired

    def _headers(self, subject: str, headers: bytes) -> bytes:
        if subject in self._unfenced:
            return headers
        read = self._read.get(subject)
        seq = 0 if read is None else read.seq
        if self.context.subjects.is_ticket(subject):
            return headers + EXPECT_SEQ % seq
        return fenced(seq, headers)

    async def _store_tickets(self) -> None:
        if self._new_tickets:
            await self.context.fail_point("between record and ticket")
            await self.context.wire.store(self.tickets())

    @property
    def has_writes(self) -> bool:
        """True if a commit has something to do."""
        return bool(self._put or self.after_commit or self.wakeups)

    def only_message(self) -> OutMessage | None:
        """Returns what this transaction writes, if that is one message and nothing follows it."""
        if len(self._put) != 1 or self.after_commit:
            return None
        return self._messages()[0]

    def tickets(self) -> list[OutMessage]:
        """Returns the tickets to store after the records, which are `written`."""
        return [
            ticket_message(self.context, record, subject, self.written[subject], self.now)
            for subject, record in self._new_tickets.items()
        ]

    def _notify(self) -> None:
        if self.wakeups:
            self.context.notifier.notify(self.wakeups)


class TooManyWriters(StoreError):
    """Other writers were faster every time."""


async def transact(
    context: NatsContext,
    act: Callable[[StreamTransaction], Awaitable[T]],
    tries: int = TRANSACTION_TRIES,
    first: StreamTransaction | None = None,
) -> T:
    """Call `act` with a new transaction and commit it, until no other writer is faster. Returns
    what `act` returns. Raises TooManyWriters after so many tries. `first` is the transaction of the
    first try, which has read something before."""
    started, tried = context.clock.now(), 0
    while tried < tries and context.clock.now() < started + FIRE_WAIT_MS:
        tx, first = first or StreamTransaction(context), None
        try:
            result = await act(tx)
        except AboutToFire:
            await asyncio.sleep(FIRE_POLL_S)
            continue
        if await tx.commit():
            return result
        tried += 1
        await asyncio.sleep(random.random() * RETRY_DELAY_S * min(tried, RETRY_DELAY_STEPS))
    raise TooManyWriters("too many others change the same record at the same time", transient=True)
