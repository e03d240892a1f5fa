"""Enqueuing in the user's own transaction, on every kind of connection: the job exists exactly if
it commits."""

import asyncio

import psycopg
import pytest
from sqlalchemy import create_engine

from mita.errors import UsageError
from mita.model.job import NewJob, Receipt, State
from mita.ports.store import Can
from mita.stores.postgres import PostgresStore
from mita.testing.contract.given import QUEUE, claimed_ids, gone, job, state_of

from .user_connections import (
    ASYNC_KINDS,
    SYNC_KINDS,
    Undo,
    django_atomic,
    django_connection,
    psycopg_async,
)


def everything() -> list[NewJob]:
    """A plain job, and one with all there is."""
    return [
        job(),
        job(
            resource="account:1",
            unique="order:1",
            priority=9,
            headers=b'\xff"\\',
            task='a "quoted" \\ täsk',
        ),
    ]


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_job_exists_when_the_transaction_commits(
    store: PostgresStore, plain_url: str, kind: str
) -> None:
    assert Can.ENQUEUE_IN_YOUR_TRANSACTION in store.can
    jobs = everything()
    async with ASYNC_KINDS[kind](plain_url) as connection:
        receipts = await store.enqueue_in(connection, jobs)
        assert await claimed_ids(store) == [], "no worker sees it before the commit"
    assert receipts == [Receipt(new.id) for new in jobs]
    assert await store.queue_names() == [QUEUE]
    assert sorted(await claimed_ids(store)) == sorted(new.id for new in jobs)
    [plain, full] = await store.find([new.id for new in jobs])
    assert plain is not None
    assert full is not None
    assert (full.headers, full.task, full.unique) == (b'\xff"\\', 'a "quoted" \\ täsk', "order:1")


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_job_does_not_exist_after_a_rollback(
    store: PostgresStore, plain_url: str, kind: str
) -> None:
    jobs = everything()

    async def user_code() -> None:
        async with ASYNC_KINDS[kind](plain_url) as connection:
            await store.enqueue_in(connection, jobs)
            raise Undo

    with pytest.raises(Undo):
        await user_code()
    assert [await gone(store, new.id) for new in jobs] == [True, True]
    [receipt] = await store.enqueue([job(unique="order:1")])
    assert receipt.created, "its unique key was given back too"


# ---------------------------------------------------------------- the others


@pytest.mark.parametrize("kind", SYNC_KINDS)
@pytest.mark.parametrize("commits", [True, False])
async def test_the_same_from_sync_code(
    store: PostgresStore, plain_url: str, kind: str, commits: bool
) -> None:
    jobs = everything()

    def user_code() -> list[Receipt]:
        with SYNC_KINDS[kind](plain_url) as connection:
            receipts = store.enqueue_in_sync(connection, jobs)
            if not commits:
                raise Undo
        return receipts

    if commits:
        assert await asyncio.to_thread(user_code) == [Receipt(new.id) for new in jobs]
        assert sorted(await claimed_ids(store)) == sorted(new.id for new in jobs)
    else:
        with pytest.raises(Undo):
            await asyncio.to_thread(user_code)
        assert [await gone(store, new.id) for new in jobs] == [True, True]


@pytest.mark.parametrize("commits", [True, False])
async def test_async_code_joins_djangos_transaction_too(
    store: PostgresStore, commits: bool
) -> None:
    from asgiref.sync import async_to_sync, sync_to_async

    jobs = everything()

    def view() -> None:
        with django_atomic("") as connection:
            async_to_sync(store.enqueue_in)(connection, jobs)
            if not commits:
                raise Undo

    if commits:
        await sync_to_async(view)()
    else:
        with pytest.raises(Undo):
            await sync_to_async(view)()
    assert [not await gone(store, new.id) for new in jobs] == [commits, commits]


# ---------------------------------------------------------------- what else holds


async def test_a_unique_key_in_an_open_transaction_makes_others_wait_for_it(
    store: PostgresStore, plain_url: str
) -> None:
    first = job(unique="order:1")
    async with psycopg_async(plain_url) as connection:
        await store.enqueue_in(connection, [first])
        other = asyncio.ensure_future(store.enqueue([job(unique="order:1")]))
        await asyncio.sleep(0.2)
        assert not other.done(), "whether the key is free is not decided yet"
    assert await other == [Receipt(first.id, created=False)]


async def test_a_job_from_a_long_transaction_is_found_behind_the_watermarks(
    store: PostgresStore, plain_url: str
) -> None:
    """I9: its due time is before all that claims have read."""
    async with psycopg_async(plain_url) as connection:
        [receipt] = await store.enqueue_in(connection, [job()])
        for _ in range(25):
            await store.enqueue([job()])
            await claimed_ids(store)
            await asyncio.sleep(0.1)
    for _ in range(40):
        if await claimed_ids(store):
            break
        await asyncio.sleep(0.1)
    assert await state_of(store, receipt.id) is State.RUNNING


async def test_what_cannot_be_part_of_a_transaction_is_refused(
    store: PostgresStore, plain_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(plain_url, autocommit=True) as connection:
        with pytest.raises(UsageError, match="not in a transaction"):
            await store.enqueue_in(connection, [job()])
    with pytest.raises(UsageError, match="psycopg or asyncpg"):
        await store.enqueue_in("connection", [job()])
    with psycopg.connect(plain_url) as sync, pytest.raises(UsageError, match="not async"):
        await store.enqueue_in(sync, [job()])
    engine = create_engine("sqlite://")
    with engine.begin() as sqlite, pytest.raises(UsageError, match="is to sqlite"):
        store.enqueue_in_sync(sqlite, [job()])
    engine.dispose()
    connection = django_connection()
    with pytest.raises(UsageError, match="not in a transaction"):
        await asyncio.to_thread(store.enqueue_in_sync, connection, [job()])
