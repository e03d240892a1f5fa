"""The server dies, connections are cut: nothing is lost, and nothing is settled twice."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest

from mita.errors import StoreError
from mita.model.job import Claim, State
from mita.model.outcome import Settlement
from mita.model.view import JobFilter
from mita.ports.ids import new_ids
from mita.stores.postgres import PostgresStore
from mita.stores.postgres.context import query
from mita.testing.contract.given import LONG, QUEUE, claims, crash, job, put, succeed
from tests.waiting import until

from .server import Server
from .shared import fresh_url

T = TypeVar("T")
LEASE = 1500  # ms


@pytest.fixture
async def own() -> AsyncIterator[Server]:
    """A server of the test's own, to be killed. It syncs to disk."""
    server = await asyncio.to_thread(lambda: Server("pg18").start())
    yield server
    await asyncio.to_thread(server.stop)


class Load:
    """Producers and workers that go on through every fault, and remember the answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.acknowledged: set[str] = set()
        self.took: Counter[str] = Counter()
        self.over = False

    async def produce(self, batches: int) -> None:
        store = await self._open()
        for _ in range(batches):
            batch = [
                job(id=id, resource=random.choice([None, f"account:{random.randrange(30)}"]))
                for id in new_ids(20)
            ]
            await self._until_it_works(partial(store.enqueue, batch))
            self.acknowledged.update(new.id for new in batch)
            await asyncio.sleep(0.01)
        await store.close()

    async def work(self, name: str) -> None:
        store = await self._open()
        settlements: list[Settlement] = []
        while not self.over:
            turn = await self._until_it_works(
                partial(store.settle_and_claim, settlements, [QUEUE], 10, LEASE, name)
            )
            self.took.update(
                each.claim.id
                for each, yes in zip(settlements, turn.took, strict=True)
                if yes and _ends(each)
            )
            lost: list[Claim] = (
                []
                if turn.claims
                else await self._until_it_works(partial(store.reap, 10, LEASE, name))
            )
            settlements = [succeed(claim) for claim in turn.claims] + [
                crash(claim) for claim in lost
            ]
            if not settlements:
                await asyncio.sleep(0.02)
        await store.close()

    async def _open(self) -> PostgresStore:
        store = PostgresStore(self.url)
        await self._until_it_works(store.open)
        return store

    async def _until_it_works(self, act: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await act()
            except StoreError as error:
                if not error.transient:
                    raise
                await asyncio.sleep(0.05)


def _ends(settlement: Settlement) -> bool:
    return settlement.verdict.state is State.SUCCEEDED


async def all_ended(store: PostgresStore) -> bool:
    return not any(
        view.ready or view.scheduled or view.blocked or view.running
        for view in await store.queues()
    )


async def run_through(load: Load, faults: Awaitable[None], *, batches: int) -> None:
    """Work, while faults happen, until every job has ended; then look at what is there."""
    workers = [asyncio.ensure_future(load.work(f"w{n}")) for n in range(3)]
    producers = [asyncio.ensure_future(load.produce(batches)) for _ in range(2)]
    await faults
    await asyncio.gather(*producers)
    watcher = PostgresStore(load.url)
    await watcher.open()
    await until(lambda: all_ended(watcher), "every job has ended")
    load.over = True
    await asyncio.gather(*workers)
    page = await watcher.page(JobFilter(state=State.SUCCEEDED), None, 100_000)
    await watcher.close()
    assert {found.id for found in page.jobs} >= load.acknowledged, "an acknowledged job was lost"
    assert max(load.took.values()) == 1, "a job was settled twice"


async def test_every_connection_is_cut_again_and_again(own: Server) -> None:
    """I1 I3 I12"""
    load = Load(own.url())

    async def cut() -> None:
        for _ in range(12):
            await asyncio.sleep(0.25)
            await asyncio.to_thread(
                own.execute,
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where pid <> pg_backend_pid() and backend_type = 'client backend'",
            )

    await run_through(load, cut(), batches=60)


async def test_the_server_is_killed_and_comes_back(own: Server) -> None:
    """I1 I3 I11 I12"""
    load = Load(own.url())

    async def kill() -> None:
        for _ in range(3):
            await asyncio.sleep(0.8)
            await asyncio.to_thread(own.kill)
            await asyncio.sleep(0.2)
            await asyncio.to_thread(own.start)

    await run_through(load, kill(), batches=60)


async def test_a_worker_is_woken_again_after_the_connection_was_cut(own: Server) -> None:
    """I12"""
    store, other = PostgresStore(own.url()), PostgresStore(own.url())
    await store.open()
    await other.open()
    while await store.wait([QUEUE], 0.05):
        pass
    await asyncio.to_thread(
        own.execute,
        "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%'",
    )
    await asyncio.sleep(1.5)
    while await store.wait([QUEUE], 0.05):
        pass
    sleeper = asyncio.ensure_future(store.wait([QUEUE], 30))
    await put(other)
    assert QUEUE in await sleeper
    assert len(await claims(store)) == 1
    await store.close()
    await other.close()


async def test_a_settle_whose_answer_was_lost_returns_that_it_took(own: Server) -> None:
    """I3: the transaction was committed, the connection broke before the answer."""
    store = PostgresStore(own.url())
    await store.open()
    await store.enqueue([job(), job(), job(unique="u"), job(resource="r")])
    held = await claims(store)
    line = store._work
    attempt = line._attempt
    broke: list[bool] = []

    async def breaks_after_the_commit(verb: Any, context: Any) -> Any:
        answer = await attempt(verb, context)
        if not broke:
            broke.append(True)
            connection = await line.connected()
            await asyncio.to_thread(
                own.execute, f"select pg_terminate_backend({connection.info.backend_pid})"
            )
            await connection.execute("select 1")
        return answer

    line._attempt = breaks_after_the_commit  # type: ignore[method-assign]
    assert (
        await store.settle(
            [succeed(claim, keep=0 if n == 0 else LONG) for n, claim in enumerate(held)]
        )
        == [True] * 4
    )
    assert broke
    await store.close()


async def test_a_cancel_during_the_settle_is_not_lost(own: Server) -> None:
    """I3: the cancel is committed while the settlement already waits for the row."""
    store = PostgresStore(own.url())
    await store.open()
    for keep in (0, LONG):
        id = await put(store)
        [held] = await claims(store)
        async with await psycopg.AsyncConnection.connect(own.url()) as person:
            await person.execute(
                "update mita._job set asked = 'cancel', asked_keep = 60000 where id = %s", [id]
            )
            settling = asyncio.ensure_future(
                store.settle_and_claim([succeed(held, keep=keep)], [QUEUE], 1, LEASE, "w")
            )
            await asyncio.sleep(0.2)
            assert not settling.done()
        assert (await settling).took == [True]
        [found] = await store.find([id])
        assert found is not None
        assert found.state is State.CANCELLED
    await store.close()


async def test_a_server_that_hangs_is_given_up(
    own: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: it was stopped, or its disk is full; the connections stay as they are."""
    monkeypatch.setattr("mita.stores.postgres.notify.SEND_TIMEOUT_S", 0.5)
    store = PostgresStore(own.url(connect_timeout="2"))
    await store.open()
    await put(store)
    for line in (store._work, store._short, store._read):
        await line.connected()
        line._timeout_s = 0.5
    await asyncio.to_thread(own.freeze)
    try:
        for act in (store.claim([QUEUE], 1, LEASE, "w"), store.enqueue([job()]), store.queues()):
            with pytest.raises(StoreError, match=r"no answer for 0\.5 s") as caught:
                await act
            assert caught.value.transient
        store._notifier.notify({QUEUE})
        async with asyncio.timeout(30):
            await store.close()
    finally:
        await asyncio.to_thread(own.thaw)
    again = PostgresStore(own.url())
    await again.open()
    await put(again)  # what it was asked meanwhile is done, or not
    assert await claims(again, 10)
    await again.close()


