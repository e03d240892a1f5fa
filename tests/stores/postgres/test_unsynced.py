"""What does not wait for the disk, and what a crash of the server makes of that."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import psycopg
import pytest

from mita.model.gate import Gate, StoredLimit
from mita.model.job import State
from mita.model.outcome import Held, Progress
from mita.ports.store import OnceValue
from mita.stores.postgres import PostgresStore
from mita.testing.contract.given import LONG, QUEUE, claims, put, settled, succeed
from tests.waiting import until

from .server import Server

T = TypeVar("T")


async def undo_the_claim(plain_url: str, space: str, id: str) -> None:
    """What a crash of the server leaves of a claim that was not on disk."""
    async with await psycopg.AsyncConnection.connect(plain_url, autocommit=True) as person:
        undone = "state = 'queued', token = 0, worker = null, started = null, lease_until = null"
        await person.execute(f'update "{space}"._job set {undone} where id = %s'.encode(), [id])


async def test_a_claim_that_a_crash_undid_cannot_settle_after_the_next_claim(
    store: PostgresStore, plain_url: str
) -> None:
    """I3: both were made from the same state of the job, and yet they have two tokens."""
    id = await put(store)
    [lost] = await claims(store)
    await undo_the_claim(plain_url, store._state.statements.namespace, id)
    assert await store.settle([succeed(lost)]) == [False], "no run has it"
    [heir] = (await store.claim([QUEUE], 1, LONG, "heir")).claims
    assert heir.token > lost.token
    assert await store.settle([succeed(lost)]) == [False]
    assert await store.extend([lost, heir], LONG) == [Held.LOST, Held.HELD]
    assert await store.progress([Progress(lost, b"1")]) == [False]
    assert await store.store_once(OnceValue(claim=lost, name="n", value=b"1", keep=None)) is None
    await settled(store, succeed(heir))


@pytest.fixture
async def own() -> AsyncIterator[Server]:
    server = await asyncio.to_thread(lambda: Server("pg18").start())
    yield server
    await asyncio.to_thread(server.stop)


async def be_slow(own: Server, standby: str) -> None:
    """With a standby that never comes, a commit that waits to be safe waits for ever."""
    await asyncio.to_thread(
        own.execute, f"alter system set synchronous_standby_names = '{standby}'"
    )
    await asyncio.to_thread(own.execute, "select pg_reload_conf()")

    async def is_set() -> bool:
        found = await asyncio.to_thread(own.execute, "show synchronous_standby_names")
        return bool(found == [(standby,)])

    await until(is_set)


async def waits(act: Awaitable[T], own: Server) -> T:
    """The answer, after it was seen to wait until the standby is no longer asked for."""
    answer = asyncio.ensure_future(act)
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(
            own.execute, "select 1 from pg_stat_activity where wait_event = 'SyncRep'"
        ):
            assert not answer.done()
            await asyncio.sleep(0.01)
    await be_slow(own, "")
    return await answer


async def test_a_claim_does_not_wait_for_the_disk_but_a_settlement_and_a_key_do(
    own: Server,
) -> None:
    """I5 I11"""
    store = PostgresStore(own.url())
    await store.open()
    first, second, keyed = await put(store), await put(store), await put(store, resource="r")
    await be_slow(own, "nobody")
    async with asyncio.timeout(30):
        [claim] = await claims(store, 1)
    assert claim.id == first
    turn = await waits(store.settle_and_claim([succeed(claim)], [QUEUE], 1, LONG, "w"), own)
    assert (turn.took, [claim.id for claim in turn.claims]) == ([True], [second])
    await be_slow(own, "nobody")
    [held] = await waits(claims(store, 1), own)
    assert held.id == keyed
    [found] = await store.find([keyed])
    assert found is not None
    assert found.state is State.RUNNING
    await store.close()


async def test_a_claim_that_takes_a_token_or_a_place_waits_for_the_disk(own: Server) -> None:
    """I5: undone by a crash, it would give the token or the place away twice. Turns of fair groups
    may be undone."""
    store = PostgresStore(own.url())
    await store.open()
    await store.limit(["full"], None, StoredLimit(concurrency=1))
    rated = await put(store, gates=(Gate("host", None, LONG * 1000, 1),))
    limited, fair = await put(store, queue="full"), await put(store, queue="fair", fair="a")
    for queue, id in ((QUEUE, rated), ("full", limited)):
        await be_slow(own, "nobody")
        [claim] = await waits(claims(store, 1, queues=[queue]), own)
        assert claim.id == id
    await be_slow(own, "nobody")
    async with asyncio.timeout(30):
        [claim] = await claims(store, 1, queues=["fair"])
    assert claim.id == fair
    await be_slow(own, "")
    await store.close()
