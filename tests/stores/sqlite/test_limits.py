"""Rates and limits on a file: what claims look at, what is forgotten, and several processes."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mita.model.gate import Gate, StoredLimit
from mita.model.job import NewJob
from mita.model.outcome import Settlement
from mita.model.time import MINUTE
from mita.ports.ids import new_ids
from mita.rules.judge import success
from mita.stores.sqlite import SqliteStore
from mita.testing.contract.clocks import FakeTicker

QUEUE = "q"
RATE = Gate("host", None, 20_000, 3)
DONE = success(b"\xc0", MINUTE)


def jobs(n: int, **more: Any) -> list[NewJob]:
    return [NewJob(id=id, task="t", queue=QUEUE, payload=b"\x80", **more) for id in new_ids(n)]


async def steps_of_a_claim(path: Path, waiters: int, make: Callable[[int], Gate]) -> int:
    """How many steps of the engine a claim of 10 plain jobs takes beside so many waiting jobs."""
    clock = FakeTicker()
    store = SqliteStore(path, clock=clock)
    await store.open()
    for n in range(waiters):
        await store.enqueue(jobs(1, gates=(make(n),)))
    while (await store.claim([QUEUE], 100, MINUTE, "w")).busy:
        pass
    await store.enqueue(jobs(20))
    assert len((await store.claim([QUEUE], 10, MINUTE, "w")).claims) == 10  # all is prepared now
    steps = await counted_claim(store, 10)
    await store.close()
    return steps


async def counted_claim(store: SqliteStore, limit: int) -> int:
    """Claim so many jobs. Returns how many steps of the engine that took."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    await store.writer.call(lambda context: context.connection.set_progress_handler(count, 1))
    assert len((await store.claim([QUEUE], limit, MINUTE, "w")).claims) == limit
    await store.writer.call(lambda context: context.connection.set_progress_handler(None, 1))
    return steps


@pytest.mark.parametrize(
    "make",
    [lambda n: Gate("hot", None, 1_000_000, 1), lambda n: Gate(f"h{n % 150}", None, 1_000_000, 1)],
    ids=["one key", "many keys"],
)
async def test_a_claim_does_not_look_at_jobs_that_wait_for_a_token(
    tmp_path: Path, make: Callable[[int], Gate]
) -> None:
    few = await steps_of_a_claim(tmp_path / "few.db", 155, make)
    many = await steps_of_a_claim(tmp_path / "many.db", 600, make)
    assert many <= few * 1.05


