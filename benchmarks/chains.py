"""Chains, and groups with a callback, beside other queues in one run.

    python -m benchmarks.chains                 # all, three times, about ten minutes
    python -m benchmarks.chains --quick --systems mita-sqlite,celery

Each system has one worker process, which is idle when the first job is enqueued. Timed is from the
first enqueue until the last job of every chain (or the callback) has run. Peers are installed into
environments of their own, which are kept in `build/chains`. All Redis servers are without RDB and
AOF; the other stores are as durable as in `make bench`. Compare figures of one run only."""

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from .markdown import table
from .servers import Engine, Nats, NoServer, Postgres, Redis, Sqlite

SCRIPTS = Path(__file__).parent / "chain_peers"
BUILD = Path("build/chains")
LINKS = 10
STOP_TIMEOUT_S = 20.0
WORKER_START_S = 3.0  # until a worker has surely imported its code and connected


class System(NamedTuple):
    """A queue on an engine. `requirements` are those of its environment; none: this one. A script
    that ends with `.cjs` is run by Node, and its requirements are packages of npm."""

    engine: str
    script: str
    requirements: tuple[str, ...] = ()

    @property
    def is_node(self) -> bool:
        """Whether Node runs it."""
        return self.script.endswith(".cjs")


REDIS_PY = ("redis==8.1.0", "hiredis==3.5.0")
SYSTEMS = {
    "mita-sqlite": System("sqlite", "mita_chains.py"),
    "mita-postgres": System("postgres", "mita_chains.py"),
    "mita-redis": System("redis", "mita_chains.py"),
    "mita-nats": System("nats", "mita_chains.py"),
    "celery": System(
        "redis", "celery_chains.py", ("celery[redis]==5.7.0", "kombu==5.7.0", *REDIS_PY)
    ),
    "dramatiq": System("redis", "dramatiq_chains.py", ("dramatiq==2.2.1", *REDIS_PY)),
    "rq": System("redis", "rq_chains.py", ("rq==2.12.0", *REDIS_PY)),
    "bullmq": System("redis", "bullmq_chains.cjs", ("bullmq@6.7.0", "ioredis@6.0.0")),
}
ENGINES: dict[str, Callable[[], Engine]] = {
    "sqlite": Sqlite,
    "postgres": Postgres,
    "redis": lambda: Redis("no"),
    "nats": Nats,
}


def interpreter_of(name: str, system: System) -> str:
    """The program that runs the scripts of a system. Its environment is made once."""
    if not system.requirements:
        return sys.executable
    folder = (BUILD / name).absolute()
    program = "node" if system.is_node else str(folder / "bin/python")
    if not (folder / "ok").exists():
        if system.is_node:
            folder.mkdir(parents=True, exist_ok=True)
            install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix"]
            subprocess.run([*install, str(folder), *system.requirements], check=True)
        else:
            venv.create(folder, clear=True, with_pip=True)
            install = [str(folder / "bin/pip"), "install", "-q", "--no-input"]
            subprocess.run([*install, *system.requirements], check=True)
        (folder / "ok").write_text("\n".join(system.requirements))
    return program


@contextmanager
def worker(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    """A worker process of its own session; it is stopped with its children."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=SCRIPTS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(WORKER_START_S)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"the worker ended with {process.returncode}: {command}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(name: str, engine: Engine, workload: str, count: int) -> dict[str, Any]:
    """One measurement: steps per second, and CPU of worker and loader in ms per step."""
    system = SYSTEMS[name]
    program, script = interpreter_of(name, system), str(SCRIPTS / system.script)
    with tempfile.TemporaryDirectory() as folder:
        place = engine.open(Path(folder))
        try:
            environment = {
                **os.environ,
                "CHAINS_URL": place.url,
                "CHAINS_FILE": f"{folder}/done",
                "CHAINS_LINKS": str(LINKS),
                "NODE_PATH": str((BUILD / name / "node_modules").absolute()),
            }
            before = cpu_of_children()
            with worker([program, script, "work", "0"], environment):
                load = [program, script, workload, str(count)]
                ran = subprocess.run(
                    load, env=environment, cwd=SCRIPTS, capture_output=True, text=True, check=False
                )
            if ran.returncode:
                raise RuntimeError(f"{name}: {ran.stderr[-2000:]}")
        finally:
            place.close()
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    steps = count * LINKS if workload == "chain" else count + 1
    return {
        **found,
        "rate": steps / found["seconds"],
        "cpu_ms": (cpu_of_children() - before) * 1000 / steps,
    }


Runs = dict[str, dict[str, list[dict[str, Any]]]]  # by system and workload
WORKLOADS = {"chain": f"chains of {LINKS}", "group": "group with a callback"}


def medians(figures: Runs) -> str:
    """The medians as a table in Markdown."""
    head = [cell for one in WORKLOADS.values() for cell in (f"{one}: steps/s", "CPU per step")]
    rows = []
    for name, by_workload in figures.items():
        cells = [f"**{name}**" if name.startswith("mita") else name]
        for workload in WORKLOADS:
            runs = by_workload.get(workload, [])
            wrong = "" if all(run["ok"] for run in runs) else " (!)"
            for key, shape in (("rate", "{:,.0f}"), ("cpu_ms", "{:.2f} ms")):
                median = statistics.median(run[key] for run in runs) if runs else None
                cells.append("-" if median is None else shape.format(median) + wrong)
        rows.append(cells)
    return table(["", *head], rows)


def readings(figures: Runs) -> str:
    """All readings as a table in Markdown."""
    rows = [
        [
            name,
            *(" · ".join(f"{run['rate']:,.0f}" for run in found.get(one, ())) for one in WORKLOADS),
        ]
        for name, found in figures.items()
    ]
    return table(["steps/s", *WORKLOADS.values()], rows)


def main() -> None:
    """Measure the systems by turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--chains", type=int, default=300)
    parser.add_argument("--members", type=int, default=3000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="20 chains, 200 members, once")
    parser.add_argument("--json", default=str(BUILD / "chains.json"))
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.chains, chosen.members, chosen.repeat = 20, 200, 1
    names = chosen.systems.split(",")
    if unknown := set(names) - SYSTEMS.keys():
        parser.error(f"no system {', '.join(sorted(unknown))}: there are {', '.join(SYSTEMS)}")
    BUILD.mkdir(parents=True, exist_ok=True)
    figures: Runs = {name: {} for name in names}
    engines: dict[str, Engine] = {}
    for turn in range(chosen.repeat):
        for name in names:
            if SYSTEMS[name].is_node and shutil.which("npm") is None:
                print(f"{name}: needs node and npm, which are not installed", file=sys.stderr)
                continue
            kind = SYSTEMS[name].engine
            try:
                engine = engines[kind] = engines.get(kind) or ENGINES[kind]()
            except NoServer as error:
                print(f"{name}: no server: {error}", file=sys.stderr)
                continue
            for workload, count in (("chain", chosen.chains), ("group", chosen.members)):
                found = measured(name, engine, workload, count)
                figures[name].setdefault(workload, []).append(found)
                print(turn + 1, name, workload, f"{found['rate']:,.0f}/s", file=sys.stderr)
            Path(chosen.json).write_text(json.dumps(figures, indent=1))
    for engine in engines.values():
        engine.close()
    print(medians(figures))
    print()
    print(readings(figures))


if __name__ == "__main__":
    main()
