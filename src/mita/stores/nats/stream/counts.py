"""How many jobs each queue has in each state.

A small stream is read. Of a large one, the server counts the tickets of ready jobs for its
consumers, the claim lists name the running jobs, and the tally has the rest (`tally`)."""

import asyncio
from collections import Counter
from typing import Any

from msgspec import Struct

from mita.model.job import State
from mita.model.record import DisplayState
from mita.model.time import Moment
from mita.rules.matching import shown_as
from mita.stores.nats.context import NatsContext

from . import tally
from .decode import decode_claim_list, decode_job_head
from .slots import WAKE_SLOT
from .subjects import RecordKind, name

READ_MESSAGES = 2_000  # a stream with no more of them is read
READ_RUNNING_JOBS = 2_000  # of more, the tally has the count


class JobCounts(Struct):
    """The counts by queue and state, when the oldest ready job of each queue was due, and when all
    of this was true (None: now). Ready and running jobs are always those of now."""

    by_queue: dict[str, Counter[str]]
    oldest: dict[str, Moment]
    counted: Moment | None = None


class SlotTickets(Struct, frozen=True):
    """The tickets of one slot of a queue: how many there are, and a sequence that none of them is
    before."""

    queue: str
    slot: int
    tickets: int
    first: int


async def count_jobs(context: NatsContext) -> JobCounts:
    """Returns the counts of all queues that have jobs."""
    if await is_small(context):
        return await _read_jobs(context)
    found, running, ready = await asyncio.gather(
        tally.asked_tally(context), _running(context), _ready(context)
    )
    counts = {queue: Counter(numbers) for queue, numbers in found.tally.counts().items()}
    if running is not None:
        _put(counts, DisplayState.RUNNING, running)
    _put(counts, DisplayState.READY, ready[0])
    return JobCounts(counts, ready[1], found.counted)


def _put(counts: dict[str, Counter[str]], state: DisplayState, numbers: Counter[str]) -> None:
    """Set the counts of one state in all queues."""
    for queue in {*counts, *numbers}:
        counts.setdefault(queue, Counter())[state.value] = numbers[queue]


async def patrol(context: NatsContext) -> None:
    """Keep the tally of a large stream up to date."""
    if not await is_small(context):
        await tally.patrol(context)


async def is_small(context: NatsContext) -> bool:
    """True if the stream has so few messages that they can be read."""
    info = await context.wire.api(f"STREAM.INFO.{context.subjects.stream}")
    return int(info.get("state", {}).get("messages", 0)) <= READ_MESSAGES


async def _read_jobs(context: NatsContext) -> JobCounts:
    """Reads every job. If a job has both a record and a ticket, the later one is valid."""
    newest: dict[str, Any] = {}
    async for found in context.reader.scan(context.subjects.jobs()):
        for message in found:
            if message.body:
                id = message.subject.rsplit(".", 1)[1]
                newest[id] = decode_job_head(message.body, message.subject)
    counts, now = JobCounts({}, {}), context.clock.now()
    for head in newest.values():
        if head.id:
            shown = shown_as(head.state, head.due, now)
            counts.by_queue.setdefault(head.queue, Counter())[shown] += 1
            if shown == DisplayState.READY:
                counts.oldest[head.queue] = min(head.due, counts.oldest.get(head.queue, head.due))
    return counts


async def _running(context: NatsContext) -> Counter[str] | None:
    """Returns how many jobs run in each queue, None if the claim lists name too many."""
    lists = await context.reader.all(context.subjects.all(RecordKind.CLAIM_LIST))
    found = [decode_claim_list(message.body) for message in lists if message.body]
    subjects = {subject for one in found if one is not None for subject in one.records}
    if len(subjects) > READ_RUNNING_JOBS:
        return None
    messages = await context.reader.last(subjects)
    heads = [decode_job_head(message.body, message.subject) for message in messages if message.body]
    return Counter(head.queue for head in heads if head.state is State.RUNNING)


async def _ready(context: NatsContext) -> tuple[Counter[str], dict[str, Moment]]:
    """Returns how many tickets each queue has, and when its first one was due."""
    counts: Counter[str] = Counter()
    slots = await slot_tickets(context)
    found = await asyncio.gather(
        *(
            context.reader.first(context.subjects.tickets(one.queue, one.slot), one.first)
            for one in slots
        )
    )
    oldest: dict[str, Moment] = {}
    for one, message in zip(slots, found, strict=True):
        counts[one.queue] += one.tickets
        if message is not None and message.body:
            due = decode_job_head(message.body, message.subject).due
            oldest[one.queue] = min(due, oldest.get(one.queue, due))
    return counts, oldest


async def slot_tickets(context: NatsContext) -> list[SlotTickets]:
    """Returns the slots that have tickets of jobs, as the server counts them."""
    found: list[SlotTickets] = []
    for consumer in await _consumers(context):
        made, _, slot = str(consumer["name"]).removeprefix("r-").rpartition("-")
        tickets = consumer.get("num_pending", 0) + consumer.get("num_ack_pending", 0)
        if tickets and slot.isdigit() and int(slot) != WAKE_SLOT:
            done = consumer.get("ack_floor", {}).get("stream_seq", 0)
            found.append(SlotTickets(name(made), int(slot), tickets, done + 1))
    return found


async def _consumers(context: NatsContext) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        request = {"offset": len(found)}
        answer = await context.wire.api(f"CONSUMER.LIST.{context.subjects.stream}", request)
        some = answer.get("consumers") or []
        found += some
        if not some or len(found) >= answer.get("total", 0):
            return found
