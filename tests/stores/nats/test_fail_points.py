"""A process dies between the two steps of a verb. What it leaves behind must be corrected without
it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from mita.model.job import Claim, NewJob, State
from mita.model.outcome import Answer, PrioritiseJob, RescheduleJob, Settlement
from mita.model.time import HOUR, NOW, When
from mita.stores.nats import NatsStore
from mita.stores.nats.client.errors import NoServerAnswer
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.stream import consumers, job_records
from mita.stores.nats.tickets import draining, take
from mita.stores.nats.tickets import pull as pulling
from mita.testing.contract.given import (
    LONG,
    QUEUE,
    SHORT,
    SOON,
    claim_one,
    claims,
    job,
    jobs,
    look,
    put,
    release,
    running,
    settled,
    state_of,
    succeed,
)
from tests.waiting import until


class Died(BaseException):
    """Not an `Exception`: nothing in the store may catch it."""


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_records, "SAFETY_DELAY_MS", 1000)
    monkeypatch.setattr(consumers, "ACK_WAIT_S", 1)


async def dies(store: NatsStore, where: str, act: Callable[[], Awaitable[Any]]) -> None:
    """Call `act` and end it at this point, as if its process had died."""

    async def point(name: str) -> None:
        if name == where:
            raise Died

    store.context.fail_point = point
    with pytest.raises(Died):
        await act()
    transport = store.context.wire._transport
    assert transport is not None
    transport.close()  # type: ignore[no-untyped-call]
    await store.close()


async def comes(store: NatsStore, id: str) -> None:
    """The job is claimed, once."""
    found = await until(lambda: claims(store), "it comes")
    assert [claim.id for claim in found] == [id]
    await settled(store, *(succeed(claim) for claim in found))
    await asyncio.sleep(1.5)
    assert await claims(store) == [], "and not twice"


async def test_settling_a_job_that_is_queued_again(store: NatsStore, twin: NatsStore) -> None:
    claim = await running(store)
    await dies(store, "between record and ticket", lambda: store.settle([release(claim)]))
    assert await state_of(twin, claim.id) is State.QUEUED
    await comes(twin, claim.id)


async def test_rescheduling_a_scheduled_job_to_now(store: NatsStore, twin: NatsStore) -> None:
    id = await put(store, when=When(HOUR))
    await dies(store, "between record and ticket", lambda: store.amend([id], RescheduleJob(NOW)))
    await comes(twin, id)


async def test_rescheduling_a_ready_job(store: NatsStore, twin: NatsStore) -> None:
    id = await put(store)
    await dies(store, "between record and ticket", lambda: store.amend([id], RescheduleJob(NOW)))
    await comes(twin, id)


async def test_another_priority_for_a_ready_job(store: NatsStore, twin: NatsStore) -> None:
    id = await put(store)
    await dies(store, "between record and ticket", lambda: store.amend([id], PrioritiseJob(9)))
    await comes(twin, id)


@pytest.mark.parametrize("verdict", [succeed, release])
async def test_waking_the_next_job_at_a_key(
    store: NatsStore,
    twin: NatsStore,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Callable[[Claim], Settlement],
) -> None:
    """There is nothing between its record and its ticket: both are in the batch that frees the key.
    So no process can die there, and nothing waits for the schedule. If the holder ends, that batch
    comes after the holder's record."""
    monkeypatch.setattr(job_records, "SAFETY_DELAY_MS", HOUR)
    points: list[str] = []

    async def point(name: str) -> None:
        points.append(name)

    holder = await running(store, resource="r")
    id = await put(store, resource="r")
    assert await claims(store) == []
    store.context.fail_point = point
    await settled(store, verdict(holder))
    assert points == (["between record and key"] if verdict is succeed else [])
    found = await claims(twin)
    assert {claim.id for claim in found} <= {id, holder.id}
    for _ in range(2 if verdict is release else 1):
        [claim] = found
        await settled(twin, succeed(claim))
        found = await claims(twin)
    assert found == []


async def test_the_ticket_of_a_batch_names_the_record_before_it(store: NatsStore) -> None:
    """So its claim need not read the record: the first write is not refused."""
    holder = await running(store, unique="u")
    await settled(store, release(holder))
    pulled = await pulling.pull(store.context, {(QUEUE, holder.priority): 1})
    [ticket] = pulled.tickets
    [located] = (await job_records.locate(store.context, [holder.id])).values()
    assert ticket.record.record_seq == located.seq == ticket.seq - 1
    await until(lambda: claims(store), "the ticket is delivered again")


