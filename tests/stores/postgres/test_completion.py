"""The job's success and the handler's own writes in one transaction: the effect happens once,
whichever process dies."""

import asyncio
import os
import signal
import sys
from typing import Any

import psycopg
import pytest

from mita.errors import LeaseLost
from mita.model.job import State
from mita.model.time import HOUR
from mita.stores.postgres import PostgresStore
from mita.testing.contract.given import (
    LONG,
    claim_one,
    claims,
    put,
    running,
    settled,
    state_of,
    succeed,
)

from .shared import server
from .user_connections import ASYNC_KINDS, SYNC_KINDS

# Where the worker dies: before its first write, after its write, after the completion, after the
# commit, and nowhere.
POINTS = ("before", "written", "completed", "committed", "nowhere")
LEASE = 300  # ms: the next worker reaps soon

WORKER = """
import asyncio, os, signal, sys
import psycopg
from mita.model.time import HOUR
from mita.stores.postgres import PostgresStore

def die_at(point):
    if point == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

async def main(url, plain):
    store = PostgresStore(url)
    await store.open()
    [claim] = (await store.claim(["mail"], 1, int(sys.argv[4]), "doomed")).claims
    async with await psycopg.AsyncConnection.connect(plain) as connection:
        die_at("before")
        await connection.execute("insert into effects values (%s)", [claim.id])
        die_at("written")
        await store.complete_in(connection, claim, b"done", HOUR)
        die_at("completed")
    die_at("committed")
    await store.close()

asyncio.run(main(*sys.argv[1:3]))
"""


@pytest.fixture
def effects(plain_url: str) -> str:
    with psycopg.connect(plain_url, autocommit=True) as connection:
        connection.execute("create table if not exists effects (job text)")
    return plain_url


def times(job: str) -> int:
    return int(server("pg18").execute(f"select count(*) from effects where job = '{job}'")[0][0])


async def run_again(store: PostgresStore, plain: str, id: str) -> None:
    """What the next worker does with a job whose worker died: the same handler."""
    while await state_of(store, id) is State.RUNNING:
        for claim in await store.reap(10, LONG, "heir"):
            async with await psycopg.AsyncConnection.connect(plain) as connection:
                await connection.execute("insert into effects values (%s)", [claim.id])
                await store.complete_in(connection, claim, b"done", HOUR)


@pytest.mark.parametrize("point", POINTS)
async def test_the_effect_happens_once_wherever_the_worker_dies(
    store: PostgresStore, url: str, effects: str, point: str
) -> None:
    """I1 I3 I4"""
    id = await put(store)
    command = [sys.executable, "-c", WORKER, url, effects, point, str(LEASE)]
    worker = await asyncio.create_subprocess_exec(*command, env=os.environ)
    async with asyncio.timeout(30):
        await worker.wait()
    assert worker.returncode == (0 if point == "nowhere" else -signal.SIGKILL)
    assert times(id) == (1 if point in ("committed", "nowhere") else 0)
    await run_again(store, effects, id)
    assert times(id) == 1
    assert await state_of(store, id) is State.SUCCEEDED


async def test_the_later_settlement_changes_nothing(store: PostgresStore, effects: str) -> None:
    claim = await running(store)
    async with await psycopg.AsyncConnection.connect(effects) as connection:
        await store.complete_in(connection, claim, b"first", HOUR)
    assert await store.settle([succeed(claim, b"second")]) == [False]
    [found] = await store.find([claim.id])
    assert found is not None
    assert (found.state, found.result) == (State.SUCCEEDED, b"first")


async def test_a_run_that_lost_its_job_cannot_commit(store: PostgresStore, effects: str) -> None:
    """I3 I5"""
    stale = await running(store, lease=0)
    [heir] = await store.reap(1, LONG, "heir")

    async def user_code() -> None:
        async with await psycopg.AsyncConnection.connect(effects) as connection:
            await connection.execute("insert into effects values (%s)", [stale.id])
            await store.complete_in(connection, stale, b"", HOUR)

    with pytest.raises(LeaseLost):
        await user_code()
    assert times(stale.id) == 0
    await settled(store, succeed(heir))


async def test_a_rolled_back_completion_leaves_the_job_running(
    store: PostgresStore, effects: str
) -> None:
    claim = await running(store)
    connection: Any = await psycopg.AsyncConnection.connect(effects)
    await store.complete_in(connection, claim, b"", HOUR)
    await connection.rollback()
    await connection.close()
    assert await state_of(store, claim.id) is State.RUNNING
    await settled(store, succeed(claim))


async def test_a_key_is_freed_by_the_commit(store: PostgresStore, effects: str) -> None:
    """I5"""
    claim = await running(store, resource="account:1")
    waiting = await put(store, resource="account:1")
    assert await claims(store) == []
    with psycopg.connect(effects) as connection:
        store.complete_in_sync(connection, claim, b"", HOUR)
        assert await claims(store) == [], "until the commit the key is held"
    assert (await claim_one(store)).id == waiting


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_every_kind_of_connection_can_complete(
    store: PostgresStore, plain_url: str, kind: str
) -> None:
    plain, keyed = (
        await running(store),
        await running(store, resource="account:1", unique="order:1"),
    )
    waiting = await put(store, resource="account:1")
    assert await claims(store) == []
    async with ASYNC_KINDS[kind](plain_url) as connection:
        await store.complete_in(connection, plain, b"one", HOUR)
        await store.complete_in(connection, keyed, b"two", HOUR)
        assert await state_of(store, keyed.id) is State.RUNNING
    assert [await state_of(store, claim.id) for claim in (plain, keyed)] == [State.SUCCEEDED] * 2
    assert (await claim_one(store)).id == waiting


@pytest.mark.parametrize("kind", SYNC_KINDS)
async def test_so_can_sync_code(store: PostgresStore, plain_url: str, kind: str) -> None:
    claim = await running(store, resource="account:1")

    def user_code() -> None:
        with SYNC_KINDS[kind](plain_url) as connection:
            store.complete_in_sync(connection, claim, b"done", HOUR)

    await asyncio.to_thread(user_code)
    assert await state_of(store, claim.id) is State.SUCCEEDED
