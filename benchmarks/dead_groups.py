"""How long it takes to count the groups of failed jobs, and to read a page of one.

    python -m benchmarks.dead_groups                            # 200,000 failed jobs in 20 groups
    python -m benchmarks.dead_groups --stores sqlite --jobs 1000000

Each store gets that many failed jobs beside as many that succeeded. The table has the median of
five calls, in milliseconds: all groups, the groups of one queue, and the first page of one group
(100 jobs). `failures` is what a failed job takes more than one that succeeded, in microseconds of
the settling calls."""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mita import Mita
from mita.model.job import Claim, NewJob, State
from mita.model.outcome import Counter, Settlement, TimelineKind, Verdict
from mita.model.time import DAY
from mita.model.view import JobFilter
from mita.ports.ids import new_ids
from mita.ports.store import Store
from mita.rules.fingerprint import fingerprint
from mita.rules.judge import success

from .servers import start

GROUPS = 20
QUEUES = 4
BATCH_JOBS = 500
CALLS = 5
LEASE_MS = 600_000


def failure(claim: Claim, number: int) -> Settlement:
    """The settlement of a run that failed in one of the groups."""
    error = f"Boom: kind {chr(97 + number % GROUPS)}"
    verdict = Verdict(
        state=State.FAILED,
        counts=Counter.ATTEMPTS,
        error=error,
        keep=DAY,
        event=TimelineKind.FAILED,
        note=error,
        failure=error,
        group=fingerprint(claim.task, error),
    )
    return Settlement(claim, verdict)


async def load(store: Store, jobs: int) -> float:
    """Fill the store. Returns how many seconds longer failures took to settle than successes."""
    spent = [0.0, 0.0]
    for at in range(0, jobs, BATCH_JOBS):
        queue = f"queue{at // BATCH_JOBS % QUEUES}"
        for fails in (False, True):
            new = [
                NewJob(id=id, task="send", queue=queue, payload=b"\x80", fresh=True)
                for id in new_ids(BATCH_JOBS)
            ]
            await store.enqueue(new)
            claims: list[Claim] = []
            while len(claims) < BATCH_JOBS:
                claims += (await store.claim([queue], BATCH_JOBS, LEASE_MS, "w")).claims
            ends = [
                failure(claim, number) if fails else Settlement(claim, success(b"\xc0", DAY))
                for number, claim in enumerate(claims)
            ]
            begun = time.perf_counter()
            await store.settle(ends)
            spent[fails] += time.perf_counter() - begun
    return spent[True] - spent[False]


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """The median of some calls, in milliseconds."""
    times = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        await call()
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


async def measure(url: str, jobs: int, settle: Callable[[], None]) -> str:
    """The figures of one store, as the cells of a row."""
    async with Mita(url) as app:
        store = await app.open_store()
        more = await load(store, jobs)
        settle()
        groups = await store.dead_groups(None, None, 100)
        assert sum(one.count for one in groups) == jobs, groups
        group = groups[0].group
        figures = [
            await timed(lambda: store.dead_groups(None, None, 100)),
            await timed(lambda: store.dead_groups("queue1", None, 100)),
            await timed(lambda: store.page(JobFilter(group=group), None, 100)),
        ]
        await store.close()
    return " | ".join(f"{figure:,.1f}" for figure in (*figures, more / jobs * 1e6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--stores", default="sqlite,redis,postgres,nats")
    parser.add_argument("--jobs", type=int, default=200_000)
    options = parser.parse_args()
    print("| store | failed jobs | groups | of one queue | page of a group | failures |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in options.stores.split(","):
        engine = start(name, "everysec")
        with tempfile.TemporaryDirectory() as folder:
            place = engine.open(Path(folder))
            cells = asyncio.run(measure(place.url, options.jobs, place.settle))
            print(f"| {name} | {options.jobs:,} | {cells} |", flush=True)
            place.close()
        engine.close()


if __name__ == "__main__":
    main()
