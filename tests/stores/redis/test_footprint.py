"""A job that is forgotten leaves nothing behind."""

from typing import Any

from mita.model.job import State
from mita.model.outcome import Counter, Progress, Settlement, TimelineKind, Verdict
from mita.model.time import HOUR, NOW, When
from mita.ports.store import OnceValue
from mita.rules.judge import success
from mita.stores.redis import RedisStore
from mita.testing.contract.clocks import FakeTicker

from .load import QUEUE, jobs
from .servers import Server

MANY = 100_000


async def run_all(store: RedisStore, keep: int) -> int:
    settlements: list[Settlement] = []
    ran = 0
    while True:
        turn = await store.settle_and_claim(settlements, [QUEUE], 1000, HOUR, "w1")
        verdict = success(b"\xc0" * 50, keep)
        settlements = [Settlement(claim, verdict) for claim in turn.claims]
        ran += len(settlements)
        if not settlements:
            return ran


async def test_a_hundred_thousand_jobs_leave_nothing_behind(server: Server) -> None:
    """I14"""
    clock = FakeTicker()
    store = RedisStore(server.url, clock=clock)
    await store.open()
    client: Any = server.client()
    await store.enqueue(jobs(1))
    await run_all(store, keep=0)
    await store.prune(1, 0)
    keys, memory = client.dbsize(), client.info("memory")["used_memory"]

    await store.enqueue(jobs(MANY // 2))
    assert await run_all(store, keep=0) == MANY // 2
    assert client.dbsize() == keys

    await store.enqueue(jobs(MANY // 2))
    assert await run_all(store, keep=1000) == MANY // 2
    await clock.tick(1000)
    assert await store.prune(MANY, MANY) == MANY // 2

    assert client.dbsize() == keys
    assert client.info("memory")["used_memory"] < memory + 1_000_000, (
        "less than 10 bytes for each of them"
    )
    client.close()
    await store.close()


async def test_a_job_with_a_timeline_leaves_nothing_behind(server: Server) -> None:
    """I14"""
    store = RedisStore(server.url)
    await store.open()
    await store.enqueue(jobs(1))
    await run_all(store, keep=0)
    with server.client() as client:
        before = client.dbsize()
        await store.enqueue(jobs(3, resource="r", unique="u")[:1] + jobs(2, resource="r"))
        [claim] = (await store.claim([QUEUE], 10, HOUR, "w1")).claims
        await store.progress([Progress(claim, b"half")])
        await store.store_once(OnceValue(claim=claim, name="charged", value=b"yes"))
        again = Verdict(
            state=State.QUEUED,
            when=NOW,
            counts=Counter.ATTEMPTS,
            error="Boom",
            event=TimelineKind.RETRIED,
        )
        assert await store.settle([Settlement(claim, again)]) == [True]
        assert client.dbsize() > before
        for _ in range(10):
            turn = await store.claim([QUEUE], 10, HOUR, "w1")
            done = [Settlement(claim, success(b"", 0)) for claim in turn.claims]
            if not done:
                break
            await store.settle(done)
        assert client.dbsize() == before
        await store.hold([QUEUE], "r", When(HOUR))
        await store.hold([QUEUE], "r", NOW)
        assert client.dbsize() == before + 1, "the names of the places that ever had a hold"
    await store.close()