async def test_claiming(store: NatsStore, twin: NatsStore) -> None:
    """I4: the ticket is delivered again and ignored; a reap takes the job over, with a new
    token."""
    id = await put(store)
    await dies(
        store, "between record and acknowledgement", lambda: store.claim([QUEUE], 1, SHORT, "w1")
    )
    assert await state_of(twin, id) is State.RUNNING
    await asyncio.sleep(1.5)
    assert await claims(twin) == [], "the second delivery of its ticket is no second claim"
    [heir] = await twin.reap(10, LONG, "heir")
    assert (heir.id, heir.token) == (id, 2)
    await settled(twin, succeed(heir))


async def test_a_ticket_that_is_redelivered_late_is_not_claimed_again(
    store: NatsStore, twin: NatsStore
) -> None:
    """I4: the worker died after the claim, another finished the job, and the ticket was never
    acknowledged."""
    id = await put(store)
    await dies(
        store, "between record and acknowledgement", lambda: store.claim([QUEUE], 1, SHORT, "w1")
    )
    await asyncio.sleep(0.5)
    [heir] = await twin.reap(10, LONG, "heir")
    await settled(twin, succeed(heir, keep=0))
    await asyncio.sleep(1.2)
    assert await claims(twin) == []
    assert await twin.find([id]) == [None]


async def left_tickets(store: NatsStore, id: str) -> list[str]:
    found = await store.context.reader.last([store.context.subjects.any_of_id(id)])
    return [
        message.subject
        for message in found
        if not store.context.subjects.is_record(message.subject)
    ]


async def test_a_reap_removes_a_ticket_that_was_never_acknowledged(
    store: NatsStore, twin: NatsStore
) -> None:
    """I4: it would be delivered again at every pull, and the record that overrules it is not kept
    for ever."""
    id = await put(store)
    await dies(
        store, "between record and acknowledgement", lambda: store.claim([QUEUE], 1, SHORT, "w1")
    )
    assert len(await left_tickets(twin, id)) == 1
    await asyncio.sleep(0.5)
    [heir] = await twin.reap(10, LONG, "heir")
    assert await left_tickets(twin, id) == []
    await settled(twin, succeed(heir, keep=0))


