"""Workers are notified of what a user's transaction did when it commits, and not before."""

import asyncio

import psycopg
import pytest

from mita.stores.postgres import PostgresStore
from mita.testing.contract.given import QUEUE, job

from .user_connections import ASYNC_KINDS, SYNC_KINDS, psycopg_async


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_workers_are_notified_when_the_transaction_commits(
    store: PostgresStore, twin: PostgresStore, plain_url: str, kind: str
) -> None:
    await _listens_from_now_on(twin)
    async with ASYNC_KINDS[kind](plain_url) as connection:
        await store.enqueue_in(connection, [job()])
        assert await twin.wait([QUEUE], 0.3) == frozenset(), "not before the commit"
    assert QUEUE in await twin.wait([QUEUE], 60)


@pytest.mark.parametrize("kind", SYNC_KINDS)
async def test_workers_are_notified_of_what_sync_code_commits(
    store: PostgresStore, twin: PostgresStore, plain_url: str, kind: str
) -> None:
    await _listens_from_now_on(twin)

    def user_code() -> None:
        with SYNC_KINDS[kind](plain_url) as connection:
            store.enqueue_in_sync(connection, [job()])

    await asyncio.to_thread(user_code)
    assert QUEUE in await twin.wait([QUEUE], 60)


async def test_no_worker_is_notified_of_a_rollback(
    store: PostgresStore, twin: PostgresStore, plain_url: str
) -> None:
    await _listens_from_now_on(twin)
    async with await psycopg.AsyncConnection.connect(plain_url) as connection:
        await store.enqueue_in(connection, [job()])
        await connection.rollback()
    commits = store._commits
    assert commits is not None
    await asyncio.sleep(0)
    if commits._checks is not None:
        await commits._checks
    assert commits._open == {}
    assert await twin.wait([QUEUE], 0.3) == frozenset()


async def test_a_store_that_closes_right_after_the_commit_has_notified(
    url: str, twin: PostgresStore, plain_url: str
) -> None:
    await _listens_from_now_on(twin)
    short = PostgresStore(url)
    await short.open()
    async with psycopg_async(plain_url) as connection:
        await short.enqueue_in(connection, [job()])
    await short.close()
    assert QUEUE in await twin.wait([QUEUE], 60)


async def _listens_from_now_on(store: PostgresStore) -> None:
    """The first wait returns at once."""
    while await store.wait([QUEUE], 0.1):
        pass
