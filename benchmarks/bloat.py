"""Process many jobs while few wait: whether claims stay cheap, also while another session keeps an
old snapshot open, so that PostgreSQL cannot remove dead rows."""

import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from mita import Mita
from mita.model.job import State
from mita.model.outcome import Settlement, Verdict
from mita.ports.store import Store
from mita.stores.postgres.server.connect import parse

from .record import LOADED, Record
from .worker_app import QUEUE, Make

LIVE_JOBS = 10_000
BATCH_JOBS = 500
CURVE_POINTS = 20  # points of the curve
_LEASE_MS = 600_000
_DONE = Verdict(state=State.SUCCEEDED, keep=0)


async def move_through(
    app: Mita, make: Make, record: Record, jobs: int, pin: str | None
) -> dict[str, Any]:
    """Return the curve: how many jobs were processed, and the median cost of a claimed job since
    the last point, in microseconds."""
    live = min(LIVE_JOBS, jobs // 10)
    store = await app.open_store()
    try:
        for start in range(0, live, BATCH_JOBS):
            await app.enqueue_many([make(i) for i in range(start, start + BATCH_JOBS)])
        async with _pinned(pin):
            return {"curve": [point async for point in _points(app, store, make, record, jobs)]}
    finally:
        await store.close()


async def _points(
    app: Mita, store: Store, make: Make, record: Record, jobs: int
) -> AsyncIterator[tuple[int, float]]:
    costs: list[float] = []
    moved, due = 0, jobs // CURVE_POINTS
    while moved < jobs:
        began = time.perf_counter()
        claims = (await store.claim([QUEUE], BATCH_JOBS, _LEASE_MS, "bench")).claims
        costs.append((time.perf_counter() - began) * 1e6 / max(1, len(claims)))
        await store.settle([Settlement(claim, _DONE) for claim in claims])
        await app.enqueue_many([make(moved + n) for n in range(len(claims))])
        moved += len(claims)
        record.head[LOADED] = moved
        if moved >= due:
            yield moved, round(statistics.median(costs), 2)
            costs, due = [], due + jobs // CURVE_POINTS


@asynccontextmanager
async def _pinned(url: str | None) -> AsyncIterator[None]:
    """A session that keeps an old snapshot open, like a long report."""
    if url is None:
        yield
        return
    params, _ = parse(url)
    async with await psycopg.AsyncConnection.connect(**params) as holder:
        await holder.execute("set transaction isolation level repeatable read")
        await holder.execute("select txid_current()")
        yield
