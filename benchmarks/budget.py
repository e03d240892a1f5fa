"""python -m benchmarks.budget: where the microseconds of a job go, from claim to settled, stage by
stage, on each store.

    python -m benchmarks.budget --stores sqlite,redis --jobs 30000

Two drains in this process, one with a profiler on the event loop's thread and one without. The
profiler tells the shares of the stages; the CPU time without it tells what they add up to. Threads
of a store are read from their own clocks. Beside them the raw loop of the engine, which has neither
tasks nor tokens: the difference is the cost of the guarantees."""

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from mita import Mita

from .markdown import filled, table
from .processes import cpu
from .raw import RAW, Ask, Phase
from .servers import STORES, Engine, NoServer, start
from .worker_app import TEXT

STAGES: dict[str, tuple[str, ...]] = {
    "store: encode, decode, send": ("/mita/stores/", "/mita/model/"),
    "database driver": (
        "/redis/",
        "/hiredis/",
        "/psycopg",
        "/nats/",
        "/nkeys/",
        "sqlite3",
        "/socket",
        "/ssl",
    ),
    "arguments and result": ("/mita/tasks/", "msgspec"),
    "claim loop, executor, rules": (
        "/mita/engine/claim_loop",
        "/mita/engine/executor",
        "/mita/engine/execution",
        "/mita/rules/",
    ),
    "calling the handler": ("/mita/engine/run", "/mita/engine/outcomes"),
    "the handler": ("budget.py",),
}
_ROOT = Path(__file__).parent.parent
PAGE = _ROOT / "docs" / "inside" / "speed.md"
REST = "event loop, tasks, contexts"
OTHER = "store's own threads"
SERVER = "server"


class Bill(Struct):
    """Microseconds of CPU for one job, by stage, and those of the raw loop of the engine, if it
    has one."""

    store: str
    stages: dict[str, float]
    rate: float
    raw: Phase | None


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.budget", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--stores", default="sqlite,redis,postgres,nats", help=f"some of {', '.join(STORES)}"
    )
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument(
        "--page", action="store_true", help=f"put the table into {PAGE.relative_to(_ROOT)}"
    )
    options = parser.parse_args()
    bills = []
    for store in options.stores.split(","):
        if store not in STORES:
            parser.exit(2, f"budget: no store {store!r}: choose from {', '.join(STORES)}\n")
        try:
            bills.append(bill(store, options.jobs))
        except NoServer as error:
            print(f"{store}: {error}", file=sys.stderr)
    print(shown(bills))
    if options.page:
        PAGE.write_text(filled(PAGE.read_text(), {"budget": shown(bills)}))


def bill(store: str, jobs: int) -> Bill:
    engine = start(store, "everysec")
    try:
        shares, *_ = _drain(engine, jobs, cProfile.Profile())
        _, seconds, own, all_threads, server = _drain(engine, jobs, None)
        raw = _raw(engine, store, jobs) if store in RAW else None
    finally:
        engine.close()
    each = 1e6 / jobs
    stages = {stage: share * own * each for stage, share in shares.items()}
    return Bill(
        store,
        stages | {OTHER: (all_threads - own) * each, SERVER: server * each},
        jobs / seconds,
        raw,
    )


def _raw(engine: Engine, store: str, jobs: int) -> Phase:
    run: Callable[[Ask], dict[str, Phase]] = import_module(f"{__package__}.raw.{store}").run
    with tempfile.TemporaryDirectory() as folder:
        place = engine.open(Path(folder))
        try:
            return run(Ask(url=place.url, jobs=jobs, seconds=0, server=place.pid))["drain"]
        finally:
            place.close()


Reading = tuple[dict[str, float], float, float, float, float]


def _drain(engine: Engine, jobs: int, profiler: cProfile.Profile | None) -> Reading:
    with tempfile.TemporaryDirectory() as folder:
        place = engine.open(Path(folder))
        try:
            return _run(_work(place.url, place.pid, jobs, profiler))
        finally:
            place.close()


def _run(work: Coroutine[Any, Any, Reading]) -> Reading:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


async def _work(url: str, pid: int | None, jobs: int, profiler: cProfile.Profile | None) -> Reading:
    """Return the shares of the stages, the seconds, and the CPU time of this thread, of all our
    threads, and of the server."""
    done, count = asyncio.Event(), 0
    app = Mita(url, keep=0)

    @app.task(name="noop")
    async def noop(i: int, text: str) -> None:  # noqa: ARG001 - a job has arguments
        nonlocal count
        count += 1
        if count == jobs:
            done.set()

    for first in range(0, jobs, 1000):
        await app.enqueue_many([noop.call(i, TEXT) for i in range(first, min(first + 1000, jobs))])
    worker = app.worker(concurrency=100)
    before = time.perf_counter(), time.thread_time(), time.process_time(), cpu(pid) if pid else 0.0
    running = asyncio.ensure_future(worker.run())
    if profiler is not None:
        profiler.enable()
    await done.wait()
    if profiler is not None:
        profiler.disable()
    after = time.perf_counter(), time.thread_time(), time.process_time(), cpu(pid) if pid else 0.0
    worker.stop()
    await running
    await app.close()
    seconds, own, threads, server = (end - begin for begin, end in zip(before, after, strict=True))
    return _shares(profiler) if profiler else {}, seconds, own, threads, server


def _shares(profiler: cProfile.Profile) -> dict[str, float]:
    """Which share of the thread's time each stage took by itself. A built-in function counts for
    its caller."""
    spent = dict.fromkeys((*STAGES, REST), 0.0)
    for (file, _, name), (_, _, own, _, callers) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        if file != "~":
            spent[_stage(file)] += own
            continue
        for (calling, *_), (*_, part, _) in callers.items():
            spent[_stage(name if calling == "~" else calling)] += part
    total = sum(spent.values())
    return {stage: part / total for stage, part in spent.items()}


def _stage(file: str) -> str:
    return next(
        (stage for stage, places in STAGES.items() if any(place in file for place in places)), REST
    )


def shown(bills: list[Bill]) -> str:
    rows = [
        [
            stage,
            *(f"{bill.stages[stage]:.1f}" if bill.stages[stage] >= 0.05 else "" for bill in bills),
        ]
        for stage in (*STAGES, REST, OTHER, SERVER)
    ]
    rows.append(["total", *(f"{sum(bill.stages.values()):.1f}" for bill in bills)])
    rows.append(["jobs per second in that run", *(f"{bill.rate:,.0f}" for bill in bills)])
    raws = [bill.raw for bill in bills]
    rows.append(
        [
            "raw loop: its process",
            *(_each(raw, raw.cpu) if raw else "" for raw in raws),
        ]
    )
    rows.append(
        [
            "raw loop: server",
            *(_each(raw, raw.server_cpu) if raw else "" for raw in raws),
        ]
    )
    rows.append(
        [
            "jobs per second of the raw loop",
            *(f"{raw.rate:,.0f}" if raw else "" for raw in raws),
        ]
    )
    return table(["µs of CPU per job", *(bill.store for bill in bills)], rows)


def _each(phase: Phase, seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / phase.jobs * 1e6:.1f}"


if __name__ == "__main__":
    main()