async def test_acknowledgements_lost_with_a_connection(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4: a settle on the next connection removes the ticket."""
    monkeypatch.setattr(take, "acknowledge", lambda *_: None)
    claim = await running(store)
    assert len(await left_tickets(store, claim.id)) == 1
    transport = store.context.wire._transport
    assert transport is not None
    transport.close()  # type: ignore[no-untyped-call]
    await until(lambda: store.context.reconnected_at, "the connection is back")
    await settled(store, succeed(claim, keep=0))
    assert await left_tickets(store, claim.id) == []


async def test_a_consumer_that_no_queue_record_names(store: NatsStore, twin: NatsStore) -> None:
    await consumers.ensure_consumer(store.context.wire, store.context.subjects, QUEUE, 5)
    await store.close()
    id = await put(twin)
    assert (await claim_one(twin)).id == id


async def test_a_ticket_that_is_late_is_refused(store: NatsStore, twin: NatsStore) -> None:
    """The writer stopped between its two steps for so long that the server and another worker were
    faster."""
    stalled, go_on = asyncio.Event(), asyncio.Event()

    async def point(name: str) -> None:
        if name == "between record and ticket":
            stalled.set()
            await go_on.wait()

    claim = await running(store)
    store.context.fail_point = point
    settling = asyncio.ensure_future(store.settle([release(claim)]))
    await stalled.wait()
    await comes(twin, claim.id)
    go_on.set()
    assert await settling == [True]
    await asyncio.sleep(0.2)
    assert await claims(twin) == []
    assert (await look(twin, claim.id)).state is State.SUCCEEDED


Store = Callable[[Sequence[OutMessage]], Awaitable[list[int]]]


def first_store(
    store: NatsStore,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Store, Sequence[OutMessage]], Awaitable[Any]],
) -> None:
    """Replace the next call of `wire.store`; later calls are as usual."""
    usual = store.context.wire.store

    async def once(messages: Sequence[OutMessage]) -> list[int]:
        monkeypatch.setattr(store.context.wire, "store", usual)
        await act(usual, messages)
        raise NoServerAnswer("the leader went away", transient=True)

    monkeypatch.setattr(store.context.wire, "store", once)


async def done(usual: Store, messages: Sequence[OutMessage]) -> None:
    await usual(messages)


async def not_done(_: Store, __: Sequence[OutMessage]) -> None: ...


@pytest.mark.parametrize("what", [done, not_done])
async def test_an_enqueue_without_an_answer(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch, what: Any
) -> None:
    """I1 I2: stored or not, it becomes one job, and the receipt says that it is new."""
    await put(store)
    first_store(store, monkeypatch, what)
    assert [receipt.created for receipt in await store.enqueue([job(), job(when=When(HOUR))])] == [
        True,
        True,
    ]
    [view] = await store.queues()
    assert (view.ready, view.scheduled) == (2, 1)


@pytest.mark.parametrize("what", [done, not_done])
async def test_a_claim_without_an_answer(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch, what: Any
) -> None:
    """I4: the claim recognises its own record."""
    id = await put(store)
    first_store(store, monkeypatch, what)
    claim = await claim_one(store)
    assert (claim.id, claim.token) == (id, 1)
    await settled(store, succeed(claim))
    assert await claims(store) == []


async def test_a_claim_that_is_on_no_list(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: a lost leader may have kept the record but not the claim list before it; then the worker
    dies."""
    id = await put(store)

    async def half(usual: Store, messages: Sequence[OutMessage]) -> None:
        await usual(messages[1:])
        raise Died

    first_store(store, monkeypatch, half)
    with pytest.raises(Died):
        await store.claim([QUEUE], 1, SHORT, "w1")
    deadline = asyncio.get_running_loop().time() + 60
    while not (heirs := await twin.reap(10, LONG, "heir")):
        # the ticket is delivered again, and its claim leaves a list
        assert await claims(twin, lease=SHORT) == []
        assert asyncio.get_running_loop().time() < deadline, "nobody finds it"
        await asyncio.sleep(0.1)
    assert [(heir.id, heir.token) for heir in heirs] == [(id, 2)]


async def test_an_enqueue_that_is_sent_again_makes_one_job(
    store: NatsStore, twin: NatsStore
) -> None:
    """I1 I4: the answer was lost, so the call is repeated."""
    batch: list[NewJob] = [*jobs(50), *jobs(50, when=When(HOUR)), job(unique="u")]
    await store.enqueue(batch)
    assert not any(receipt.created for receipt in await twin.enqueue(batch))
    [view] = await twin.queues()
    assert (view.ready, view.scheduled) == (51, 50)


async def test_an_amend_is_not_undone_by_a_store_that_pulled_the_ticket_before(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: the job is rescheduled between the pull and the claim."""
    id = await put(store)
    pull = pulling.pull

    async def slow(*arguments: Any) -> Any:
        monkeypatch.setattr(draining, "pull", pull)
        pulled = await pull(*arguments)
        assert await twin.amend([id], RescheduleJob(When(SOON))) == [Answer.DONE]
        return pulled

    monkeypatch.setattr(draining, "pull", slow)
    assert await claims(store) == []
    [claim] = await until(lambda: claims(store), "it is due")
    assert (claim.id, claim.reschedules) == (id, 1)
    assert claim.at >= claim.due


async def test_an_amend_is_not_undone_by_the_server_firing_at_that_moment(
    store: NatsStore, twin: NatsStore
) -> None:
    """The server removes the record of a schedule that it fires, even if it was written a moment
    ago."""
    batch = [job(when=When(320 + at)) for at in range(0, 300, 2)]
    await store.enqueue(batch)

    async def move(at: int, id: str) -> None:
        await asyncio.sleep(at * 0.004)
        handle = (store, twin)[at % 2]
        assert await handle.amend([id], RescheduleJob(When(HOUR))) == [Answer.DONE]
        moved = await look(handle, id)
        assert (moved.state, moved.reschedules) == (State.QUEUED, 1)
        assert moved.due > moved.created + HOUR - LONG

    await asyncio.gather(*(move(at, new.id) for at, new in enumerate(batch)))
    assert await claims(store) == []
