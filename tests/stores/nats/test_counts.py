"""Counts of a large stream: they must be those of a stream that is read, whatever happens."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from mita.model.job import NewJob
from mita.model.outcome import CancelJob, DeleteJob, PrioritiseJob, RescheduleJob
from mita.model.time import HOUR, LATEST, MINUTE, NOW, When
from mita.model.view import QueueView
from mita.stores.nats import NatsStore
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import pack
from mita.stores.nats.context import NatsContext
from mita.stores.nats.stream import counts, tally
from mita.stores.nats.stream.job_records import ROLLUP
from mita.stores.nats.stream.tally import Tally
from mita.testing.contract.given import claims, fail, jobs, put, put_many, running, settled, succeed
from tests.waiting import until


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stream counts as large, with many segments."""
    monkeypatch.setattr(counts, "READ_MESSAGES", 0)
    monkeypatch.setattr(tally, "SEGMENT_RECORDS", 4)
    monkeypatch.setattr(tally, "NEW_SEGMENT_RECORDS", 2)
    monkeypatch.setattr(tally, "ASKED_RECORDS", 16)
    monkeypatch.setattr(tally, "PATROL_EVERY_MS", 0)


@contextmanager
def small() -> Iterator[None]:
    """Streams are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "READ_MESSAGES", 1_000_000)
        yield


async def read(store: NatsStore) -> list[QueueView]:
    with small():
        return [replace(view, oldest=None) for view in await store.queues()]


async def counted(store: NatsStore) -> list[QueueView]:
    return [replace(view, oldest=None) for view in await store.queues()]


async def agree(store: NatsStore) -> None:
    """The counts are exact, as soon as the acknowledgements of tickets have arrived."""

    async def same() -> bool:
        return await counted(store) == await read(store)

    await until(same, "the counts agree")


async def jobs_in_all_states(store: NatsStore) -> list[str]:
    """Returns the ids of scheduled jobs."""
    for queue in ("a", "b.c"):
        done = await running(store, queue=queue)
        failed = await running(store, queue=queue)
        await settled(store, succeed(done), fail(failed))
        await running(store, queue=queue, resource="r")
        await put_many(store, 2, queue=queue, resource="r")
        assert await claims(store, queues=[queue]) == []
        await put(store, queue=queue, when=When(at=LATEST))
        await put_many(store, 3, queue=queue, priority=7)
        await put_many(store, 2, queue=queue)
    return await put_many(store, 11, queue="b.c", when=When(HOUR))


async def test_all_states(store: NatsStore) -> None:
    await jobs_in_all_states(store)
    await agree(store)
    a, bc = await counted(store)
    assert (a.ready, a.running, a.blocked, a.waiting, a.succeeded, a.failed) == (5, 1, 2, 1, 1, 1)
    assert (bc.scheduled, bc.counted) == (11, None)


async def test_after_every_change(store: NatsStore, twin: NatsStore) -> None:
    """Each change is in another segment, and some are at its end."""
    ids = await jobs_in_all_states(store)
    await agree(store)
    for change in (CancelJob(HOUR), CancelJob(0), RescheduleJob(NOW), DeleteJob()):
        await twin.amend([ids.pop(0), ids.pop()], change)
        await agree(store)
    await twin.amend(ids, PrioritiseJob(3))
    await agree(store)
    await settled(store, *(succeed(claim) for claim in await claims(store, queues=["b.c"])))
    await agree(store)


async def test_a_paused_queue(store: NatsStore) -> None:
    await put_many(store, 3)
    await store.pause(["mail"])
    await put_many(store, 2)
    [view] = await counted(store)
    assert view.ready == 5


async def test_how_long_the_oldest_job_has_been_ready(store: NatsStore) -> None:
    await put(store, when=When(HOUR))
    assert (await store.queues())[0].oldest is None
    first = await running(store)
    await put(store, priority=9)
    await settled(store, succeed(first))
    with small():
        [exact] = await store.queues()
    [view] = await store.queues()
    assert exact.oldest is not None
    assert view.oldest is not None
    assert view.oldest >= exact.oldest


async def many(store: NatsStore, n: int) -> list[NewJob]:
    made = jobs(n, when=When(HOUR))
    await store.enqueue(made)
    return made


async def test_old_counts_say_how_old_they_are(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "ASKED_RECORDS", 8)
    made = await many(store, 30)
    [exact] = await store.queues()
    assert (exact.scheduled, exact.counted) == (30, None)
    await store.amend([job.id for job in made[:20]], CancelJob(HOUR))
    [old] = await store.queues()
    assert old.counted is not None
    for _ in range(4):  # each reads eight
        [view] = await store.queues()
    assert (view.scheduled, view.cancelled, view.counted) == (10, 20, None)


async def test_much_older_counts_are_read(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "ASKED_RECORDS", 8)
    made = await many(store, 30)
    await store.queues()
    await store.amend([job.id for job in made[:20]], CancelJob(HOUR))
    monkeypatch.setattr(tally, "OLD_COUNT_MS", -MINUTE)
    [view] = await store.queues()
    assert (view.scheduled, view.cancelled, view.counted) == (10, 20, None)


async def test_a_patrol_counts_in_advance(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "PATROL_RECORDS", 8)
    await many(store, 30)
    for _ in range(5):
        await store.prune(10, 100)
    monkeypatch.setattr(tally, "ASKED_RECORDS", 3)
    [view] = await store.queues()
    assert (view.scheduled, view.counted) == (30, None)


async def put_tally(store: NatsStore, body: bytes) -> None:
    context = store.context
    assert all(await context.wire.store([OutMessage(context.subjects.tally, body, ROLLUP)]))


async def found_tally(store: NatsStore) -> Tally:
    found, _ = await tally._stored(store.context)
    return found


@pytest.mark.parametrize(
    "body", [b"", b"\xc1 bad", pack(Tally()), pack([1, [[1, 5, 1, 1, 1, {"mail": [1]}]]])]
)
async def test_a_lost_tally_is_counted_again(store: NatsStore, body: bytes) -> None:
    await many(store, 30)
    await store.queues()
    await put_tally(store, body)
    [view] = await store.queues()
    assert (view.scheduled, view.counted) == (30, None)


async def test_a_wrong_tally_heals(store: NatsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server counts as many messages as the tally, and the counts are wrong all the same."""
    monkeypatch.setattr(tally, "ASKED_RECORDS", 10)
    await many(store, 30)
    await store.queues()
    found = await found_tally(store)
    assert len(found.segments) > 3
    wrong = [replace(one, counts={"mail": [0, 9, 0, 0, 0, 0, 0]}) for one in found.segments]
    await put_tally(store, pack(Tally(found.at, tuple(wrong))))
    [view] = await store.queues()
    assert view.scheduled != 30, "the tally is believed"
    monkeypatch.setattr(tally, "TRUST_MS", 0)
    for _ in range(6):
        await asyncio.sleep(0.002)  # the clock has to move on
        await store.prune(10, 100)
    monkeypatch.setattr(tally, "TRUST_MS", HOUR)
    [view] = await store.queues()
    assert (view.scheduled, view.counted) == (30, None)


