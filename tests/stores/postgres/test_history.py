"""The history of runs in PostgreSQL: it stays small, and workers do not block each other."""

import asyncio

import psycopg

from mita.model.history import HOURS_KEPT_MS, MINUTES_KEPT_MS, RunCounts
from mita.model.time import HOUR, MINUTE
from mita.stores.postgres import PostgresStore
from mita.testing.clock import FakeClock

WORKERS = 4
FLUSHES = 25


async def test_a_prune_deletes_the_rows_that_are_not_shown_any_more(
    url: str, plain_url: str
) -> None:
    clock, namespace = FakeClock(), url.rpartition("namespace=")[2]
    store = PostgresStore(url, clock=clock)
    await store.open()

    async def rows() -> int:
        async with await psycopg.AsyncConnection.connect(plain_url) as connection:
            found = await connection.execute(f'select count(*) from "{namespace}"._history')
            [count] = await found.fetchone() or [0]
            return int(count)

    for _ in range(3):
        await store.count_runs([RunCounts(queue="q", task="t", succeeded=1)])
        clock.move_ms(MINUTE)
    before = await rows()
    await store.prune(10, 10)
    assert await rows() == before >= 4
    clock.move_ms(MINUTES_KEPT_MS + MINUTE)
    await store.prune(10, 10)
    assert await rows() == before - 3
    clock.move_ms(HOURS_KEPT_MS + HOUR)
    await store.prune(10, 10)
    assert await rows() == 0
    await store.close()


async def test_workers_that_send_their_pairs_in_any_order_do_not_wait_in_a_circle(
    url: str,
) -> None:
    """The statement sorts the rows before it locks them."""
    stores = [PostgresStore(url) for _ in range(WORKERS)]
    await stores[0].open()
    await asyncio.gather(*(store.open() for store in stores[1:]))

    async def flush(number: int, store: PostgresStore) -> None:
        pairs = [RunCounts(queue=f"q{n}", task="t", succeeded=1) for n in range(20)]
        for _ in range(FLUSHES):
            await store.count_runs(pairs if number % 2 else pairs[::-1])

    await asyncio.gather(*(flush(number, store) for number, store in enumerate(stores)))
    found = await stores[0].run_history(0, hourly=True, queue=None, task=None)
    assert sum(one.succeeded for one in found) == WORKERS * FLUSHES * 20
    await asyncio.gather(*(store.close() for store in stores))