async def test_a_claim_does_not_count_the_running_jobs_of_a_rate(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", clock=FakeTicker())
    await store.open()
    await store.enqueue(jobs(302, gates=(Gate("hot", None, 1_000, 1000),)))
    await store.claim([QUEUE], 1, MINUTE, "w")  # all is prepared now
    beside_one = await counted_claim(store, 1)
    assert len((await store.claim([QUEUE], 299, MINUTE, "w")).claims) == 299
    beside_many = await counted_claim(store, 1)
    await store.close()
    assert beside_many <= beside_one * 1.05


async def test_keys_of_idle_rates_are_forgotten(tmp_path: Path) -> None:
    clock = FakeTicker()
    store = SqliteStore(tmp_path / "jobs.db", clock=clock)
    await store.open()
    for n in range(500):
        await store.enqueue(jobs(1, gates=(Gate(f"h{n}", None, 1_000, 1),)))
    claims = (await store.claim([QUEUE], 500, MINUTE, "w")).claims
    assert len(claims) == 500
    assert count(tmp_path, "_mita_key") == count(tmp_path, "_mita_holder") == 500
    await store.settle([Settlement(claim, DONE) for claim in claims])
    await clock.tick(10)
    await store.prune(10, 1000)
    await store.close()
    assert count(tmp_path, "_mita_key") == count(tmp_path, "_mita_holder") == 0


def count(folder: Path, table: str) -> int:
    database = sqlite3.connect(folder / "jobs.db")
    [(found,)] = database.execute(f"select count(*) from {table}")
    database.close()
    return int(found)


async def test_a_key_whose_holder_does_not_run_is_freed_by_the_sweep(tmp_path: Path) -> None:
    """A person, or a version that knew nothing of further keys, changed the job's row."""
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open()
    gpu = (Gate("gpu", 1),)
    await store.enqueue(jobs(1, gates=gpu))
    assert len((await store.claim([QUEUE], 1, MINUTE, "w")).claims) == 1
    await store.enqueue(jobs(1, gates=gpu))
    assert (await store.claim([QUEUE], 1, MINUTE, "w")).claims == []
    database = sqlite3.connect(tmp_path / "jobs.db")
    with database:
        database.execute("delete from _mita_job where state = 'running'")
    database.close()
    await store.reap(10, MINUTE, "w")
    assert len((await store.claim([QUEUE], 1, MINUTE, "w")).claims) == 1
    await store.close()


async def test_a_blocked_job_without_a_key_to_wait_at_goes_back_to_its_queue(
    tmp_path: Path,
) -> None:
    """A version that knew nothing of `blocked_at` has blocked it."""
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open()
    await store.enqueue(jobs(2, resource="r"))
    [holder] = (await store.claim([QUEUE], 2, MINUTE, "w")).claims
    database = sqlite3.connect(tmp_path / "jobs.db")
    with database:
        database.execute("update _mita_job set blocked_at = null")
    database.close()
    await store.settle([Settlement(holder, DONE)])
    await store.reap(10, MINUTE, "w")
    assert len((await store.claim([QUEUE], 1, MINUTE, "w")).claims) == 1
    await store.close()


async def test_plain_jobs_need_no_more_statements_than_before_there_were_limits(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    store.ageing = MINUTE
    await store.open()
    await store.limit(["other"], "key", StoredLimit(1))
    said: list[str] = []
    await store.enqueue(jobs(1))
    [claim] = (await store.claim([QUEUE], 1, MINUTE, "w")).claims
    await store.writer.call(
        lambda context: context.connection.set_trace_callback(said.append), durable=False
    )
    said.clear()
    await store.enqueue(jobs(2))
    enqueue, begun = statements(said), len(said)
    await store.settle_and_claim([Settlement(claim, DONE)], [QUEUE], 1, MINUTE, "w")
    turn = statements(said[begun:])
    await store.close()
    assert enqueue == ["select", "select", "insert", "insert"]  # clock, ids, queue, jobs
    assert turn == ["select", "update", "select", "select", "update"]


async def test_a_queue_with_one_group_is_claimed_like_one_without(tmp_path: Path) -> None:
    """Its turns are stored once. After that nothing is written but the claim."""
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open()
    await store.enqueue(jobs(20, fair="a"))
    await store.claim([QUEUE], 5, MINUTE, "w")
    said: list[str] = []
    await store.writer.call(
        lambda context: context.connection.set_trace_callback(said.append), durable=False
    )
    said.clear()
    await store.claim([QUEUE], 5, MINUTE, "w")
    alone = statements(said)
    await store.enqueue(jobs(1, fair="b"))
    [next_one] = (await store.claim([QUEUE], 1, MINUTE, "w")).claims
    await store.close()
    # clock; what stops a start; stopped queues; the group; its jobs
    assert alone == ["select"] * 5 + ["update"]
    assert next_one.fair == "b"


def statements(said: list[str]) -> list[str]:
    words = [text.strip().split()[0].lower() for text in said if text.strip()]
    names = [word for word in words if word not in ("begin", "commit", "pragma", "--")]
    return ["select" if name == "with" else name for name in names]


# ------------------------------------------------------------ several processes

CLAIMER = """
import asyncio, json, sys
from pathlib import Path
from mita.model.outcome import Settlement
from mita.rules.judge import success
from mita.stores.sqlite import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    while True:
        turn = await store.claim(["q"], 5, 60_000, sys.argv[2])
        for claim in turn.claims:
            print(json.dumps(claim.at), flush=True)
        await store.settle([Settlement(claim, success(b"", 60_000)) for claim in turn.claims])
        if not turn.claims:
            if turn.again is None:
                break
            await asyncio.sleep(turn.again / 1000)

asyncio.run(main())
"""


def run_claimers(path: Path) -> list[int]:
    """Three processes claim until nothing is left; one is killed. Returns when jobs started."""
    command = [sys.executable, "-c", CLAIMER, str(path)]
    claimers = [
        subprocess.Popen([*command, f"w{n}"], stdout=subprocess.PIPE, text=True) for n in range(3)
    ]
    first = claimers[0].stdout
    assert first is not None
    killed = first.readline()  # it has begun
    claimers[0].send_signal(signal.SIGKILL)
    said = [claimer.communicate()[0] for claimer in claimers]
    return sorted(json.loads(line) for text in (killed, *said) for line in text.splitlines())


async def test_a_rate_holds_over_processes_of_which_one_is_killed(tmp_path: Path) -> None:
    """In any time T of the store's clock there are at most T / interval + burst starts."""
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open()
    await store.enqueue(jobs(60, gates=(RATE,)))
    starts = run_claimers(path)
    left = (await store.queues())[0]
    await store.close()
    assert len(starts) >= 50
    assert left.blocked == left.ready == 0
    for n, start in enumerate(starts):
        for more, end in enumerate(starts[n:], 1):
            assert more <= (end - start) * 1000 // RATE.interval_us + RATE.burst
