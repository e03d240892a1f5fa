"""Maintenance: removing old jobs, migrating the stream, and records that cannot be read.

The message of an unreadable job is never changed. If it is a ticket, it becomes the job's record as
it is, unless the job has a record, which is valid then."""

import logging

from mita.model.job import State
from mita.model.time import SECOND
from mita.rules.readable import SET_ASIDE_KEEP
from mita.rules.states import TERMINAL

from .client.messages import OutMessage
from .codec import NatsJob, QueueRecord
from .context import NatsContext
from .stream import keys
from .stream.counts import patrol
from .stream.decode import decode_job, decode_queue, is_guessed
from .stream.job_records import TTL, fenced, locate
from .stream.reader import StoredMessage
from .stream.removal import remove
from .stream.repair import fail_abandoned
from .stream.schema import ensure_stream
from .stream.transaction import StreamTransaction, transact
from .tickets.ticket import Ticket, acknowledge

log = logging.getLogger("mita.nats")

# Job records that a prune looks at, at the least. The server itself removes what has expired.
PRUNE_SCAN_RECORDS = 2000


async def migrate(context: NatsContext) -> list[str]:
    """Create the stream or bring it up to date. Returns the names of what was done."""
    return await ensure_stream(context.wire, context.subjects, context.replicas)


# ---------------------------------------------------------------- old jobs


async def prune(context: NatsContext, limit: int, most: int) -> int:
    """Remove up to `limit` ended jobs: first expired ones, the oldest first, then succeeded ones
    beyond the newest `most` of each queue. Returns how many were removed.

    Records come in the order in which they were written, so of ended jobs the oldest come first.
    The records before the first ended job (mostly of scheduled jobs) are not read again: every
    change of those jobs is written behind them."""
    await patrol(context)
    ended = await _ended(context, limit, most)
    now = context.clock.now()
    expired = [one for one in ended if one[0].expires is not None and one[0].expires <= now]
    expired.sort(key=lambda one: (one[0].expires or 0, one[0].age))
    going = expired[:limit]
    succeeded: dict[str, list[tuple[NatsJob, StoredMessage]]] = {}
    for record, message in ended:
        if record.state is State.SUCCEEDED and (record.expires is None or record.expires > now):
            succeeded.setdefault(record.queue, []).append((record, message))
    for queue in sorted(succeeded):
        done = sorted(succeeded[queue], key=lambda one: (one[0].finished or 0, one[0].age))
        surplus = done[: max(0, len(done) - most)]
        going += surplus[: limit - len(going)]
    return await remove(context, [message.seq for _, message in going])


async def _ended(
    context: NatsContext, limit: int, most: int
) -> list[tuple[NatsJob, StoredMessage]]:
    """Returns the oldest records of ended jobs: as many as are needed to find a surplus."""
    ended: list[tuple[NatsJob, StoredMessage]] = []
    start, looked_at, left = context.nothing_ended_before, 0, 1
    while left and (
        looked_at < PRUNE_SCAN_RECORDS
        or (ended and looked_at < most + limit and looked_at + left > most)
    ):
        messages, left = await context.reader.slice(
            context.subjects.records(), start, PRUNE_SCAN_RECORDS
        )
        records = [(decode_job(message.body, message.subject), message) for message in messages]
        ended += [
            (record, message)
            for record, message in records
            if not record.gone and record.state in TERMINAL
        ]
        await fail_abandoned(context, [record for record, _ in records])
        looked_at += len(messages)
        start = messages[-1].seq + 1 if messages else start
        if not ended:
            context.nothing_ended_before = start
    return ended


# ---------------------------------------------------------------- unreadable records


async def set_aside(context: NatsContext, unreadable: list[tuple[Ticket, bytes]]) -> None:
    """Take unreadable tickets, each with its body, out of the queue. Their jobs are shown as failed
    from now on."""
    tickets = [ticket for ticket, _ in unreadable]
    located = await locate(context, [ticket.record.id for ticket in tickets])
    moved = [at for at, ticket in enumerate(tickets) if not located[ticket.record.id].seq]
    headers = fenced(0, TTL % (SET_ASIDE_KEEP // SECOND))
    messages = [
        OutMessage(
            context.subjects.record(tickets[at].record.queue, tickets[at].record.id),
            unreadable[at][1],
            headers,
        )
        for at in moved
    ]
    stored = await context.wire.store(messages)
    # Refused: another store is setting the same ticket aside.
    left = {at for at, seq in zip(moved, stored, strict=True) if not seq}
    for at in moved:
        record = tickets[at].record
        log.error("job %s of queue %s is set aside: %s", record.id, record.queue, record.error)
    acknowledge(context, [ticket for at, ticket in enumerate(tickets) if at not in left])
    await context.wire.flush_now()


async def restore_queue_record(context: NatsContext, guess: QueueRecord) -> QueueRecord:
    """Write the record of a queue again that cannot be read, with the slots for which there are
    consumers. Returns it."""
    subject = context.subjects.queue(guess.name)

    async def act(tx: StreamTransaction) -> QueueRecord:
        record, body = await keys.queue_record(tx, guess.name), await tx.body(subject)
        if body and is_guessed(decode_queue(body, subject)):
            log.error(
                "the record of queue %s cannot be read and is written again; it was %s",
                guess.name,
                body.hex(),
            )
            keys.put_queue(tx, record)
        return record

    return await transact(context, act)