async def test_a_process_stopped_in_a_transaction_is_ended_by_other_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I12. Servers before 17 take a transaction that is half sent for one that is at work, and
    never end it."""
    monkeypatch.setattr("mita.stores.postgres.leases.TRANSACTION_TIMEOUT_S", 0)
    url = fresh_url("pg16")
    stopped, other = PostgresStore(url), PostgresStore(url)
    await stopped.open()
    await other.open()
    id = await put(stopped)
    [held] = (await stopped.claim([QUEUE], 1, 0, "w")).claims
    connection = await stopped._work.connected()
    forget = query("settle_forget", ids=f"{{{id}}}", tokens=f"{{{held.token}}}")
    pipeline = connection.pipeline()
    await pipeline.__aenter__()
    cursor = await connection.execute(*stopped._state.bound(forget))
    assert await cursor.fetchone() is not None, (
        "its row is locked, and the end of the transaction not yet sent"
    )
    heirs: list[Claim] = []
    async with asyncio.timeout(30):
        while not heirs:
            heirs = await other.reap(1, LEASE, "heir")
    with pytest.raises(psycopg.OperationalError):
        await pipeline.__aexit__(None, None, None)
    assert [heir.id for heir in heirs] == [id]
    assert await stopped.settle([succeed(held)]) == [False], "on a new connection"
    await other.close()
    await stopped.close()
