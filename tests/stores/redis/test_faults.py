"""What happens to jobs when the server dies, forgets its scripts, or cuts connections."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from mita.model.job import Receipt
from mita.model.outcome import Held, Settlement
from mita.stores.redis import RedisStore
from mita.stores.redis.scripting.scripts import script

from .load import DONE, LEASE, QUEUE, Load, jobs
from .servers import Server, bundled


@pytest.fixture
def durable() -> Iterator[Server]:
    server = Server(bundled(), "--appendonly", "yes", "--appendfsync", "everysec").start()
    yield server
    server.stop()


@pytest.fixture
async def pair(server: Server) -> AsyncIterator[tuple[RedisStore, RedisStore]]:
    stores = RedisStore(server.url), RedisStore(server.url)
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(durable: Server) -> None:
    """I1 I3 I11"""
    producer, worker = RedisStore(durable.url), RedisStore(durable.url)
    await producer.open()
    await worker.open()
    load = Load(producer, worker, batches=120, size=20)
    running = asyncio.create_task(load.run())
    for _ in range(3):
        await asyncio.sleep(0.25)
        durable.kill()
        await asyncio.sleep(0.1)
        await asyncio.to_thread(durable.start)
    await asyncio.wait_for(running, 60)
    assert load.acknowledged == set(load.settled)
    assert max(load.settled.values()) == 1, "put down twice"
    assert [(view.ready, view.running) for view in await producer.queues()] == [(0, 0)]
    await producer.close()
    await worker.close()


async def test_a_server_that_forgets_its_scripts_gets_them_again(
    server: Server, pair: tuple[RedisStore, RedisStore]
) -> None:
    """I3 I4: and what ran is not run again."""
    load = Load(*pair, batches=100, size=20)
    running = asyncio.create_task(load.run())
    with server.client() as client:
        while not running.done():
            client.script_flush()
            await asyncio.sleep(0.005)
    await running
    assert load.acknowledged == set(load.settled)
    assert max(load.settled.values()) == 1
    assert load.troubles == 0, "nobody noticed"


async def test_cut_connections_are_made_again(
    server: Server, pair: tuple[RedisStore, RedisStore]
) -> None:
    """I1 I3 I12"""
    load = Load(*pair, batches=100, size=20)
    running = asyncio.create_task(load.run())
    with server.client() as client:
        while not running.done():
            await asyncio.sleep(0.05)
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await running
    assert load.acknowledged == set(load.settled)
    assert max(load.settled.values()) == 1


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("before", [0, 1])
async def test_a_call_whose_answer_was_lost_returns_the_same_answer(
    pair: tuple[RedisStore, RedisStore], before: int, fresh: bool
) -> None:
    """I3: the second try finds its own traces, and knows them."""
    store, _ = pair
    await store.enqueue(jobs(before, fresh=True))
    await store.claim([QUEUE], before, LEASE, "w1")
    [new] = jobs(1, fresh=fresh)
    await _cut_after(store, "enqueue")
    assert await store.enqueue([new]) == [Receipt(new.id, created=True)]
    [claim] = (await store.claim([QUEUE], 1, LEASE, "w1")).claims
    await _cut_after(store, "settle_and_claim")
    assert await store.settle([Settlement(claim, DONE)]) == [True]
    assert await store.settle([Settlement(claim, DONE)]) == [False]


@pytest.mark.parametrize("forgotten", [True, False])
async def test_a_call_that_comes_late_on_a_connection_that_was_given_up_is_not_done_twice(
    pair: tuple[RedisStore, RedisStore], forgotten: bool
) -> None:
    """I4: it was sent again on another, and that came first."""
    store, _ = pair
    await store.enqueue(jobs(1))
    ask, asked = store.context.connection.server.call, []

    async def noted(*parts: object) -> object:
        asked.append(parts)
        return await ask(*parts)

    store.context.connection.server.call = noted  # type: ignore[method-assign]
    await store.enqueue(jobs(1, fresh=True))
    store.context.connection.server.call = ask  # type: ignore[method-assign]
    if forgotten:
        claims = (await store.claim([QUEUE], 2, LEASE, "w1")).claims
        assert await store.settle([Settlement(claim, DONE) for claim in claims]) == [True, True]
    await ask(*asked[-1])
    assert [view.ready for view in await store.queues()] == [0 if forgotten else 2]
    # nor when so much was asked since that the call itself is not remembered any more
    if not forgotten:
        for new in jobs(1000):
            await store.enqueue([new])
        await ask(*asked[-1])
        assert [view.ready for view in await store.queues()] == [1002]


async def _cut_after(store: RedisStore, name: str) -> None:
    """The next call of this script is done, and its answer never comes."""
    client = store.context.connection.server._client  # type: ignore[attr-defined]
    ask = client.call

    async def cut(*parts: object) -> object:
        answer = await ask(*parts)
        if parts[1] == script(name).sha:
            store.context.connection.server.call = ask  # type: ignore[method-assign]
            raise ConnectionResetError("cut by the test")
        return answer

    store.context.connection.server.call = cut  # type: ignore[method-assign]


@pytest.mark.parametrize("many", [1, 20])
async def test_a_claim_that_a_dead_server_forgot_is_not_given_out_again(
    server: Server, pair: tuple[RedisStore, RedisStore], many: int
) -> None:
    """I3 I4: with `appendfsync everysec` a claim can be lost, and its job handed out again from the
    state before."""
    late, next_one = pair
    await late.enqueue(jobs(many))
    with server.client() as client:
        before = {key: client.dump(key) for key in client.keys("*")}
        forgotten = (await late.claim([QUEUE], many, LEASE, "w1")).claims
        client.flushdb()
        for key, value in before.items():
            client.restore(key, 0, value)
    while await late.now() <= forgotten[0].at:  # a server does not come back within a millisecond
        pass
    claims = (await next_one.claim([QUEUE], many, LEASE, "w2")).claims
    assert {claim.id for claim in claims} == {claim.id for claim in forgotten}
    assert not {claim.token for claim in claims} & {claim.token for claim in forgotten}
    assert await late.settle([Settlement(claim, DONE) for claim in forgotten]) == [False] * many
    assert await late.extend(forgotten, LEASE) == [Held.LOST] * many
    assert await next_one.settle([Settlement(claim, DONE) for claim in claims]) == [True] * many


async def test_a_waiting_worker_is_woken_after_the_server_restarted(durable: Server) -> None:
    """I9"""
    store = RedisStore(durable.url)
    await store.open()
    while await store.wait([QUEUE], 0.05):
        pass
    sleeper = asyncio.create_task(store.wait([QUEUE], 60))
    await asyncio.sleep(0.05)
    durable.kill()
    await asyncio.to_thread(durable.start)
    assert await asyncio.wait_for(sleeper, 45), (
        "what rang while nobody listened may have been for us"
    )
    while await store.wait([QUEUE], 0.05):
        pass
    sleeper = asyncio.create_task(store.wait([QUEUE], 60))
    await asyncio.sleep(0.05)
    await store.enqueue(jobs(1))
    assert QUEUE in await asyncio.wait_for(sleeper, 45)
    await store.close()


async def test_leases_are_kept_from_another_thread_and_loop(
    server: Server, pair: tuple[RedisStore, RedisStore]
) -> None:
    """I4: a handler that blocks its event loop does not lose its job."""
    store, _ = pair
    await store.enqueue(jobs(3))
    claims = (await store.claim([QUEUE], 3, LEASE, "w1")).claims

    def keep() -> list[Held]:
        async def extend() -> list[Held]:
            keeper = RedisStore(server.url)
            await keeper.open()
            answer = await keeper.extend(claims, 60_000)
            await keeper.close()
            return answer

        return asyncio.run(extend())

    assert await asyncio.to_thread(keep) == [Held.HELD] * 3
    await asyncio.sleep(LEASE / 1000 + 0.1)
    assert await store.reap(10, LEASE, "w2") == []
