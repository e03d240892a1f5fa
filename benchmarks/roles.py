"""What the processes of a run do: load jobs, work, enqueue for a fixed time, count what is left.
`python -m benchmarks.roles ROLE BRIEF`; BRIEF is a `Brief` as JSON."""

# ruff: noqa: ASYNC110  (what is waited for happens in other processes)

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from mita import JobEvent, Mita, MitaError
from mita.cli.gc_tuning import freeze_startup_objects

from . import looks
from .firing import fire_many
from .loading import BULK_JOBS, Load, Loader
from .record import GATE, MISSED, Record
from .worker_app import QUEUE, TEXT, build, maker

_ORPHAN = 1.0  # between two checks whether the parent process is alive


class Brief(Struct, frozen=True, kw_only=True):
    url: str
    record: str = ""
    jobs: int = 0
    keep: float = 0.0
    loads: list[Load] = []
    beside: str = ""  # a producer that runs in the process of the worker
    task: str = "noop"
    watched: str = ""  # which of WATCHED are switched on
    number: int = 0
    concurrency: int = 100
    threads: int = 16
    core: int | None = None
    seconds: float = 1.0
    most: int = 0
    seed: int = 1


class Stage:
    """What a role works with."""

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.record = Record(Path(brief.record), brief.jobs)
        self.app, self.tasks = build(brief.url, brief.keep, self.record)
        self.subscriber: asyncio.Task[None] | None = None


Role = Callable[[Stage], Coroutine[Any, Any, object]]


async def load(stage: Stage) -> None:
    loader = Loader(stage.app, stage.tasks, stage.record, stage.brief.jobs)
    for each in stage.brief.loads:
        await loader.load(each)


async def work(stage: Stage) -> object:
    """Run a worker until SIGTERM. With `loads` and `beside` it is the only process of its store,
    and prints what is left in it."""
    brief, record = stage.brief, stage.record
    await load(stage)
    watch(stage)
    worker = stage.app.worker([QUEUE], concurrency=brief.concurrency, threads=brief.threads)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    freeze_startup_objects()  # as `mita worker` does
    record.ready(brief.number)
    while not record.head[GATE]:
        await asyncio.sleep(0.001)
    producer = asyncio.create_task(ROLES[brief.beside](stage)) if brief.beside else None
    await worker.run()
    if producer is not None:
        await producer
    return await left(stage.app) if brief.loads or brief.beside else None


WATCHED = ("metrics", "listener", "events")


def watch(stage: Stage) -> None:
    """Switch on what is asked for. The subscriber to events is a separate process, or a
    task if there can be only one process."""
    if "metrics" in stage.brief.watched:
        stage.app.metrics(CollectorRegistry())
    if "listener" in stage.brief.watched:
        stage.app.listen(looker(stage))
    if "events" in stage.brief.watched and stage.brief.loads:
        stage.subscriber = asyncio.create_task(subscribe(stage))


def looker(stage: Stage) -> Callable[[list[JobEvent]], None]:
    """A listener that reads each event. It reports lost events, because losing some is cheaper."""

    def look(events: list[JobEvent]) -> None:
        for event in events:
            if event.kind == "missed":
                stage.record.head[MISSED] += event.count

    return look


async def subscribe(stage: Stage) -> None:
    """Subscribe to events in a separate process, until it is stopped."""
    look = looker(stage)
    async with stage.app.events() as events:
        stage.record.ready(stage.brief.number)
        async for event in events:
            look([event])


async def left(app: Mita) -> dict[str, int]:
    return (await app.counts()).get(QUEUE, {})


async def count(stage: Stage) -> object:
    return await left(stage.app)


# ---------------------------------------------------------------- enqueue against the clock


