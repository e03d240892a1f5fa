"""What the processes of a test run: a worker or a producer, as its settings say. Each records what
happens to it."""

import asyncio
import logging
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mita import rules
from mita.client import flow_run
from mita.engine.executor import Executor
from mita.engine.scheduler import Scheduler
from mita.flows import patrol
from mita.stores.sqlite import connection

from . import points
from .jobs import Here, Works, gate
from .record import Record

SIGNALS_OF_ONE_PROCESS = 1_000_000  # at most; the values of two processes differ
LARGEST_BATCH = 40  # jobs that a producer enqueues in one call


class Settings(Struct, frozen=True, kw_only=True):
    """`point` is where the process kills itself. `deaf`: it never learns that a lease is lost, so
    only the store can refuse its writes.

    `leads`: it fires repeats without holding the lock. `busy`: seconds that SQLite waits for a
    lock. `numbers`: the numbers of the jobs that a producer enqueues. `signals`: the jobs and
    signals that a signaller sends, `ms` apart. `patrol_ms`: how often flows are looked after, and
    when one is given up that was not stored whole. `stored_at_once`: jobs of a flow that a planner
    stores in one call."""

    role: Literal["worker", "producer", "rivals", "openers", "signaller", "planner"]
    who: int
    url: str
    record: str
    gate: str
    worker: dict[str, Any] = {}
    app: dict[str, Any] | None = None
    point: str = ""
    deaf: bool = False
    leads: bool = False
    busy: float | None = None
    numbers: tuple[int, int] = (0, 0)
    ms: int = 0
    signals: list[tuple[str, int]] = []
    patrol_ms: int = 0
    stored_at_once: int = 1000


def main(packed: bytes) -> None:
    settings = msgspec.json.decode(packed, type=Settings)
    Here.record, Here.gate = Record(Path(settings.record), settings.who), Path(settings.gate)
    logging.getLogger().addHandler(_Warnings(logging.WARNING))
    if settings.point:
        points.arm(settings.point)
    if settings.deaf:
        Executor.lose = lambda *_: None  # type: ignore[method-assign]
    if settings.leads:
        Scheduler._lead = _always  # type: ignore[method-assign]
    if settings.busy is not None:
        connection.BUSY_TIMEOUT_S = settings.busy
    if settings.patrol_ms:
        look_after_flows(settings.patrol_ms)
    try:
        asyncio.run(_ROLES[settings.role](settings))
    except Exception:  # noqa: BLE001 - the test reads it
        Here.record.write("error", text=traceback.format_exc())
        sys.exit(1)


def look_after_flows(ms: int) -> None:
    """Let flows look after their steps so often, from now on in this process."""
    rules.flow._FIRST_PATROL = ms
    rules.flow._LONGEST_PATROL = 2 * ms
    patrol.ABANDONED = 2 * ms


async def _always(self: Scheduler) -> bool:
    return True


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage() + (f"\n{traceback.format_exc()}" if record.exc_info else "")
        Here.record.write(
            "warning" if record.levelno < logging.ERROR else "alarm", text=text, how=record.name
        )


async def _work(settings: Settings) -> None:
    worker = Works(settings.url, settings.app).app.worker(**settings.worker)

    def stop() -> None:
        worker.stop()
        Here.record.write("signal")

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    Here.record.write("ready", text=worker.id)
    await worker.run()
    Here.record.write("gone")


async def _produce(settings: Settings) -> None:
    """Enqueue single jobs and batches in turn."""
    works = Works(settings.url, settings.app)
    first, last = settings.numbers
    await _gate()
    async with works.app:
        while first < last:
            batch = range(first, min(last, first + 1 + first % LARGEST_BATCH))
            handles = await works.app.enqueue_many([works.nap.call(n, settings.ms) for n in batch])
            for n, handle in zip(batch, handles, strict=True):
                Here.record.write("enqueued", n=n, job=handle.id)
            first = batch.stop
    Here.record.write("gone")


async def _rival(settings: Settings) -> None:
    """Enqueue the same unique jobs as the other processes, at the same time."""
    works = Works(settings.url, settings.app)
    async with works.app:
        Here.record.write("ready")
        await _gate()
        for n in range(*settings.numbers):
            handle = await works.nap.options(unique=f"job-{n}").enqueue(n)
            Here.record.write("enqueued", n=n, job=handle.id, created=handle.created)
    Here.record.write("gone")


async def _open(settings: Settings) -> None:
    """Open many new stores, each at the same time as the other processes."""
    moment = await _gate()
    for n in range(*settings.numbers):
        await asyncio.sleep(moment + n * settings.ms / 1000 - time.monotonic())
        async with Works(settings.url.format(n=n), settings.app).app as app:
            await app.counts()
    Here.record.write("gone")


async def _signal(settings: Settings) -> None:
    """Send signals, each with a value of its own, and write down the answers."""
    async with Works(settings.url, settings.app).app as app:
        Here.record.write("ready")
        for n, (id, place) in enumerate(settings.signals):
            value = settings.who * SIGNALS_OF_ONE_PROCESS + n
            answer = await app.signal(id, f"s{place}", value)
            Here.record.write("signalled", job=id, how=f"{place}:{value}", text=answer.value)
            await asyncio.sleep(settings.ms / 1000)
    Here.record.write("gone")


async def _plan(settings: Settings) -> None:
    """Enqueue one flow: a chain beside a single step."""
    flow_run.CALL_JOBS = settings.stored_at_once  # type: ignore[attr-defined]
    works = Works(settings.url, settings.app)
    first, last = settings.numbers
    flow = works.app.flow("planned")
    before = flow.add(works.flow_step.call(first, "ok"))
    for n in range(first + 1, last - 1):
        before = flow.add(works.flow_step.call(n, "ok", flow.results([before])))
    flow.add(works.flow_step.call(last - 1, "ok"))
    async with works.app:
        run = await flow.enqueue()
        Here.record.write("enqueued", job=run.id)
    Here.record.write("gone")


_ROLES = {
    "worker": _work,
    "producer": _produce,
    "rivals": _rival,
    "openers": _open,
    "signaller": _signal,
    "planner": _plan,
}


async def _gate() -> float:
    """Wait for the point in time that the file of the gate names."""
    await gate()
    moment = float(Here.gate.read_text())
    await asyncio.sleep(moment - time.monotonic())
    return moment


def open_gate(path: Path, delay: float = 0.05) -> None:
    """Let all processes pass at one point in time, `delay` from now. The file appears complete
    or not at all."""
    draft = path.with_suffix(".draft")
    draft.write_text(str(time.monotonic() + delay))
    draft.replace(path)
