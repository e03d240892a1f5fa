"""Many keys with a rate, and a job that waits at each of them. MITA_SOAK=1 takes 50,000 keys; the
figures are printed (`-s`)."""

import os
import time

from mita.model.gate import Gate
from mita.model.job import NewJob
from mita.model.time import MINUTE
from mita.stores.postgres import PostgresStore
from mita.testing.contract.clocks import FakeTicker
from mita.testing.contract.given import LONG, QUEUE, claims, job, put, settled, succeed

from .shared import server
from .test_limits import rows

KEYS = 50_000 if os.environ.get("MITA_SOAK", "") not in ("", "0") else 1_000
CLAIMED_JOBS, ENQUEUED_JOBS = 500, 1_000
PLAIN_CLAIMS = 100


class Stopwatch:
    """Says how long each part took."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    def lap(self, what: str, n: int) -> None:
        took_s = time.monotonic() - self._since_s
        print(f"{what}: {took_s:.2f} s, {took_s / n * 1e6:,.0f} µs each of {n:,}")
        self._since_s = time.monotonic()


def one_job_for_each_key() -> list[NewJob]:
    return [job(gates=(Gate(f"host:{n}", None, MINUTE * 1000, 1),)) for n in range(KEYS)]


async def run_all(store: PostgresStore) -> int:
    """Claim and settle until no more jobs can start. Returns how many ran."""
    ran = 0
    while True:
        turn = await store.claim([QUEUE], CLAIMED_JOBS, LONG, "w")
        await settled(store, *(succeed(claim, keep=0) for claim in turn.claims))
        ran += len(turn.claims)
        if not turn.claims and turn.again != 0:
            return ran


def kilobytes(store: PostgresStore) -> int:
    space = store._state.statements.namespace
    found = server("pg18").execute(f"""select pg_total_relation_size('"{space}"._key')""")
    return int(found[0][0]) // 1024


async def test_many_rate_keys_work_and_are_forgotten_when_they_are_idle(url: str) -> None:
    """I14: each key lets one job start a minute, and wakes its own job; no claim reads them all."""
    clock = FakeTicker()
    store = PostgresStore(url, clock=clock)
    await store.open()
    watch = Stopwatch()
    for _ in range(2):
        made = one_job_for_each_key()
        for start in range(0, KEYS, ENQUEUED_JOBS):
            await store.enqueue(made[start : start + ENQUEUED_JOBS])
    watch.lap("enqueued", 2 * KEYS)
    assert await run_all(store) == KEYS
    watch.lap("started or blocked", 2 * KEYS)
    assert rows(store, "_key") == KEYS
    print(f"_key has {kilobytes(store):,} KiB")
    watch.lap("counted", 1)
    for _ in range(PLAIN_CLAIMS):
        await put(store)
        assert len(await claims(store, 1)) == 1
    watch.lap("plain jobs enqueued and claimed beside them", PLAIN_CLAIMS)
    await clock.tick(MINUTE)
    assert await run_all(store) == KEYS
    watch.lap("woken and run", KEYS)
    print(f"_key has {kilobytes(store):,} KiB")
    await clock.tick(MINUTE)
    await store.prune(10, 10)
    watch.lap("forgotten", KEYS)
    assert rows(store, "_key") == 0
    await store.close()
