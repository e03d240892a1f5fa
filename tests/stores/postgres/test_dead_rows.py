"""Dead rows: claims stay fast beside a session that keeps them from being swept away."""

import asyncio
import time
from statistics import median

import psycopg

from mita.model.time import SECOND
from mita.stores.postgres import PostgresStore
from mita.stores.postgres.marks import SLACK, Marks
from mita.testing.contract.given import LONG, QUEUE, claims, job, jobs, put, release, settled, succeed

NOW = 1_700_000_000_000


async def move(store: PostgresStore, n: int) -> None:
    """Through the queue and out again."""
    for _ in range(0, n, 1000):
        await store.enqueue(jobs(1000))
        await settled(store, *(succeed(claim, keep=0) for claim in await claims(store, 1000)))


async def claim_time(store: PostgresStore) -> float:
    times = []
    for _ in range(15):
        await store.enqueue([job()])
        started = time.perf_counter()
        [claim] = await claims(store, 1)
        times.append(time.perf_counter() - started)
        await settled(store, succeed(claim, keep=0))
    return median(times)


async def test_a_pinned_snapshot_slows_claims_by_less_than_three_times(store: PostgresStore, plain_url: str) -> None:
    """I14"""
    await move(store, 2000)
    async with await psycopg.AsyncConnection.connect(plain_url) as holder:
        await holder.execute("set transaction isolation level repeatable read")
        await holder.execute("select txid_current()")
        before = await claim_time(store)
        await move(store, 20_000)
        await asyncio.sleep(SLACK / SECOND + 0.2)
        await claims(store, 1)  # looks where the line begins now
        after = await claim_time(store)
    assert after < 3 * before + 0.005


async def test_a_job_that_goes_back_is_found_before_all_that_came_after_it(store: PostgresStore) -> None:
    """I9: its due time lies before what claimers have walked over."""
    old = await put(store)
    [held] = await claims(store, 1)
    await asyncio.sleep(SLACK / SECOND + 0.3)
    for _ in range(10):  # the marks are made, and made again
        await put(store)
        assert len(await claims(store, 1)) == 1
        await asyncio.sleep(0.15)
    await put(store)
    await settled(store, release(held))
    assert [claim.id for claim in await claims(store, 1)] == [old]


async def test_another_process_finds_it_too(store: PostgresStore, url: str) -> None:
    other = PostgresStore(url)
    await other.open()
    old = await put(store)
    [held] = await claims(store, 1)
    await asyncio.sleep(SLACK / SECOND + 0.3)
    for _ in range(10):
        await put(other)
        assert len((await other.claim([QUEUE], 1, LONG, "w")).claims) == 1
        await asyncio.sleep(0.15)
    assert any(other._place.marks.of([QUEUE])), "it has walked on"
    await put(store)
    await settled(store, release(held))
    assert [claim.id for claim in await claims(other, 1)] == [old]
    await other.close()


def test_a_mark_stays_behind_the_clock_and_behind_the_first_who_waits() -> None:
    marks = Marks()
    marks.heard(NOW, 7)
    marks.heard(NOW + SLACK, 7)
    looked = marks.wanted([QUEUE])
    assert looked == [0] * 10, "the first look is at everything"
    marks.found([QUEUE], NOW + SLACK, [None] * 9 + [NOW - 5 * SLACK], looked, 0.001)
    assert marks.of([QUEUE]) == [NOW] * 9 + [NOW - 5 * SLACK]


def test_no_mark_is_trusted_after_something_went_back_or_the_clock_did() -> None:
    for now, behind in ((NOW + 1, 8), (NOW - 1, 7)):
        marks = Marks()
        marks.heard(NOW, 7)
        marks.found([QUEUE], NOW, [None] * 10, [0] * 10, 0.001)
        assert any(marks.of([QUEUE]))
        assert not marks.heard(now, behind)
        assert not any(marks.of([QUEUE]))
        assert marks.wanted([QUEUE]) is None, "not before the slack is over"
