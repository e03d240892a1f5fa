"""Sync handlers that use all threads do not delay async jobs or other workers (I9)."""

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mita import Mita
from mita.engine import full_pools
from mita.engine.full_pools import FIRST_PAUSE_S, LONGEST_PAUSE_S, FullPools
from mita.rules.claim_size import Load
from tests.waiting import until

from .conftest import working

FULL = Load(100, 2, 0, rate=0.0, threads=2, on_threads=2)
BOTH = ("loop", "thread")


class Blocked:
    """Sync handlers that wait until the test releases them."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.running = 0
        self.ran: list[int] = []


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    made = Blocked()
    yield made
    made.gate.set()


async def test_an_async_job_starts_while_all_threads_are_busy(app: Mita, blocked: Blocked) -> None:
    @app.task
    def slow(n: int) -> int:
        blocked.running += 1
        assert blocked.gate.wait(60)
        blocked.ran.append(n)
        return n

    @app.task
    async def quick() -> str:
        return "done"

    async with working(app, threads=2, concurrency=100):
        try:
            handles = [await slow.enqueue(n) for n in range(2)]
            await until(lambda: running(blocked, 2))
            assert await (await quick.enqueue()).result(timeout=15) == "done"
            # these jobs find no thread, and are before the next in the queue
            handles += [await slow.enqueue(n) for n in range(2, 6)]
            assert await (await quick.enqueue()).result(timeout=15) == "done"
            assert blocked.ran == []
            waiting = [await app.get(handle.id) for handle in handles[2:]]
        finally:
            blocked.gate.set()
        for n, handle in enumerate(handles):
            assert await handle.result(timeout=20) == n
    for record in waiting:
        assert record is not None
        assert record.state in (
            "ready",
            "running",
        )  # for a moment, until it is returned to the queue
        assert (record.attempts, record.interruptions, record.crashes) == (0, 0, 0)
    assert sorted(blocked.ran) == list(range(6)), "each ran once"


async def running(blocked: Blocked, count: int) -> bool:
    return blocked.running == count


async def test_another_worker_gets_the_jobs_that_find_no_thread(
    app: Mita, blocked: Blocked
) -> None:
    """Both workers have an async task, so both claim while their threads are busy."""
    where: dict[int, str] = {}

    @app.task
    def slow(n: int) -> None:
        where[n] = threading.current_thread().name
        blocked.running += 1
        assert blocked.gate.wait(60)

    @app.task
    async def quick() -> None: ...

    async with working(app, threads=1), working(app, threads=1), working(app, threads=1):
        for n in range(3):
            await slow.enqueue(n)
        await until(lambda: running(blocked, 3))
        blocked.gate.set()
    assert sorted(where) == [0, 1, 2]


def test_claims_without_a_job_to_start_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    """I14: two workers with busy threads would otherwise pass the same jobs to each other all
    the time."""
    now = 1000.0
    called: list[float] = []
    monkeypatch.setattr(full_pools, "time", SimpleNamespace(monotonic=lambda: now))
    pools = FullPools(asyncio.Event())
    monkeypatch.setattr(pools, "_call_at", called.append)
    assert pools.jobs_to_claim(FULL, BOTH) == 0, "a thread may be free in a moment"
    now += full_pools.STUCK_AFTER_S
    pauses = []
    for _ in range(8):
        assert pools.jobs_to_claim(FULL, BOTH) == 98
        pools.claimed(started=0, put_back=5)
        assert pools.jobs_to_claim(FULL, BOTH) == 0
        pauses.append(called[-1])
        now += called[-1]
    assert pauses == pytest.approx([FIRST_PAUSE_S * 2**n for n in range(5)] + [LONGEST_PAUSE_S] * 3)
    assert pools.jobs_to_claim(FULL, BOTH) == 98
    pools.claimed(started=3, put_back=5)
    pools.jobs_to_claim(FULL, BOTH)
    assert called[-1] == pytest.approx(FIRST_PAUSE_S), (
        "there was something to start: there may be more"
    )
    now += FIRST_PAUSE_S
    pools.claimed(started=0, put_back=0)
    assert pools.jobs_to_claim(FULL, BOTH) == 98, (
        "no job was returned, so the claims disturb no other worker"
    )


def test_a_worker_without_async_tasks_waits_for_a_thread() -> None:
    pools = FullPools(asyncio.Event())
    assert pools.jobs_to_claim(FULL, ["thread"]) == 0
    assert pools.since is None
    full_slots = Load(2, 2, 0, rate=0.0, threads=2, on_threads=2)
    assert pools.jobs_to_claim(full_slots, BOTH) == 0
