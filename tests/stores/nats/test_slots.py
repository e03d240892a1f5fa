"""Slots of tickets: one for each priority and lane, the old ones as they always were."""

from itertools import product

from mita.model.job import PRIORITIES
from mita.stores.nats import NatsStore
from mita.stores.nats.codec import MOST_LANES, QueueRecord
from mita.stores.nats.stream import keys
from mita.stores.nats.stream.decode import decode_queue, is_guessed
from mita.stores.nats.stream.slots import WAKE_SLOT, is_slot, job_slots, priority_of, ticket_slot
from mita.stores.nats.stream.transaction import StreamTransaction
from mita.testing.contract.given import QUEUE, claimed_ids, put

LANES = range(MOST_LANES + 1)
WIDE = range(-100, 101)
SOME = sorted({PRIORITIES[0], PRIORITIES[0] + 1, 0, 5, 9, PRIORITIES[-1] - 1, PRIORITIES[-1]})


def test_every_priority_and_lane_has_a_slot_of_its_own() -> None:
    slots = {ticket_slot(*one): one for one in product(WIDE, LANES)}
    assert len(slots) == len(WIDE) * len(LANES)
    assert all(priority_of(slot) == priority for slot, (priority, _) in slots.items())
    every = range(-10, max(slots) + 1000)
    assert {slot for slot in every if is_slot(slot)} == {*slots, WAKE_SLOT}
    assert job_slots([5, WAKE_SLOT, 2000]) == [5, 2000]


def test_the_slots_of_the_first_ten_priorities_are_those_of_older_streams() -> None:
    for priority, lane in product(range(10), LANES):
        assert ticket_slot(priority, lane) == priority + 10 * lane


async def test_only_priorities_in_use_have_a_consumer_and_the_highest_goes_first(
    store: NatsStore,
) -> None:
    assert store.context.ageing is None
    ids = {priority: await put(store, priority=priority) for priority in SOME}
    record = await keys.queue_record(StreamTransaction(store.context), QUEUE)
    assert sorted(map(priority_of, record.priorities)) == SOME
    stream = store.context.subjects.stream
    made = await store.context.wire.api(f"CONSUMER.NAMES.{stream}", {})
    assert made["total"] == len(SOME)
    highest_first = [ids[priority] for priority in reversed(SOME)]
    assert await claimed_ids(store, 2) == highest_first[:2]
    assert await claimed_ids(store, len(SOME)) == highest_first[2:]


async def test_a_claim_passes_over_priorities_without_tickets(store: NatsStore) -> None:
    for priority in SOME:
        await put(store, priority=priority)
    await claimed_ids(store, len(SOME))
    lowest = await put(store, priority=SOME[0])
    middle = await put(store, priority=SOME[3])
    assert await claimed_ids(store, 5) == [middle, lowest]


async def test_an_unreadable_queue_gets_the_slots_of_its_consumers_back(store: NatsStore) -> None:
    old = await put(store, priority=SOME[0])
    subject = store.context.subjects.queue(QUEUE)
    tx = StreamTransaction(store.context)
    await tx.body(subject)
    tx.put(subject, b"\xc1")
    assert await tx.commit()
    assert is_guessed(decode_queue(b"\xc1", subject))
    assert not is_guessed(QueueRecord(QUEUE, priorities=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)))
    store.context.consumers.clear()  # as another process
    new = await put(store, priority=SOME[-1])
    assert await claimed_ids(store, 5) == [new, old]
    record = await keys.queue_record(StreamTransaction(store.context), QUEUE)
    assert sorted(map(priority_of, record.priorities)) == [SOME[0], SOME[-1]]
