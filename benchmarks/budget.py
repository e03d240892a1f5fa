"""python -m benchmarks.budget: where the microseconds of a job go, from claim to settled, stage by
stage, on each store.

    python -m benchmarks.budget --stores sqlite,redis --jobs 30000
    python -m benchmarks.budget --paths retries,keys

A path is a kind of job: one that runs once, fails once, moves once, has a key, and so on. Each path
is drained twice in this process, once with a profiler on the event loop's thread and once without.
The profiler tells the shares of the stages; the CPU time without it tells what they add up to.
Threads of a store are read from their own clocks. Beside them is the raw loop of the engine, which
has neither tasks nor tokens: the difference is the cost of the guarantees."""

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

from .loading import Load, Loader
from .markdown import filled, table
from .processes import cpu
from .raw import RAW, Ask, Phase
from .record import Record
from .servers import STORES, Engine, NoServer, Place, start
from .worker_app import build

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
    "flows: arrivals, releases": ("/mita/flows/", "/mita/engine/flow_runs"),
    "calling the handler": ("/mita/engine/run", "/mita/engine/outcomes"),
    "the handler": ("/benchmarks/",),
}
_ROOT = Path(__file__).parent.parent
PAGE = _ROOT / "docs" / "inside" / "speed.md"
PLAIN = "plain"
PATHS = {  # the task of each path, and how often its jobs run
    PLAIN: ("noop", 1),
    "retries": ("fail_once", 2),
    "reschedules": ("move_once", 2),
    "keys": ("keyed", 1),
    "rates": ("rated", 1),
    "fair": ("fair", 1),
    "chains": ("chain", 1),
    "groups": ("group", 1),
}
_LOOK_EVERY_S = 0.01
_LEAST_US = 0.05  # that is shown
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
    parser.add_argument("--paths", default=",".join(PATHS), help=f"some of {', '.join(PATHS)}")
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument(
        "--page", action="store_true", help=f"put the tables into {PAGE.relative_to(_ROOT)}"
    )
    options = parser.parse_args()
    stores, paths = options.stores.split(","), options.paths.split(",")
    for name, known in (*((one, STORES) for one in stores), *((one, PATHS) for one in paths)):
        if name not in known:
            parser.exit(2, f"budget: there is no {name!r}: choose from {', '.join(known)}\n")
    bills: dict[str, list[Bill]] = {path: [] for path in paths}
    for store in stores:
        try:
            engine = start(store, "everysec")
        except NoServer as error:
            print(f"{store}: {error}", file=sys.stderr)
            continue
        try:
            for path in paths:
                bills[path].append(bill(store, engine, path, options.jobs))
        finally:
            engine.close()
    for path, found in bills.items():
        print(f"{path}\n\n{shown(found)}\n")
    if options.page:
        parts = {_mark(path): shown(found) for path, found in bills.items()}
        PAGE.write_text(filled(PAGE.read_text(), parts))


def _mark(path: str) -> str:
    """The mark of a path's table in the page."""
    return "budget" if path == PLAIN else f"budget-{path}"


def bill(store: str, engine: Engine, path: str, jobs: int) -> Bill:
    """What a job of this path costs on a store. Only the plain path needs all jobs for a steady
    reading."""
    jobs = jobs if path == PLAIN else jobs // 3
    shares, *_ = _drain(engine, path, jobs, cProfile.Profile())
    _, seconds, own, all_threads, server = _drain(engine, path, jobs, None)
    raw = _raw(engine, store, jobs) if store in RAW and path == PLAIN else None
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


def _drain(engine: Engine, path: str, jobs: int, profiler: cProfile.Profile | None) -> Reading:
    with tempfile.TemporaryDirectory() as folder:
        place = engine.open(Path(folder))
        record = Record(Path(folder) / "record", jobs, create=True)
        try:
            return _run(_work(place, record, path, profiler))
        finally:
            record.close()
            place.close()


def _run(work: Coroutine[Any, Any, Reading]) -> Reading:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


async def _work(
    place: Place, record: Record, path: str, profiler: cProfile.Profile | None
) -> Reading:
    """Return the shares of the stages, the seconds, and the CPU time of this thread, of all our
    threads, and of the server."""
    app, tasks = build(place.url, 0.0, record)
    task, runs = PATHS[path]
    await Loader(app, tasks, record, record.jobs).load(Load(jobs=record.jobs, task=task))
    worker = app.worker(concurrency=100)
    before = _clocks(place.pid)
    running = asyncio.ensure_future(worker.run())
    if profiler is not None:
        profiler.enable()
    while record.done(0, record.jobs, runs) < record.jobs:  # noqa: ASYNC110 - handlers count in a map
        await asyncio.sleep(_LOOK_EVERY_S)
    if profiler is not None:
        profiler.disable()
    after = _clocks(place.pid)
    worker.stop()
    await running
    await app.close()
    seconds, own, threads, server = (end - begin for begin, end in zip(before, after, strict=True))
    return _shares(profiler) if profiler else {}, seconds, own, threads, server


def _clocks(pid: int | None) -> tuple[float, float, float, float]:
    server = cpu(pid) if pid else 0.0
    return time.perf_counter(), time.thread_time(), time.process_time(), server


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
            *(
                f"{bill.stages[stage]:.1f}" if bill.stages[stage] >= _LEAST_US else ""
                for bill in bills
            ),
        ]
        for stage in (*STAGES, REST, OTHER, SERVER)
        if any(bill.stages[stage] >= _LEAST_US for bill in bills)
    ]
    rows.append(["total", *(f"{sum(bill.stages.values()):.1f}" for bill in bills)])
    rows.append(["jobs per second in that run", *(f"{bill.rate:,.0f}" for bill in bills)])
    if any(bill.raw for bill in bills):
        rows += _raw_rows([bill.raw for bill in bills])
    return table(["µs of CPU per job", *(bill.store for bill in bills)], rows)


def _raw_rows(raws: list[Phase | None]) -> list[list[str]]:
    return [
        ["raw loop: its process", *(_each(raw, raw.cpu) if raw else "" for raw in raws)],
        ["raw loop: server", *(_each(raw, raw.server_cpu) if raw else "" for raw in raws)],
        [
            "jobs per second of the raw loop",
            *(f"{raw.rate:,.0f}" if raw else "" for raw in raws),
        ],
    ]


def _each(phase: Phase, seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / phase.jobs * 1e6:.1f}"


if __name__ == "__main__":
    main()
