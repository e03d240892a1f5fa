"""Dead rows: claims stay fast beside a session that keeps them from being vacuumed."""

import asyncio
from typing import Any

import psycopg

from mita.model.time import SECOND
from mita.stores.postgres import PostgresStore
from mita.stores.postgres.claim import ClaimSearch
from mita.stores.postgres.context import PostgresContext, Query
from mita.stores.postgres.limits.key_states import read_states
from mita.stores.postgres.throughput.watermarks import SLACK_MS, Watermarks
from mita.testing.contract.given import (
    LONG,
    QUEUE,
    claims,
    job,
    jobs,
    put,
    release,
    settled,
    succeed,
)

NOW = 1_700_000_000_000


async def move(store: PostgresStore, n: int) -> None:
    """Enqueue, claim and settle this many jobs."""
    for _ in range(0, n, 1000):
        await store.enqueue(jobs(1000))
        await settled(store, *(succeed(claim, keep=0) for claim in await claims(store, 1000)))


async def watermarks_moved(store: PostgresStore) -> None:
    """Claim nothing until the watermarks have passed this point in time."""
    moment = await store.now()
    async with asyncio.timeout(60):
        while min(store._state.watermarks.of([QUEUE])) < moment:
            assert await claims(store, 1) == []
            await asyncio.sleep(0.1)


async def explained(store: PostgresStore, question: Query) -> dict[str, Any]:
    """The plan of this statement with what it read. It is rolled back."""
    text, values = store._state.bound(question)
    connection = await store._short.connected()
    async with connection.transaction(force_rollback=True):
        cursor = await connection.execute(
            f"explain (analyze, buffers, format json) {text}".encode(), values, prepare=False
        )
        [([answer],)] = await cursor.fetchall()
    return answer["Plan"]  # type: ignore[no-any-return]


def _states(context: PostgresContext, keys: list[str]) -> Query:
    return read_states(context, [(QUEUE, key) for key in keys], [True] * len(keys))


def pages(part: dict[str, Any]) -> int:
    return int(part["Shared Hit Blocks"]) + int(part["Shared Read Blocks"])


async def pages_read(store: PostgresStore, marks: Watermarks) -> int:
    """By the claim statement, with the store's own values, until it has found the one job that
    waits."""
    await put(store)
    context = PostgresContext(store._state)
    context.watermarks = marks
    search = ClaimSearch(context, [QUEUE], 1, LONG, "w")
    plan = await explained(store, search.statement.claim(1, synced=True, keys_first=True))
    parts = {part.get("Subplan Name"): part for part in plan["Plans"]}
    assert parts["CTE candidate"]["Actual Rows"] == 1
    [claim] = await claims(store, 1)
    await settled(store, succeed(claim, keep=0))
    return pages(parts["CTE line"]) + pages(parts["CTE candidate"])


async def test_a_pinned_snapshot_makes_claims_read_less_than_three_times_as_much(
    store: PostgresStore, plain_url: str
) -> None:
    """I14. Counted and not timed: the curve is drawn by the benchmarks."""
    await move(store, 2000)
    async with await psycopg.AsyncConnection.connect(plain_url) as holder:
        await holder.execute("set transaction isolation level repeatable read")
        await holder.execute("select txid_current()")
        await watermarks_moved(store)
        before = await pages_read(store, store._state.watermarks)
        await move(store, 20_000)
        await watermarks_moved(store)
        after = await pages_read(store, store._state.watermarks)
        without_watermarks = await pages_read(store, Watermarks())
    assert after < 3 * before
    assert without_watermarks > 10 * after, "there was work to save"


async def test_a_pinned_snapshot_does_not_make_a_key_expensive(
    store: PostgresStore, plain_url: str
) -> None:
    """I14: every earlier holder of the key is a dead row that cannot be vacuumed."""
    keys = [f"account:{n}" for n in range(20)]
    async with await psycopg.AsyncConnection.connect(plain_url) as holder:
        await holder.execute("set transaction isolation level repeatable read")
        await holder.execute("select txid_current()")
        for _ in range(60):
            await store.enqueue([job(resource=key) for key in keys])
            await settled(store, *(succeed(claim, keep=0) for claim in await claims(store, 20)))
        context = PostgresContext(store._state)
        read = pages(await explained(store, _states(context, keys)))
        context.watermarks = Watermarks()
        without_watermarks = pages(await explained(store, _states(context, keys)))
    assert without_watermarks > 5 * read


async def test_a_job_that_returns_to_the_queue_is_found_before_later_ones(
    store: PostgresStore,
) -> None:
    """I9: its due time is before the watermarks."""
    old = await put(store)
    [held] = await claims(store, 1)
    await asyncio.sleep(SLACK_MS / SECOND + 0.3)
    for _ in range(10):  # the watermarks move several times
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
    await asyncio.sleep(SLACK_MS / SECOND + 0.3)
    for _ in range(10):
        await put(other)
        assert len((await other.claim([QUEUE], 1, LONG, "w")).claims) == 1
        await asyncio.sleep(0.15)
    assert any(other._state.watermarks.of([QUEUE])), "its watermarks have moved"
    await put(store)
    await settled(store, release(held))
    assert [claim.id for claim in await claims(other, 1)] == [old]
    await other.close()


def test_a_watermark_stays_behind_the_clock_and_behind_the_first_waiting_job() -> None:
    marks = Watermarks()
    marks.priorities.learn([(QUEUE, 8)])
    marks.still_hold(NOW, 7, 0)
    marks.still_hold(NOW + SLACK_MS, 7, 0)
    looked = marks.read_from([QUEUE])
    assert looked == {(QUEUE, 8): 0, (QUEUE, 5): 0}, "the first read begins at the beginning"
    marks.move(NOW + SLACK_MS, [None, NOW - 5 * SLACK_MS], looked, 0.001)
    assert marks.of([QUEUE]) == [NOW, NOW - 5 * SLACK_MS]


def test_no_watermark_is_trusted_after_a_job_returned_or_the_clock_was_set_back() -> None:
    for now, behind in ((NOW + 1, 8), (NOW - 1, 7)):
        marks = Watermarks()
        marks.still_hold(NOW, 7, 0)
        marks.move(NOW, [None], {(QUEUE, 5): 0}, 0.001)
        assert any(marks.of([QUEUE]))
        assert not marks.still_hold(now, behind, 0)
        assert not any(marks.of([QUEUE]))
        assert marks.read_from([QUEUE]) is None, "not before the slack is over"