async def test_two_stores_that_count_at_once(store: NatsStore, twin: NatsStore) -> None:
    await many(store, 30)
    await asyncio.gather(store.queues(), twin.queues(), store.prune(10, 100), twin.prune(10, 100))
    await agree(store)


async def test_a_tally_that_does_not_fit_is_not_stored(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await many(store, 30)
    monkeypatch.setattr(NatsContext, "max_record", 50)
    for _ in range(2):
        [view] = await store.queues()
        assert (view.scheduled, view.counted) == (30, None)
    assert await found_tally(store) == Tally()


@pytest.mark.parametrize("ageing", [None, MINUTE])
async def test_how_many_are_ahead(store: NatsStore, ageing: Any) -> None:
    store.ageing = ageing
    ids = []
    for priority in (5, 5, 9, 2, 5, 9, 5):
        ids += await put_many(store, 2, priority=priority)
    await put_many(store, 2, queue="other")
    with small():
        exact = [await store.ahead(id) for id in ids]
    assert [await store.ahead(id) for id in ids] == exact
    assert sorted(number for number in exact if number is not None) == list(range(14))


async def test_how_many_are_ahead_at_a_key(store: NatsStore) -> None:
    holder = await running(store, resource="r")
    await put_many(store, 3, resource="other")
    ids = [*await put_many(store, 3, resource="r"), await put(store, resource="r", priority=9)]
    await claims(store)
    assert [await store.ahead(id) for id in ids] == [1, 2, 3, 0]
    assert await store.ahead(holder.id) is None
