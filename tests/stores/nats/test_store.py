"""What this store promises beyond the contract."""

import asyncio
import threading
from statistics import median
from typing import Any

import pytest

from mita.errors import Rejected
from mita.model.job import State
from mita.model.outcome import Answer, CancelJob, Held, PrioritiseJob
from mita.model.time import LATEST, NOW, When
from mita.model.view import Health
from mita.ports.pubsub import EventMessage
from mita.ports.store import Can
from mita.stores.nats import NatsStore
from mita.stores.nats import claim as claiming
from mita.stores.nats.context import NatsContext
from mita.stores.nats.stream.clock import as_stamp, nanoseconds
from mita.stores.nats.stream.job_records import locate
from mita.stores.nats.stream.reader import StoredMessage
from mita.stores.nats.tickets import draining
from mita.stores.nats.tickets import pull as pulling
from mita.stores.nats.tickets.next_due import NEXT_DUE_SCAN_RECORDS
from mita.testing.contract.given import (
    LONG,
    QUEUE,
    claim_one,
    claimed_ids,
    claims,
    jobs,
    look,
    put,
    put_many,
    release,
    running,
    settled,
    succeed,
)
from tests.waiting import until

from . import servers


async def all_at_once(store: NatsStore, jobs: int, queues: list[str]) -> list[str]:
    """The ids in the order in which one claim returns them all. A consumer knows of a new ticket a
    moment after its publisher, so a claim that finds fewer is put back and made again."""
    for _ in range(50):
        found = await claims(store, jobs, queues=queues)
        if len(found) == jobs:
            break
        await settled(store, *map(release, found))
    return [claim.id for claim in found]


async def test_a_job_for_the_end_of_time_stays_a_schedule(store: NatsStore) -> None:
    """The server counts nanoseconds in 64 bits: it would fire a schedule after the year 2262 at
    once, and claims would look at the ticket again and again."""
    never = await put(store, when=When(at=LATEST))
    soon = await put(store, when=When(1000))
    await until(lambda: _has_ticket(store, soon))
    assert not await _has_ticket(store, never)


async def _has_ticket(store: NatsStore, id: str) -> bool:
    [located] = (await locate(store.context, [id])).values()
    return bool(located.ticket)


async def test_priorities_are_exact_and_jobs_of_one_come_in_order_of_arrival(
    store: NatsStore,
) -> None:
    assert Can.KEEP_EXACT_ORDER not in store.can
    ids = {priority: await put_many(store, 3, priority=priority) for priority in (5, 0, 9)}
    assert await claimed_ids(store, 4) == [*ids[9], ids[5][0]]
    assert await claimed_ids(store, 10) == [*ids[5][1:], *ids[0]]


async def test_queues_are_served_in_the_order_asked(store: NatsStore) -> None:
    mail, billing = await put(store, priority=9), await put(store, queue="billing", priority=0)
    found = await all_at_once(store, 2, queues=["billing", QUEUE])
    assert found == [billing, mail]


async def test_a_new_priority_counts_at_once(store: NatsStore, twin: NatsStore) -> None:
    one, two = await put_many(store, 2)
    await twin.amend([two], PrioritiseJob(6))
    assert await claimed_ids(store) == [two, one]


async def test_a_released_job_comes_again_at_once(store: NatsStore) -> None:
    claim = await running(store)
    await settled(store, release(claim))
    assert await claimed_ids(store) == [claim.id]


async def test_jobs_due_in_a_moment_are_neither_early_nor_late(store: NatsStore) -> None:
    """I8: the server's own timer would be up to 250 ms late."""
    waits = [20, 60, 100, 150, 200, 249, 251, 299, 301, 350, 500, 700]
    for wait in waits:
        await put(store, when=When(wait))
    late: list[int] = []
    while len(late) < len(waits):
        turn = await store.claim([QUEUE], 20, LONG, "w")
        for claim in turn.claims:
            assert claim.at >= claim.due
            late.append(claim.at - claim.due)
        if not turn.claims:
            await store.wait([QUEUE], min(1.0, (1000 if turn.again is None else turn.again) / 1000))
    assert median(late) < 50
    assert max(late) < 250


