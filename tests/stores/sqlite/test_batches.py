"""Jobs that are settled together end exactly as if each were settled by itself."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mita.model.gate import Gate, StoredLimit
from mita.model.job import Claim, NewJob, State
from mita.model.outcome import Counter, Settlement, TimelineKind, Verdict
from mita.model.time import MINUTE, SECOND, When
from mita.ports.ids import new_ids
from mita.rules.judge import success
from mita.stores.sqlite import SqliteStore, settle
from mita.stores.sqlite.batches import alike
from mita.testing.contract.clocks import FakeTicker

QUEUE, ROUNDS, JOBS = "q", 12, 60
KEYS = ("a", "b", "c", "d")
TABLES = ("job", "event", "key", "holder", "hold", "unique", "once_value", "queue")


def new_job(random: Random, id: str) -> NewJob:
    gates = [
        Gate(random.choice(KEYS), random.choice([None, 1, 2]), 0, 1),
        Gate("rate", None, 300_000, 3),
        Gate("slow", 2, 400_000, 2),
    ]
    return NewJob(
        id=id,
        task="t",
        queue=QUEUE,
        payload=b"\x80",
        priority=random.choice([4, 5, 6]),
        resource=random.choice([None, *KEYS]),
        limit=random.choice([1, 1, 2, 3]),
        gates=tuple(random.sample(gates, random.choice([0, 0, 0, 1, 2]))),
        unique=random.choice([None, None, f"u{random.randrange(9)}"]),
        unique_for=random.choice([0, MINUTE]),
    )


def verdict_of(random: Random) -> Verdict:
    line: dict[str, Any] = {"note": random.choice(["one", "two"]), "worker": None}
    failed = line | {"error": "trace", "failure": "trace", "event": TimelineKind.FAILED}
    return random.choice(
        [
            success(b"\xc0", 0),
            success(b"\xc0", MINUTE),
            success(random.randbytes(2), MINUTE),
            Verdict(
                state=State.QUEUED,
                when=When(random.choice([0, 0, SECOND])),
                counts=Counter.ATTEMPTS,
                **(failed | {"event": TimelineKind.RETRIED}),
            ),
            Verdict(
                state=State.QUEUED,
                when=When(0),
                counts=Counter.RESCHEDULES,
                event=TimelineKind.RESCHEDULED,
                **line,
            ),
            Verdict(state=State.FAILED, keep=MINUTE, counts=Counter.ATTEMPTS, group="g", **failed),
            Verdict(state=State.QUEUED, unstarted=True),
            Verdict(state=State.QUEUED, when=When(0), hold=When(SECOND), **line),
        ]
    )


async def walked(path: Path, seed: str, ids: Sequence[str]) -> list[Any]:
    """Claim and settle many jobs in batches. Returns what the file has after each round."""
    random, clock = Random(seed), FakeTicker()
    store = SqliteStore(path, clock=clock)
    await store.open()
    await store.enqueue([new_job(random, id) for id in ids])
    running, seen = list[Claim](), list[Any]()
    for n in range(ROUNDS):
        if n == ROUNDS // 2:
            await store.limit([QUEUE], "a", StoredLimit(concurrency=1))
        running += (await store.claim([QUEUE], random.randrange(1, 20), MINUTE, "w")).claims
        ended = random.sample(running, random.randrange(len(running) + 1))
        running = [claim for claim in running if claim not in ended]
        shared = verdict_of(random)
        settlements = [
            Settlement(claim, shared if random.random() < 0.5 else verdict_of(random))
            for claim in ended
        ]
        took = await store.settle(settlements)
        await clock.tick(random.choice([0, 100, SECOND]))
        with sqlite3.connect(path) as file:
            rows = [file.execute(f"select * from _mita_{name}").fetchall() for name in TABLES]
        file.close()
        seen.append((n, took, rows))
    await store.close()
    return seen


@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
async def test_a_batch_ends_as_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: str
) -> None:
    monkeypatch.setattr(alike, "ALIKE_RUNS", 3)
    ids = new_ids(JOBS)
    together = await walked(tmp_path / "together.db", seed, ids)
    monkeypatch.setattr(settle, "_sorted", lambda _: ([], []))
    apart = await walked(tmp_path / "apart.db", seed, ids)
    for one, other in zip(together, apart, strict=True):
        assert one == other
    assert any(rows[1] for _, _, rows in together)