async def one(stage: Stage) -> object:
    """Enqueue one job after the other, and record how long each call took."""
    task, clock = stage.tasks["noop"], time.perf_counter
    took: list[float] = []
    for i in range(50):
        await task.enqueue(i, TEXT)
    cpu, began = time.process_time(), clock()
    before = began
    while before - began < stage.brief.seconds:
        await task.enqueue(len(took), TEXT)
        after = clock()
        took.append((after - before) * 1e3)
        before = after
    return {
        "jobs": len(took),
        "seconds": before - began,
        "cpu": time.process_time() - cpu,
        "took": sorted(took)[:: len(took) // 999 or 1],
    }


async def bulk(stage: Stage) -> object:
    """Enqueue a thousand jobs at a time; building the calls is included."""
    make = maker(stage.tasks, "noop")
    await stage.app.enqueue_many([make(i) for i in range(BULK_JOBS)])
    cpu, began, jobs = time.process_time(), time.perf_counter(), 0
    while time.perf_counter() - began < stage.brief.seconds and jobs < stage.brief.most:
        await stage.app.enqueue_many([make(i) for i in range(jobs, jobs + BULK_JOBS)])
        jobs += BULK_JOBS
    return {"jobs": jobs, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}


# ---------------------------------------------------------------- one job now and then


async def _ran(record: Record, place: int) -> None:
    async with asyncio.timeout(30):
        while not record.count[place]:
            await asyncio.sleep(0.01)


async def _warm(stage: Stage, enqueue: Callable[[int], Awaitable[Any]]) -> random.Random:
    for k in range(1, 4):
        await enqueue(stage.brief.jobs + k)
        await _ran(stage.record, stage.brief.jobs + k)
    await asyncio.sleep(0.3)
    return random.Random(stage.brief.seed)


async def pickup(stage: Stage) -> None:
    """Enqueue single jobs at random intervals, for an idle worker."""
    task, record = stage.tasks["noop"], stage.record
    chance = await _warm(stage, lambda i: task.enqueue(i, TEXT))
    for i in range(stage.brief.jobs):
        await asyncio.sleep(chance.uniform(0.050, 0.150))
        record.due[i] = time.time_ns()
        await task.enqueue(i, TEXT)


async def timer(stage: Stage) -> None:
    """Enqueue jobs that are due at random times one to three seconds later, in whole
    milliseconds as stores keep them."""
    task, record = stage.tasks["noop"], stage.record
    chance = await _warm(stage, lambda i: task.after(0.2).enqueue(i, TEXT))
    for i in range(stage.brief.jobs):
        await asyncio.sleep(chance.uniform(0.020, 0.080))
        due = time.time_ns() // 1_000_000 + chance.randrange(1000, 3000)
        record.due[i] = due * 1_000_000
        await task.at(datetime.fromtimestamp(due / 1000, UTC)).enqueue(i, TEXT)


async def repeats(stage: Stage) -> object:
    """Fire `most` repeats of one second on one scheduler; no worker runs their jobs."""
    brief = stage.brief
    return await fire_many(
        stage.app, stage.tasks["noop"].call(0, TEXT), brief.most, brief.seconds, brief.seed
    )


async def look(stage: Stage) -> object:
    return await looks.look(stage.app)


async def amend(stage: Stage) -> object:
    return await looks.amend(stage.app, stage.brief.most)


async def bloat(stage: Stage) -> object:
    """Process `most` jobs of one task while few wait; `beside`: another session keeps an old
    snapshot open."""
    from .bloat import move_through  # it needs the driver

    brief = stage.brief
    make = maker(stage.tasks, brief.task)
    return await move_through(
        stage.app, make, stage.record, brief.most, brief.url if brief.beside else None
    )


ROLES: dict[str, Role] = {
    "load": load,
    "work": work,
    "count": count,
    "subscribe": subscribe,
    "one": one,
    "bulk": bulk,
    "pickup": pickup,
    "timer": timer,
    "repeats": repeats,
    "look": look,
    "amend": amend,
    "bloat": bloat,
}


async def _leave_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(_ORPHAN)
    os._exit(1)


async def act(role: str, brief: Brief) -> None:
    watch = asyncio.create_task(_leave_with_parent())
    stage = Stage(brief)
    async with stage.app:
        answer = await ROLES[role](stage)
    watch.cancel()
    print(msgspec.json.encode(answer).decode(), flush=True)


def main() -> None:
    role, brief = sys.argv[1], msgspec.json.decode(sys.argv[2], type=Brief)
    if brief.core is not None:
        os.sched_setaffinity(0, {brief.core})
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            runner.run(act(role, brief))
    except MitaError as error:
        sys.exit(str(error))


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop if it is installed, as in `mita worker`."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


if __name__ == "__main__":
    main()
