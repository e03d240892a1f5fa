"""Keys whose holder does not run, put into each store by hand: what a lost write, an old version or
a person may leave.

`tests/contract` runs these tests over every store, `tests/stores/redis` over other kinds of
Redis."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from mita.model.job import State, WhenBusy
from mita.ports.store import Store
from mita.stores.memory import MemoryStore
from mita.stores.memory.state.memory_state import UniqueHolder
from mita.stores.nats import NatsStore
from mita.stores.nats.codec import ResourceKeyRecord, UniqueKeyRecord, WaiterRecord, pack
from mita.stores.nats.stream.transaction import StreamTransaction, transact
from mita.stores.postgres import PostgresStore
from mita.stores.redis import RedisStore
from mita.stores.sqlite import SqliteStore
from mita.testing.contract.given import (
    QUEUE,
    claim_one,
    claimed_ids,
    done,
    job,
    put,
    running,
    settled,
    state_of,
    succeed,
)

KEY = "account:42"


async def plant_holder(store: Store, id: str) -> None:
    """The key's own record says that this job holds it."""
    match store:
        case MemoryStore():
            store.state.index._holders.setdefault((QUEUE, KEY), set()).add(id)
        case RedisStore():
            root = store.context.keys.queue(QUEUE)
            await store.context.connection.command(
                "SADD", f"{root}:holders:{KEY}", b"\0" * 8 + b"1" + id.encode()
            )
            await store.context.connection.command("SADD", f"{root}:held", KEY)
        case NatsStore():
            await transact(store.context, lambda tx: _plant_holder(tx, id))
        case _:
            pytest.skip(
                "this store keeps no record of a key: its holders are the rows of running jobs"
            )


async def _plant_holder(tx: StreamTransaction, id: str) -> None:
    there = tx.context.subjects.resource_key(QUEUE, KEY)
    await tx.read([there])
    tx.put(there, pack(ResourceKeyRecord(QUEUE, KEY, (id,), 0)))


async def plant_unique(store: Store, id: str) -> None:
    """The unique key's own record says that this job has it for as long as it lives."""
    match store:
        case MemoryStore():
            store.state.unique[QUEUE, KEY] = UniqueHolder(id)
        case RedisStore():
            await store.context.connection.command(
                "HSET", f"{store.context.keys.queue(QUEUE)}:unique", KEY, id
            )
        case NatsStore():
            await transact(store.context, lambda tx: _plant_unique(tx, id))
        case _:
            pytest.skip("this store changes a job and its unique key in one transaction")


async def _plant_unique(tx: StreamTransaction, id: str) -> None:
    there = tx.context.subjects.unique(QUEUE, KEY)
    await tx.read([there])
    tx.put(there, pack(UniqueKeyRecord(id)))


async def forget_row(store: Store, id: str) -> None:
    """A person deletes the row of a job."""
    match store:
        case SqliteStore():
            with closing(sqlite3.connect(store._path)) as file, file:
                file.execute("delete from _mita_job where id = ?", [id])
        case PostgresStore():
            space = store._state.statements.namespace
            async with await psycopg.AsyncConnection.connect(**store._state.params) as connection:
                await connection.execute(f'delete from "{space}"._job where id = %s', [id])
        case _:
            pytest.skip("this store has no rows")


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize("holder", ["ended", "forgotten", "unknown"])
async def test_a_key_whose_holder_does_not_run_is_freed_by_the_sweep(
    store: Store, holder: str
) -> None:
    """I5 I12"""
    id = "01900000000070008000000000000000"
    if holder != "unknown":
        claim = await running(store, resource=KEY)
        await settled(store, succeed(claim) if holder == "ended" else succeed(claim, keep=0))
        id = claim.id
    await plant_holder(store, id)
    next_one = await put(store, resource=KEY)
    assert await claimed_ids(store) == [], "the planted holder is not seen: this test shows nothing"
    assert await state_of(store, next_one) is State.BLOCKED
    assert await store.reap(10, 60_000, "sweeper") == []
    assert await claimed_ids(store) == [next_one]