async def test_a_wait_ends_when_a_job_is_due(store: NatsStore, twin: NatsStore) -> None:
    """I9: the server wakes it; it does not poll."""
    await put(twin, when=When(600))
    await claims(store)
    while await store.wait([QUEUE], 0.05):
        pass
    assert QUEUE in await store.wait([QUEUE], 5)


async def test_a_wakeup_between_two_waits_for_any_queue_is_not_missed(
    store: NatsStore, twin: NatsStore
) -> None:
    """The first wake-up ends the subscription. A wake-up of another queue before the next
    subscription must not be lost."""
    while await store.wait(None, 0.05):
        pass
    await put(twin, queue="first")
    await store.wait(None, 5)
    await put(twin, queue="second")
    await asyncio.sleep(0.1)  # until the first wake-up has been repeated
    assert await store.wait(None, 5) - {"first"}


async def test_a_store_on_another_thread_extends_the_claims_of_this_one(
    store: NatsStore, namespace: str
) -> None:
    claim = await running(store, lease=500)
    answers: list[Held] = []

    async def keep() -> None:
        keeper = NatsStore(servers.shared().url, namespace=namespace)
        await keeper.open()
        answers.extend(await keeper.extend([claim], LONG))
        await keeper.close()

    thread = threading.Thread(target=lambda: asyncio.run(keep()))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert answers == [Held.HELD]
    assert ((await look(store, claim.id)).lease_until or 0) > claim.at + 500
    await settled(store, succeed(claim))


async def test_with_many_scheduled_jobs_an_empty_claim_says_soon(store: NatsStore) -> None:
    await store.enqueue(jobs(NEXT_DUE_SCAN_RECORDS + 50, when=When(LONG)))
    again = (await store.claim([QUEUE], 1, LONG, "w")).again
    assert again is not None
    assert again <= 1000


async def test_of_very_many_waiters_the_first_is_woken(store: NatsStore) -> None:
    """I9: more waiters than the server lists in one answer; other jobs run meanwhile."""
    holder = await running(store, resource="hot")
    await store.enqueue(jobs(1300, resource="hot"))
    first = await put(store, resource="hot", priority=7)
    other = await put(store, resource="cold")
    met: list[str] = []
    for _ in range(5):
        met += await claimed_ids(store, 50)
    assert met == [other]
    await settled(store, succeed(holder))
    assert await claimed_ids(store) == [first]
    [view] = await store.resources(key="hot")
    assert view.waiting == 1300


async def test_messages_of_another_program_harm_no_job_and_are_shown(store: NatsStore) -> None:
    """I15"""
    id = await put(store)
    subjects = store.context.subjects
    await store.context.wire.publish(subjects.ticket(QUEUE, 5, "junk"), b"\xc1 not ours")
    await store.context.wire.publish(subjects.record(QUEUE, "junk"), b"\xc1 not ours")
    await asyncio.sleep(0.1)
    assert await claimed_ids(store) == [id]
    assert [(view.ready, view.running) for view in await store.queues()] == [(0, 1)]
    [junk] = await store.find(["junk"])
    assert junk is not None
    assert (junk.state, junk.queue) == (State.FAILED, QUEUE)
    assert (await store.raw("junk") or {}).popitem()[1] == b"\xc1 not ours"


async def test_a_consumer_that_was_deleted_by_hand_comes_back(
    store: NatsStore, twin: NatsStore
) -> None:
    """I12: its tickets are still in the stream."""
    id = await put(store)
    where = f"CONSUMER.DELETE.{store._subjects.stream}.{store._subjects.consumer(QUEUE, 5)}"
    assert (await store.context.wire.api(where))["success"]
    turn = await twin.claim([QUEUE], 1, LONG, "w")
    assert (turn.claims, turn.again is not None) == ([], True)
    assert await claimed_ids(twin) == [id]


async def test_ten_thousand_go_in_and_come_out(store: NatsStore) -> None:
    """I1 I4"""
    batch = jobs(10_000)
    assert all(receipt.created for receipt in await store.enqueue(batch))
    met: set[str] = set()
    turn = await store.settle_and_claim([], [QUEUE], 700, LONG, "w")
    while turn.claims:
        assert not met & {claim.id for claim in turn.claims}
        met |= {claim.id for claim in turn.claims}
        turn = await store.settle_and_claim(
            [succeed(claim) for claim in turn.claims], [QUEUE], 700, LONG, "w"
        )
        assert all(turn.took)
    assert met == {new.id for new in batch}
    assert [(view.succeeded, view.ready, view.running) for view in await store.queues()] == [
        (10_000, 0, 0)
    ]


