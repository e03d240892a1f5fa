"""The pages of the dashboard on stores with many jobs: how long the server needs for each.

    python -m benchmarks.dashboard                       # 1,000,000 jobs on each store
    python -m benchmarks.dashboard --stores sqlite --jobs 100000

Each page is asked for several times without a browser: the first time (nothing is known yet), then
again. A page does not wait for counts that take long: it shows the last ones, with their age."""

import argparse
import asyncio
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

from mita import Mita, Retry
from mita.web import dashboard
from mita.web.routes import ROUTES

from .chains import ENGINES
from .markdown import table

CALL_JOBS = 20_000
QUEUES = ("mail", "orders", "images", "reports", "search")
ERRORS = ("no route to host 10.0.0.{}", "card {} was declined", "file {}.png is damaged")
FAILED_SHARE = 0.05
VISITS = 6
PAUSE_S = 0.3  # between two visits, as a live page makes them


def tasks(url: str) -> Mita:
    """The app whose jobs fill the store."""
    app = Mita(url, retry=Retry(max_retries=0))

    @app.task(name="work", tags=["customer:{customer}"])
    async def work(customer: int) -> None: ...

    @app.task(name="fail", queue="broken")
    async def fail(number: int) -> None:
        raise ConnectionError(ERRORS[number % len(ERRORS)].format(number))

    return app


async def fill(app: Mita, jobs: int) -> None:
    """Enqueue the jobs, and let some of them fail."""
    failed = round(jobs * FAILED_SHARE)
    for start in range(0, failed, CALL_JOBS):
        part = range(start, min(start + CALL_JOBS, failed))
        await app.enqueue_many([app.tasks["fail"].call(n) for n in part])
    await app.worker(["broken"], concurrency=1000, until_empty=True).run()
    for start in range(failed, jobs, CALL_JOBS):
        part = range(start, min(start + CALL_JOBS, jobs))
        task = app.tasks["work"].options(queue=QUEUES[start // CALL_JOBS % len(QUEUES)])
        await app.enqueue_many([task.call(n % 1000) for n in part])
        print(f"\r{part.stop:,} jobs", end="", file=sys.stderr)
    print(file=sys.stderr)


async def pages(app: Mita) -> list[str]:
    """The addresses to visit: each page without parts in its path, and some with filters."""
    plain = [
        route.path
        for route in ROUTES
        if route.method == "GET" and "{" not in route.path and route.path not in ("/login", "/live")
    ]
    [ready] = (await app.jobs(state="ready", queue=QUEUES[0], limit=1)).jobs
    [failed] = (await app.jobs(state="failed", limit=1)).jobs
    filters = ("state=failed", "state=running", "queue=images", "error=declined", "error=nowhere")
    return [
        *plain,
        *(f"/jobs?{one}" for one in (*filters, "tag=customer:7", "tag=nobody", "task=fail")),
        f"/jobs/{ready.id}",
        f"/jobs/{failed.id}",
        "/bulk/new?verb=retry&state=failed",
        "/?range=24h",
    ]


async def visited(app: Mita) -> list[list[str]]:
    """Visit each page; returns the rows of the table."""
    rows = []
    local = httpx.ASGITransport(app=dashboard(app), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=local, base_url="http://localhost") as client:
        for path in await pages(app):
            took = []
            for _ in range(VISITS):
                began = time.perf_counter()
                answer = await client.get(path)
                took.append((time.perf_counter() - began) * 1000)
                if answer.status_code >= 400:
                    raise SystemExit(f"{path}: {answer.status_code}\n{answer.text}")
                await asyncio.sleep(PAUSE_S)
            await _idle()
            again = took[1:]
            figures = took[0], statistics.median(again), max(again)
            rows.append([path, *(f"{one:.0f}" for one in figures)])
            print(f"{path:40}", *(f"{one:6.0f}" for one in figures), file=sys.stderr)
    return rows


async def _idle() -> None:
    """Wait until nothing is read in the background: pages are visited one at a time."""
    while any(  # noqa: ASYNC110 - there is no event for it
        "AgedValues._read" in repr(task.get_coro()) for task in asyncio.all_tasks()
    ):
        await asyncio.sleep(PAUSE_S)


async def measure(url: str, jobs: int) -> list[list[str]]:
    """Fill the store at this URL, and visit the pages."""
    async with tasks(url) as app:
        began = time.perf_counter()
        await fill(app, jobs)
        print(f"filled in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        return await visited(app)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", default=",".join(ENGINES))
    parser.add_argument("--jobs", type=int, default=1_000_000)
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)  # each failure would be logged
    for store in chosen.stores.split(","):
        engine = ENGINES[store]()
        with tempfile.TemporaryDirectory() as folder:
            place = engine.open(Path(folder))
            rows = asyncio.run(measure(place.url, chosen.jobs))
            place.close()
        engine.close()
        print(f"\n### {store}, {chosen.jobs:,} jobs: milliseconds\n")
        head = ["page", "first", "median", "worst"]
        print(table(head, rows))


if __name__ == "__main__":
    main()