async def test_a_key_whose_holder_waits_for_it_itself_is_freed(store: Store) -> None:
    """I12: it held the key in an earlier run, and is blocked by its own record now. On NATS a key
    is open for the job that holds it, because a store may have died while it started that job."""
    first = await put(store, resource=KEY)
    await plant_holder(store, first)
    if isinstance(store, NatsStore):
        assert await claimed_ids(store) == [first]
        await store.reap(10, 60_000, "sweeper")
        [view] = await store.resources()
        assert [holder.id for holder in view.holders] == [first], "it runs: it keeps the key"
        return
    assert await claimed_ids(store) == []
    await store.reap(10, 60_000, "sweeper")
    assert await claimed_ids(store) == [first]


async def test_a_key_that_no_job_waits_for_is_freed_before_the_next_comes(store: Store) -> None:
    """A job that is skipped when its key is taken must not be skipped for a holder that is not
    there."""
    await plant_holder(store, await done(store, resource=KEY))
    await store.reap(10, 60_000, "sweeper")
    id = await put(store, resource=KEY, when_busy=WhenBusy.SKIP)
    assert await claimed_ids(store) == [id]


async def test_a_key_whose_holder_runs_stays_taken(store: Store) -> None:
    """I5"""
    holder = await running(store, resource=KEY)
    waiting = await put(store, resource=KEY)
    for _ in range(2):
        assert await store.reap(10, 60_000, "sweeper") == []
        assert await claimed_ids(store) == []
    await settled(store, succeed(holder))
    assert await claimed_ids(store) == [waiting]


async def test_of_two_holders_only_the_one_that_does_not_run_loses_the_key(store: Store) -> None:
    """I5"""
    ended = await done(store, resource=KEY, limit=2)
    holder = await running(store, resource=KEY, limit=2)
    await plant_holder_beside(store, ended, holder.id)
    first, second = await put(store, resource=KEY, limit=2), await put(store, resource=KEY, limit=2)
    assert await claimed_ids(store) == []
    await store.reap(10, 60_000, "sweeper")
    assert await claimed_ids(store) == [first]
    assert await state_of(store, second) is State.BLOCKED


async def plant_holder_beside(store: Store, id: str, holder: str) -> None:
    if not isinstance(store, NatsStore):
        await plant_holder(store, id)
        return

    async def act(tx: StreamTransaction) -> None:
        there = tx.context.subjects.resource_key(QUEUE, KEY)
        await tx.read([there])
        tx.put(there, pack(ResourceKeyRecord(QUEUE, KEY, (id, holder), 0)))

    await transact(store.context, act)


@pytest.mark.parametrize("keep", [0, 60_000])
async def test_a_unique_key_of_a_job_that_has_ended_is_free(store: Store, keep: int) -> None:
    claim = await running(store, unique=KEY)
    await settled(store, succeed(claim, keep=keep))
    await plant_unique(store, claim.id)
    id = await put(store, unique=KEY)
    assert (await claim_one(store)).id == id


async def test_a_unique_key_of_a_living_job_stays_taken(store: Store) -> None:
    claim = await running(store, unique=KEY)
    [receipt] = await store.enqueue([job(unique=KEY)])
    assert (receipt.id, receipt.created) == (claim.id, False)


async def test_a_key_whose_holders_row_was_deleted_is_free(store: Store) -> None:
    """I12"""
    holder = await running(store, resource=KEY)
    waiting = await put(store, resource=KEY)
    assert await claimed_ids(store) == []
    await forget_row(store, holder.id)
    await store.reap(10, 60_000, "sweeper")
    assert await claimed_ids(store) == [waiting]


async def test_index_entries_of_jobs_that_do_not_wait_hold_up_no_job(store: Store) -> None:
    """I12: more of them than are looked at in one go."""
    if not isinstance(store, NatsStore):
        pytest.skip("this store keeps a line and its jobs in one atomic act")
    gone = [f"gone{n:03}" for n in range(210)]
    holder = await running(store, resource=KEY)
    waiting = await put(store, resource=KEY)
    assert await claimed_ids(store) == []

    async def act(tx: StreamTransaction) -> None:
        for age, id in enumerate(gone):
            there = tx.context.subjects.waiter(QUEUE, KEY, 5, id)
            await tx.read([there])
            tx.put(there, pack(WaiterRecord(id, QUEUE, 5, 0, age)))

    await transact(store.context, act)
    await settled(store, succeed(holder))
    assert await claimed_ids(store) == [], (
        "the planted places are not seen: this test shows nothing"
    )
    await store.reap(10, 60_000, "sweeper")
    assert await claimed_ids(store) == [waiting]
