"""The server is killed during the work, and started again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mita.model.job import NewJob
from mita.ports.ids import new_ids
from mita.stores.nats import NatsStore

from .mini_worker import QUEUE, RUNS, Book, all_ended, check, plan, retry, sweep, work
from .servers import Server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server().start()
    yield server
    server.remove()


async def run_through(server: Server, jobs: list[NewJob], kills: int) -> tuple[NatsStore, Book]:
    stores = [NatsStore(server.url) for _ in range(3)]
    for store in stores:
        await store.open()
    book, stop = Book(), asyncio.Event()
    workers = [
        asyncio.ensure_future(work(store, f"w{at}", book, stop))
        for at, store in enumerate(stores[:2])
    ]
    workers.append(asyncio.ensure_future(sweep(stores[2], book, stop)))
    half = len(jobs) // 2
    await retry(lambda: stores[2].enqueue(jobs[:half]), book)
    for _ in range(kills):
        await asyncio.sleep(0.7)
        server.kill()
        await asyncio.sleep(0.1)
        server.start()
    await retry(lambda: stores[2].enqueue(jobs[half:]), book)
    await all_ended(stores[2], [job.id for job in jobs], within=60)
    stop.set()
    await asyncio.gather(*workers)
    for store in stores[:2]:
        await store.close()
    return stores[2], book


async def test_nothing_is_lost_or_early_or_miscounted_when_the_server_is_killed(
    server: Server,
) -> None:
    """I1 I4 I6 I8 I12"""
    jobs = plan(1500)
    store, book = await run_through(server, jobs, kills=4)
    await check(store, jobs, book)
    print(f"stale {book.stale}, troubles {book.troubles}, runs {sum(book.runs.values())}")
    await store.close()


async def test_no_key_stays_taken_when_the_server_is_killed(server: Server) -> None:
    """I1 I5 I12: half of the jobs have one of twenty keys; at the end a job for each key runs at
    once."""
    jobs = plan(600, seed=3, keys=20)
    store, book = await run_through(server, jobs, kills=4)
    await check(store, jobs, book)
    await asyncio.sleep(2.5)  # removed messages are gone from the server's memory
    server.kill()
    server.start()
    last = [
        NewJob(id=id, task="plain", queue=QUEUE, payload=b"", resource=f"key {n}")
        for n, id in enumerate(new_ids(20))
    ]
    await retry(lambda: store.enqueue(last), book)
    book, stop = Book(), asyncio.Event()
    workers = [
        asyncio.ensure_future(work(store, "w", book, stop)),
        asyncio.ensure_future(sweep(store, book, stop)),
    ]
    await all_ended(store, [job.id for job in last], within=60)
    stop.set()
    await asyncio.gather(*workers)
    assert await store.resources() == []
    await store.close()


async def test_without_faults_nothing_runs_twice(server: Server) -> None:
    """I4"""
    jobs = plan(1500, seed=2)
    store, book = await run_through(server, jobs, kills=0)
    await check(store, jobs, book)
    assert {job.id: RUNS[job.task] for job in jobs} == dict(book.runs)
    assert (book.stale, not book.troubles) == (0, True)
    await store.close()