async def test_the_id_of_a_deleted_job_may_be_used_again(store: NatsStore) -> None:
    claim = await running(store)
    await settled(store, succeed(claim, keep=0))
    assert await store.find([claim.id]) == [None]
    await put(store, id=claim.id)
    assert (await claim_one(store)).id == claim.id


async def test_the_id_of_a_job_that_was_cancelled_before_its_claim_may_be_used_again(
    store: NatsStore,
) -> None:
    """Its old ticket is not valid."""
    [new] = jobs(1)
    await store.enqueue([new])
    assert await store.amend([new.id], CancelJob(keep=0)) == [Answer.DONE]
    assert [receipt.created for receipt in await store.enqueue([new])] == [True]
    assert await claimed_ids(store) == [new.id]


async def test_a_plain_job_is_enqueued_without_a_read(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round trip, from the second job of a queue and priority on."""
    await put(store)

    async def asked(*_: object, **__: object) -> list[StoredMessage]:
        raise AssertionError("nothing has to be looked up")

    monkeypatch.setattr(store.context.reader, "last", asked)
    batch = [*jobs(3), *jobs(3, when=When(LONG))]
    assert all(receipt.created for receipt in await store.enqueue(batch))


async def test_the_doctor(store: NatsStore) -> None:
    findings = {finding.what: finding for finding in await store.doctor()}
    assert "NATS 2." in findings["server"].found
    assert findings["replicas"].found.startswith("1")
    assert findings["durability"].health is Health.WARN
    assert "before it is on disk" in findings["durability"].found
    assert {"clock", "consumer lag", "stream"} <= set(findings)


async def test_opening_again_changes_nothing(store: NatsStore) -> None:
    assert await store.migrate() == []


async def test_two_namespaces_share_a_server(store: NatsStore) -> None:
    id = await put(store)
    other = NatsStore(servers.shared().url, namespace=servers.fresh_namespace())
    await other.open()
    assert await other.find([id]) == [None]
    assert await other.queue_names() == []
    await other.close()
    assert (await look(store, id)).state is State.QUEUED
    assert NOW.moment(5) == 5


def test_times_as_the_server_writes_them() -> None:
    assert nanoseconds("2026-11-15T06:13:10.500565274Z") == 1_794_723_190_500_565_274
    assert nanoseconds("2026-11-15T06:13:10Z") == 1_794_723_190_000_000_000
    assert as_stamp(1_794_723_190_005) == b"2026-11-15T06:13:10.005Z"


async def test_an_event_that_is_too_large_does_not_cost_the_connection(tight: NatsStore) -> None:
    """The server ends a connection that sends a message larger than its max_payload."""
    subscription = await tight.subscribe(None)
    with pytest.raises(Rejected):
        await tight.publish([EventMessage("q", 1, b"x" * 100_000)])
    await tight.publish([EventMessage("q", 1, b"small")])
    heard = await subscription.receive()
    assert heard is not None
    assert [one.events for one in heard.messages] == [b"small"]
    assert not heard.cut, "nothing was lost on the way"
    assert tight.context.reconnected_at == 0, "the connection is the first one"


async def test_a_claim_that_met_only_busy_jobs_waits_for_late_tickets(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer knows of a ticket a moment after its publisher does. The job of another priority
    is claimed all the same."""
    await running(store, resource="key")
    await put(store, resource="key", priority=9)
    free = await put(store)
    pull = pulling.pull

    async def late(context: NatsContext, sources: Any, *more: Any, **named: Any) -> Any:
        if list(sources) == [(QUEUE, 5)]:
            return pulling.Pulled([], 0, [])  # "there is no ticket"
        return await pull(context, sources, *more, **named)

    monkeypatch.setattr(draining, "pull", late)
    for module in (claiming, draining):
        monkeypatch.setattr(module, "pull", late)
    assert await claimed_ids(store) == [free]
