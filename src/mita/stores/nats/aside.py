"""Records that cannot be read: tickets are taken out of their line, queues get a record again, the
doctor counts them all.

The message of a job that cannot be read is never changed. A ticket of that kind becomes the home of
its job as it is, unless there is a home, which is then what counts."""

import logging

from msgspec.structs import replace

from mita.model.time import SECOND
from mita.model.view import Finding
from mita.rules.readable import SET_ASIDE_KEEP
from mita.stores.shared.aside import finding

from . import indexes, schema
from .codec import QueueRecord
from .context import Context
from .job_records import TTL, fenced, locate
from .messages import Out
from .reading import can_be_read, is_guess, is_unreadable, read_record
from .subjects import name
from .tickets import Ticket, acknowledge
from .tx import Tx, transact

log = logging.getLogger("mita.nats")


async def set_aside(context: Context, tickets: list[Ticket], bodies: list[bytes]) -> None:
    """Take unreadable tickets out of their line: their jobs are shown as failed from now on."""
    places = await locate(context, [ticket.record.id for ticket in tickets])
    homeless = [at for at, ticket in enumerate(tickets) if not places[ticket.record.id].home_seq]
    records = [tickets[at].record for at in homeless]
    homes = [context.subjects.home(record.queue, record.id) for record in records]
    keep = fenced(0, TTL % (SET_ASIDE_KEEP // SECOND))
    stored = await context.wire.store(
        [Out(home, bodies[at], keep) for home, at in zip(homes, homeless, strict=True)]
    )
    # another worker has it in hand
    left = {at for at, seq in zip(homeless, stored, strict=True) if not seq}
    for record in records:
        log.error("job %s of queue %s is set aside: %s", record.id, record.queue, record.error)
    acknowledge(context, [ticket for at, ticket in enumerate(tickets) if at not in left])
    await context.wire.flush_now()


async def mend_queue(context: Context, guess: QueueRecord) -> QueueRecord:
    """Write the record of a queue anew that cannot be read, with the priorities for which there are
    consumers."""
    priorities = [
        priority for priority in guess.priorities if await _has_line(context, guess.name, priority)
    ]

    async def act(tx: Tx) -> QueueRecord:
        record = await indexes.queue_of(tx, guess.name)
        if is_guess(record):
            body = await tx.body(context.subjects.queue(guess.name))
            log.error(
                "the record of queue %s cannot be read and is written anew; it was %s",
                guess.name,
                body.hex(),
            )
            record = replace(record, priorities=tuple(priorities))
            indexes.put_queue(tx, record)
        return record

    return await transact(context, act)


async def _has_line(context: Context, queue: str, priority: int) -> bool:
    return await schema.has_line(context.wire, context.subjects, queue, priority)


async def doctor(context: Context) -> Finding:
    """Reads every record there is."""
    ids: set[str] = set()
    async for found in context.reader.scan(context.subjects.jobs()):
        for message in found:
            if message.body and is_unreadable(read_record(message.body, message.subject)):
                ids.add(name(message.subject.rsplit(".", 1)[1]))
    others = []
    for letter in "qkbuelwgc":
        for message in await context.reader.all(context.subjects.all(letter)):
            if message.body and not can_be_read(letter, message.body):
                others.append(f"message {message.subject}")  # noqa: PERF401, RUF100
    return finding(sorted(ids), others)
