"""Groups with a callback, of several sizes: what the client and the worker need.

    python -m benchmarks.flow_sizes               # 1,000, 3,000 and 10,000 members
    python -m benchmarks.flow_sizes --stores sqlite,postgres --members 99999 \\
        --phases enqueue,cancel,retry,run,get

    python -m benchmarks.flow_sizes --beside 100000     # so many plain jobs beside a group

Each phase is a process of its own, so its CPU time and its peak memory are its own. If both are
linear, CPU per member and memory per member are about the same for all sizes."""

import argparse
import asyncio
import json
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from mita import Mita, Retry

from .chains import ENGINES
from .flow_beside import COMMAND, Starts, beside, serve

PHASES = ("enqueue", "run", "get", "cancel", "retry")
PLAIN_QUEUE = "plain"
CONTROL_QUEUE = "control"


def tasks(url: str, starts: Starts) -> Mita:
    """The app of the group."""
    app = Mita(url, retry=Retry(max_retries=0))

    @app.task(name="member")
    async def member(n: int) -> int:
        starts.add()
        return n

    @app.task(name="plain", queue=PLAIN_QUEUE)
    async def plain() -> None:
        starts.add()

    @app.task(name="total")
    async def total(numbers: list[int]) -> int:
        starts.add()
        return sum(numbers)

    return app


async def act(url: str, phase: str, members: int) -> None:
    """One phase of the group."""
    starts = Starts()
    async with tasks(url, starts) as app:
        if phase == "enqueue":
            member, total = app.tasks["member"], app.tasks["total"]
            await app.group([member.call(n) for n in range(members)]).then(total.call).enqueue()
        elif phase == "run":
            await run_flow(app)
        elif phase == "load":
            await app.enqueue_many([app.tasks["plain"].call()] * members)
        elif phase == "load-control":
            control = app.tasks["plain"].options(queue=CONTROL_QUEUE)
            await app.enqueue_many([control.call()] * members)
        elif phase == "drain-plain":
            await serve(app, starts, queues=[PLAIN_QUEUE])
        elif phase == "drain-others":
            await serve(app, starts, exclude=[PLAIN_QUEUE])
        else:
            [flow] = (await app.flows(limit=1)).flows
            await getattr(app.flow_run(flow.id), phase)()


async def run_flow(app: Mita) -> None:
    """Run a worker until the flow has ended. Raises if it did not succeed. A large flow that was
    retried ends some seconds after its last step."""
    [flow] = (await app.flows(limit=1)).flows
    worker = app.worker(exclude=[PLAIN_QUEUE])
    running = asyncio.ensure_future(worker.run())
    try:
        await app.flow_run(flow.id).wait()
    finally:
        worker.stop()
        await running


def role(url: str, phase: str, members: int) -> None:
    """What the process of a phase does; it prints what it needed."""
    wall, cpu = time.monotonic(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asyncio.run(act(url, phase, members))
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    used = {"cpu": time.process_time() - cpu, "wall": time.monotonic() - wall, "mb": more / 1024}
    print(json.dumps(used))


def measured(url: str, phase: str, members: int) -> dict[str, Any]:
    """The figures of one phase, from a process of its own."""
    command = [*COMMAND, url, phase, str(members)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(ran.stderr[-2000:])
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", default=",".join(ENGINES))
    parser.add_argument("--members", default="1000,3000,10000")
    parser.add_argument("--phases", default="enqueue,run,get", help=f"of {', '.join(PHASES)}")
    parser.add_argument("--beside", type=int, help="so many plain jobs beside each group")
    parser.add_argument("--rounds", type=int, default=3, help="of --beside")
    parser.add_argument("--role", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.role:
        role(chosen.role[0], chosen.role[1], int(chosen.role[2]))
        return
    if chosen.beside:
        for store in chosen.stores.split(","):
            engine = ENGINES[store]()
            for members in map(int, chosen.members.split(",")):
                beside(store, engine, members, chosen.beside, chosen.rounds)
            engine.close()
        return
    print("| store | members | phase | CPU s | CPU µs/member | peak MB more | s |")
    print("|---|---|---|---|---|---|---|")
    for store in chosen.stores.split(","):
        engine = ENGINES[store]()
        for members in map(int, chosen.members.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                place = engine.open(Path(folder))
                for phase in chosen.phases.split(","):
                    used = measured(place.url, phase, members)
                    cells = [store, f"{members:,}", phase, f"{used['cpu']:.2f}"]
                    cells += [f"{used['cpu'] * 1e6 / members:.0f}", f"{used['mb']:.1f}"]
                    cells.append(f"{used['wall']:.1f}")
                    print(f"| {' | '.join(cells)} |", flush=True)
                place.close()
        engine.close()


if __name__ == "__main__":
    main()
