"""What only the memory store promises: one state, many threads."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from mita.model.job import State
from mita.model.time import When
from mita.ports.store import Store
from mita.stores.memory import MemoryState, MemoryStore
from mita.testing.contract.clocks import FakeTicker
from mita.testing.contract.given import LONG, QUEUE, claims, done, job, jobs, put, put_many, succeed
from tests.counting import calls_counted


def on_a_thread(state: MemoryState, act: Callable[[Store], Awaitable[object]]) -> None:
    """Run `act` on a thread of its own, with an event loop and a handle of its own."""

    async def whole() -> None:
        store = MemoryStore(state)
        await store.open()
        await act(store)
        await store.close()

    asyncio.run(whole())


async def test_a_ring_reaches_a_sleeper_on_another_thread() -> None:
    state, asleep, heard = MemoryState(), threading.Event(), []

    async def sleep(store: Store) -> None:
        asyncio.get_running_loop().call_later(0.05, asleep.set)
        heard.append(await store.wait([QUEUE], 5))

    store = MemoryStore(state)
    with ThreadPoolExecutor() as pool:
        sleeper = asyncio.get_running_loop().run_in_executor(pool, on_a_thread, state, sleep)
        await asyncio.to_thread(asleep.wait)
        await put(store)
        await sleeper
    assert heard == [frozenset({QUEUE})], "nobody who sleeps through it hears of the queue"


async def test_threads_share_the_work_and_never_a_job() -> None:
    """I4"""
    state, ended = MemoryState(), list[str]()

    async def work(store: Store) -> None:
        while found := await claims(store, 7):
            ended.extend(claim.id for claim in found)
            assert all(await store.settle([succeed(claim) for claim in found]))

    store = MemoryStore(state)
    made = jobs(2000)
    await store.enqueue(made)
    with ThreadPoolExecutor() as pool:
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(pool, on_a_thread, state, work) for _ in range(4))
        )
    assert sorted(ended) == sorted(new.id for new in made)
    assert [view.succeeded for view in await store.queues()] == [2000]


async def test_a_sleeper_whose_loop_is_gone_is_no_trouble_to_others() -> None:
    state = MemoryState()

    def leave_asleep() -> None:
        loop = asyncio.new_event_loop()
        store = MemoryStore(state)
        loop.run_until_complete(store.open())
        sleeper = loop.create_task(store.wait([QUEUE], 60))
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        assert not sleeper.done()

    await asyncio.to_thread(leave_asleep)
    assert await put(MemoryStore(state))


async def test_a_claim_is_quick_before_a_long_line() -> None:
    """I14"""
    store = MemoryStore()
    await store.enqueue(jobs(10_000))
    await store.enqueue(jobs(10_000, when=When(LONG)))
    urgent = await put(store, priority=9)
    with calls_counted() as calls:
        first, *_ = await claims(store, 100)
    assert first.id == urgent
    assert calls[0] < 10_000, "fewer than there are jobs in the line"


async def test_a_hot_key_is_blocked_away_piece_by_piece() -> None:
    """I9"""
    store = MemoryStore()
    await store.enqueue(jobs(1500, resource="r", priority=9))
    other = await put(store, priority=1)
    turn = await store.claim([QUEUE], 2, LONG, "w1")
    assert (len(turn.claims), turn.again) == (1, 0)
    turn = await store.claim([QUEUE], 1, LONG, "w1")
    assert [claim.id for claim in turn.claims] == [other]


async def test_handles_with_clocks_that_differ_see_one_time() -> None:
    state, ahead, behind = MemoryState(), FakeTicker(), FakeTicker()
    await ahead.tick(5000)
    fast, slow = MemoryStore(state, ahead), MemoryStore(state, behind)
    first = await fast.now()
    assert await slow.now() == first, "it stands still until it has caught up"


async def test_asking_again_and_again_lets_others_run() -> None:
    store = MemoryStore()
    await put(store)
    ran = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(ran.set_result, True)
    for _ in range(10):
        await store.claim(["nobody"], 1, LONG, "w1")
    assert ran.done()


async def test_it_forgets_what_is_over() -> None:
    """I14: neither keys nor names of ended jobs stay behind."""
    clock = FakeTicker()
    state = MemoryState()
    store = MemoryStore(state, clock)
    for n in range(50):
        await done(store, resource=f"r{n}", unique=f"u{n}", unique_for=10)
    waiting = await put_many(store, 2, resource="r")
    await clock.tick(10**10)
    assert await store.prune(1000, 0) == 50
    assert (len(state.records), len(state.unique)) == (2, 0)
    assert await store.resources() == []
    found = await store.find(waiting)
    assert [one.state for one in found if one is not None] == [State.QUEUED] * 2


def test_making_one_connects_to_nothing() -> None:
    """No event loop is needed, and none is bound, before `open`."""
    store = MemoryStore()
    assert asyncio.run(store.enqueue([job()]))[0].created
    assert asyncio.run(store.queue_names()) == [QUEUE]
