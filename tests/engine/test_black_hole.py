"""A connection that is silently dead: no data, no end of file, no reset. New connections work.
After a sixth of its lease a worker checks whether its connections are alive. The limits allow
for a busy machine."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from mita import Mita
from mita.model.job import NewJob
from mita.ports.ids import new_id
from mita.ports.pubsub import EventMessage
from mita.ports.store import Store
from mita.settings import StoreURL
from mita.store_pool import StorePool
from mita.stores.postgres import PostgresStore
from mita.stores.redis import RedisStore
from tests.stores.redis.servers import bundled, valkey
from tests.waiting import until

from .outage import CutServer, outage_of

STORES = ("postgres", "redis", "nats")
LEASE = 3.0
LIMIT = 25.0  # without a check, the fastest store took 30
QUEUE = "default"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=STORES)
def hole(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CutServer]:
    """A server behind a proxy (`url`), and the same server without it (`direct`)."""
    with outage_of(request.param, tmp_path) as hole:
        assert isinstance(hole, CutServer)
        yield hole


async def test_a_worker_continues_when_its_connections_fall_silent(
    hole: CutServer, caplog: pytest.LogCaptureFixture
) -> None:
    """I12: a job that was enqueued without the proxy runs, a running job keeps its lease, and
    the log says what happened."""
    caplog.set_level(logging.INFO, "mita.store")
    app, elsewhere = Mita(hole.url), Mita(hole.direct)
    seen: list[str] = []
    may_end = asyncio.Event()

    async def noted(text: str) -> None:
        seen.append(text)

    note, note_elsewhere = app.task(name="note")(noted), elsewhere.task(name="note")(noted)

    @app.task(name="last")
    async def last() -> None:
        await may_end.wait()

    async with app, elsewhere:
        long_one = await last.enqueue()
        await note.enqueue("before")
        # a lease that a busy machine cannot lose while the worker notices the silence
        worker = app.worker(lease=3 * LEASE, grace=1, concurrency=4)
        running = asyncio.ensure_future(worker.run())

        async def is_seen(text: str) -> bool:
            return text in seen

        await until(lambda: is_seen("before"))
        hole.black_hole()
        await note_elsewhere.enqueue("after")
        await until(lambda: is_seen("after"), within=LIMIT)
        assert any("reconnecting" in record.getMessage() for record in caplog.records)
        may_end.set()

        async def has_ended() -> bool:
            record = await elsewhere.get(long_one.id)
            return record is not None and (record.state, record.crashes) == ("succeeded", 0)

        await until(has_ended, within=LIMIT)
        worker.stop()
        await running


# ---------------------------------------------------------------- who waits to be notified


@pytest.fixture
async def stores(hole: CutServer) -> AsyncIterator[tuple[Store, Store]]:
    """A store behind the proxy that checks its connection after half a second, and one without
    the proxy."""
    behind = await StorePool(StoreURL.parse(hole.url)).new(LEASE / 6)
    beside = await StorePool(StoreURL.parse(hole.direct)).new()
    yield behind, beside
    await behind.close()
    await beside.close()


async def test_a_waiting_store_is_notified_after_its_connection_fell_silent(
    hole: CutServer, stores: tuple[Store, Store]
) -> None:
    behind, beside = stores
    await behind.enqueue([NewJob(id=new_id(), task="t", queue=QUEUE, payload=b"\x90")])
    await behind.claim([QUEUE], 1, 60_000, "w")
    while await behind.wait([QUEUE], 0.5):  # the wake-ups so far
        pass
    hole.black_hole()

    async def is_notified() -> bool:
        await beside.enqueue([NewJob(id=new_id(), task="t", queue=QUEUE, payload=b"\x90")])
        return bool(await behind.wait([QUEUE], 1.0))

    await until(is_notified, within=LIMIT)


async def test_events_arrive_after_the_connection_fell_silent(
    hole: CutServer, stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mita.stores.redis.pubsub.SILENCE_S", LEASE / 6)
    behind, beside = stores
    subscription = await behind.subscribe(None)
    hole.black_hole()

    async def is_heard() -> bool:
        await beside.publish([EventMessage(QUEUE, 1, b"")])
        try:
            async with asyncio.timeout(0.5):
                delivery = await subscription.receive()
        except TimeoutError:
            return False
        return delivery is not None and bool(delivery.messages)

    await until(is_heard, within=LIMIT)
    await subscription.close()


# ---------------------------------------------------------------- a server that takes its time


async def is_waited_for(behind: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mita.store")
    [receipt] = await behind.enqueue([NewJob(id=new_id(), task="t", queue=QUEUE, payload=b"\x90")])
    assert receipt.created
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("hole", ["postgres"], indirect=True)
async def test_a_busy_postgresql_connection_is_not_closed(
    hole: CutServer, stores: tuple[Store, Store], caplog: pytest.LogCaptureFixture
) -> None:
    """The server runs our statement, or waits for a lock: the connection is not dead."""
    behind, beside = stores
    assert isinstance(beside, PostgresStore)
    async with await psycopg.AsyncConnection.connect(**beside._state.params) as other:
        space = beside._state.statements.namespace
        await other.execute(f'lock table "{space}"._job in access exclusive mode'.encode())
        waiting = asyncio.ensure_future(is_waited_for(behind, caplog))
        await asyncio.sleep(LEASE / 6 * 4)
        assert not waiting.done()
    await waiting


@pytest.mark.parametrize("hole", ["redis"], indirect=True)
async def test_the_connection_to_a_busy_redis_is_not_closed(
    hole: CutServer, stores: tuple[Store, Store], caplog: pytest.LogCaptureFixture
) -> None:
    behind, beside = stores
    assert isinstance(beside, RedisStore)
    seconds = LEASE / 6 * 4
    # Redis 6.2 has no clock in scripts
    script = "local ends = os.clock() + ARGV[1] while os.clock() < ends do end return 1"
    is_valkey = bundled() == valkey()  # it refuses DEBUG
    words = ("EVAL", script, 0, seconds) if is_valkey else ("DEBUG", "SLEEP", seconds)
    # the script counts processor time; on a busy machine it takes longer than the server waits
    # until it answers BUSY instead
    await beside.context.connection.command("CONFIG", "SET", "lua-time-limit", 60_000)
    busy = asyncio.ensure_future(beside.context.connection.command(*words))
    try:
        await asyncio.sleep(LEASE / 6 / 5)
        await is_waited_for(behind, caplog)
    finally:
        await busy
