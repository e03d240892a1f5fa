"""What belongs to one rate is written in steps, without a batch: a process may die between two."""

import asyncio
from collections import Counter as Counters
from collections.abc import Sequence

import pytest

from mita.model.gate import Gate
from mita.model.job import Claim, State
from mita.model.outcome import CancelJob
from mita.stores.nats import NatsStore
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.client.wire import NatsWire
from mita.stores.nats.codec import pack
from mita.stores.nats.stream import consumers
from mita.stores.nats.stream.keys import resource_key_record
from mita.stores.nats.stream.stepwise import RateSteps
from mita.stores.nats.stream.subjects import RecordKind
from mita.stores.nats.stream.transaction import StreamTransaction
from mita.testing.contract.given import (
    LONG,
    QUEUE,
    SHORT,
    claims,
    look,
    put_many,
    settled,
    succeed,
)
from tests.waiting import until

RATE = (Gate("host:a", None, 20_000, 3),)
JOBS = 12


class Died(BaseException):
    """Not an `Exception`: nothing in the store may catch it."""


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "ACK_WAIT_S", 1)


def die_after(store: NatsStore, monkeypatch: pytest.MonkeyPatch, last: str) -> None:
    """Let the process of this store die after this step of its next write to a rate."""
    usual, dying = RateSteps.write, store.context.wire

    async def write(self: RateSteps, wire: NatsWire) -> dict[str, int] | None:
        if wire is not dying or (last == "waiters" and not self._waiters):
            return await usual(self, wire)
        steps = {"key": self.keys, "waiters": self._waiters, "records": self._records}
        for name, step in steps.items():
            await wire.store(step)
            if name == last:
                break
        raise Died

    monkeypatch.setattr(RateSteps, "write", write)


async def work_on(store: NatsStore) -> None:
    while True:
        found = await store.claim([QUEUE], JOBS, SHORT, "w1")
        await settled(store, *(succeed(claim) for claim in found.claims))
        await asyncio.sleep(0.01)


async def died(store: NatsStore) -> None:
    """Claim until the store dies."""
    with pytest.raises(Died):
        await work_on(store)
    transport = store.context.wire._transport
    assert transport is not None
    transport.close()  # type: ignore[no-untyped-call]
    await store.close()


async def all_ended(store: NatsStore, ids: Sequence[str]) -> Counters[str]:
    """Work until these jobs have ended. Returns how often each of them was claimed."""
    runs = Counters[str]()

    async def work() -> bool:
        found: list[Claim] = [*await claims(store), *await store.reap(JOBS, LONG, "heir")]
        runs.update(claim.id for claim in found)
        await settled(store, *(succeed(claim) for claim in found))
        ended = await store.find(ids)
        return all(job is not None and job.state is State.SUCCEEDED for job in ended)

    await until(work, "all jobs end")
    return runs


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("new", "key"),
        ("new", "waiters"),
        ("new", "records"),
        ("woken", "key"),
        ("woken", "records"),
    ],
)
async def test_a_store_that_dies_between_two_steps_loses_no_job(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch, path: str, step: str
) -> None:
    """I1 I4: what it has left behind is corrected by others, and no job starts twice at once."""
    ids = await put_many(store, JOBS, gates=RATE)
    if path == "woken":
        found = await claims(store, JOBS)
        await settled(store, *(succeed(claim) for claim in found))
    die_after(store, monkeypatch, step)
    await died(store)
    runs = await all_ended(twin, ids)
    assert max(runs.values()) == 1
    await until(lambda: has_no_waiters(twin), "the waiters are removed")


async def has_no_waiters(store: NatsStore) -> bool:
    assert await claims(store) == []
    left = await store.context.reader.all(store.context.subjects.all(RecordKind.WAITER))
    return not any(message.body for message in left)


async def test_waiters_that_are_written_twice_are_removed_once(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store dies before their jobs are blocked, so another writes them again. Only the first of
    a long line are read: those must not be waiters that nobody can remove."""
    ids = await put_many(store, 150, gates=(Gate("host:a", None, 5000, 2),))
    die_after(store, monkeypatch, "waiters")
    await died(store)
    runs = await all_ended(twin, ids)
    assert max(runs.values()) == 1


async def test_a_job_that_is_cancelled_at_that_moment_does_not_start(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is refused, and the others of the same write start."""
    ids = await put_many(store, 3, gates=RATE)
    usual = store.context.wire.store
    cancelled: list[str] = []

    async def late(messages: Sequence[OutMessage]) -> list[int]:
        records = [one for one in messages if store.context.subjects.is_record(one.subject)]
        if len(records) == 3 and not cancelled:
            cancelled.append(ids[1])
            await twin.amend([ids[1]], CancelJob(LONG))
        return await usual(messages)

    monkeypatch.setattr(store.context.wire, "store", late)
    found = await until(lambda: claims(store), "the others start")
    assert [claim.id for claim in found] == [ids[0], ids[2]]
    assert cancelled == [ids[1]]
    assert (await look(twin, ids[1])).state is State.CANCELLED
    await settled(store, *(succeed(claim) for claim in found))


async def test_jobs_of_one_rate_need_no_batch(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server with one replica waits for its disk several times in each batch."""

    async def refused(_: Sequence[OutMessage]) -> int:
        raise AssertionError("a batch")

    monkeypatch.setattr(store.context.wire, "store_batch", refused)
    ids = await put_many(store, JOBS, gates=RATE)
    assert (await all_ended(store, ids)).total() == JOBS


async def test_a_key_with_a_limit_needs_a_batch(store: NatsStore) -> None:
    """Otherwise a store that dies would leave a place taken."""
    [id, *_] = await put_many(store, 3, gates=(Gate("host:a", 1, 20_000, 3),))
    assert [claim.id for claim in await claims(store)] == [id]
    tx = StreamTransaction(store.context)
    key = await resource_key_record(tx, QUEUE, "host:a")
    subject = store.context.subjects.resource_key(QUEUE, "host:a")
    steps = RateSteps(store.context.subjects, [OutMessage(subject, pack(key))])
    assert key.holders == (id,)
    assert not steps.are_enough({subject: key})
