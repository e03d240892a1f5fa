"""Many priorities in one queue: their order, and what claims look at."""

import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mita.model.job import PRIORITIES, NewJob
from mita.model.time import HOUR, MINUTE, Wait, When
from mita.ports.ids import new_ids
from mita.stores.sqlite import SqliteStore
from mita.testing.contract.clocks import FakeTicker

QUEUE, SEED = "q", 20260
EVERY = list(PRIORITIES)


@pytest.mark.parametrize("ageing", [None, MINUTE, HOUR])
async def test_jobs_of_all_priorities_start_in_order(tmp_path: Path, ageing: Wait | None) -> None:
    random, clock = Random(f"{SEED} {ageing}"), FakeTicker()
    store = SqliteStore(tmp_path / "jobs.db", clock=clock)
    store.ageing = ageing
    await store.open()
    priorities = EVERY + random.choices(EVERY, k=200)
    waits = [random.randrange(20) * MINUTE // 2 for _ in priorities]
    ids = new_ids(len(priorities))
    ranked = list[Any]()
    for n, (id, priority, wait) in enumerate(zip(ids, priorities, waits, strict=True)):
        rank = 0 if ageing is None else wait - priority * ageing
        ranked.append((rank, -priority, wait, n, id))
    await store.enqueue(
        [
            NewJob(
                id=id, task="t", queue=QUEUE, payload=b"\x80", priority=priority, when=When(wait)
            )
            for id, priority, wait in zip(ids, priorities, waits, strict=True)
        ]
    )
    await clock.tick(8 * MINUTE)
    order = [id for _, _, wait, _, id in sorted(ranked) if wait <= 8 * MINUTE]
    for id in random.sample(order, 12):
        assert await store.ahead(id) == order.index(id)
    started = list[str]()
    while claims := (await store.claim([QUEUE], random.randrange(1, 50), HOUR, "w")).claims:
        started += [claim.id for claim in claims]
    await store.close()
    assert started == order


async def test_a_job_beyond_all_priorities_is_set_aside(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", clock=FakeTicker())
    await store.open()
    ids = new_ids(3)
    await store.enqueue([NewJob(id=id, task="t", queue=QUEUE, payload=b"\x80") for id in ids])
    with sqlite3.connect(tmp_path / "jobs.db") as database:
        for id, priority in zip(ids, (PRIORITIES[-1] + 1, PRIORITIES[0] - 1, "high"), strict=True):
            database.execute("update _mita_job set priority = ? where id = ?", (priority, id))
    database.close()
    assert not (await store.claim([QUEUE], 10, HOUR, "w")).claims
    await store.reap(10, HOUR, "w")
    records = [await store.raw(id) for id in ids]
    await store.close()
    assert [record and record["state"] for record in records] == [b"failed"] * 3
