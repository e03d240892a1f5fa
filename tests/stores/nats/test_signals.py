"""Jobs that get signals or arrivals while they are ready, and are not claimed before the schedules
of their records fire."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from mita.model.flow import Arrival
from mita.model.outcome import Answer, SignalJob
from mita.stores.nats import NatsStore
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import pack
from mita.stores.nats.stream import job_records
from mita.stores.nats.stream.job_records import EXPECT_SEQ, locate, record_message
from mita.testing.contract.given import claims, put, release, running, settled
from tests.waiting import until


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_records, "SAFETY_DELAY_MS", 1000)


async def signalled(store: NatsStore, id: str, *names: str) -> str:
    for name in names:
        assert await store.amend([id], SignalJob(name, name.encode())) == [Answer.DONE]
    return id


async def new(store: NatsStore, queue: str) -> str:
    """The second signal finds a ticket that names the record of the first."""
    return await signalled(store, await put(store, queue=queue), "a", "b")


async def new_with_a_key(store: NatsStore, queue: str) -> str:
    return await signalled(store, await put(store, queue=queue, resource="r"), "a", "b")


async def released(store: NatsStore, queue: str) -> str:
    claim = await running(store, queue=queue)
    await settled(store, release(claim))
    return await signalled(store, claim.id, "a")


async def released_in_a_batch(store: NatsStore, queue: str) -> str:
    """Its ticket says that the record is the message just before it."""
    claim = await running(store, queue=queue, unique="u")
    await settled(store, release(claim))
    return await signalled(store, claim.id, "a")


async def receiver(store: NatsStore, queue: str) -> str:
    id = await put(store, queue=queue)
    for sender in ("x", "y"):
        assert await store.arrive([Arrival(queue, id, sender, b"", needs=9)]) == [Answer.DONE]
    return id


async def stored_before_the_release(store: NatsStore, queue: str) -> str:
    """Its record names the record that it replaced."""
    context, id = store.context, await signalled(store, await put(store, queue=queue), "a")
    located = (await locate(context, [id]))[id]
    assert located.record is not None
    _, headers = record_message(context, located.record, context.clock.now())
    body = pack(replace(located.record, record_seq=located.seq))
    message = OutMessage(located.subject, body, headers + EXPECT_SEQ % located.seq)
    assert await context.wire.store([message]) != [0]
    return id


READY: dict[str, Callable[[NatsStore, str], Awaitable[str]]] = {
    "new": new,
    "new with a key": new_with_a_key,
    "released": released,
    "released in a batch": released_in_a_batch,
    "receiver": receiver,
    "stored before the release": stored_before_the_release,
}


async def test_a_ready_job_that_gets_signals_is_not_lost(store: NatsStore) -> None:
    """The server makes a ticket of its record, and that is all that is left of the job. Each is
    claimed once."""
    ids = {await ready(store, queue): queue for queue, ready in READY.items()}

    async def all_fired() -> bool:
        return all(one.seq == 0 for one in (await locate(store.context, ids)).values())

    await until(all_fired, "the server makes tickets of all records")
    started = list[str]()

    async def none_is_left() -> bool:
        found = await claims(store, queues=list(READY))
        started.extend(ids[claim.id] for claim in found)
        there = await store.find(list(ids))
        return all(job is None or job.state != "queued" for job in there)

    await until(none_is_left, "all of them are claimed")
    assert sorted(started) == sorted(READY)
