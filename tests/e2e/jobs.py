"""The jobs of these tests. Each writes down when it starts, when its one effect is done, and how it
ends."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from mita import Job, Key, Mita, Rate, Reschedule, Retry

from .record import Record

QUICK = Retry(max_retries=20, base=0.05, cap=0.2, max_crashes=1000)
TWO_RETRIES = Retry(max_retries=2, base=0.05, cap=0.2, max_crashes=1000)
POISON = Retry(base=0.2, cap=0.4, max_crashes=1)
RATE = Rate(200, per=1, burst=20)
KEY_RATE = Rate(20, per=1, key="host:{key}", burst=3)
# the checker needs to see every job
KEPT: dict[str, Any] = {"keep": 86_400, "keep_most": 1_000_000_000, "retry": QUICK}


class Here:
    """What the handlers of this process use: where to write, and the files that let a waiting
    handler continue."""

    record: Record
    gate: Path
    flow_step: Any  # the task, for steps that a handler adds
    deadly: str = ""  # the kill point of this process, if it lies in a handler


def note(what: str, job: Job, n: int, how: str = "") -> None:
    claim = job._claim
    Here.record.write(
        what,
        n=n,
        job=job.id,
        token=job.token,
        attempt=job.attempt,
        task=job.task,
        key=claim.resource,
        due=claim.due,
        at=claim.at,
        how=how,
    )


def die(why: str) -> None:
    """End the process as a power cut would: without any cleanup."""
    Here.record.write("dying", how=why)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def on_record(job: Job, n: int) -> Iterator[None]:
    note("start", job, n)
    if Here.deadly == "run.start":
        die(Here.deadly)
    try:
        yield
    except BaseException as error:
        note("end", job, n, type(error).__name__)
        raise
    note("end", job, n, "returned")


def effect(job: Job, n: int) -> int:
    """The effect of the job. Its result names the run that made it."""
    note("effect", job, n)
    if Here.deadly == "run.effect":
        die(Here.deadly)
    return job.token


# ---------------------------------------------------------------- plain ones


async def nap(job: Job, n: int, ms: int = 0) -> int:
    with on_record(job, n):
        await asyncio.sleep(ms / 1000)
        return effect(job, n)


def thread_nap(job: Job, n: int, ms: int = 0) -> int:
    with on_record(job, n):
        time.sleep(ms / 1000)
        return effect(job, n)


async def keyed(job: Job, n: int, key: str, ms: int = 0) -> int:
    with on_record(job, n):
        await asyncio.sleep(ms / 1000)
        return effect(job, n)


async def rated_key(job: Job, n: int, key: str, ms: int = 0) -> int:
    return await keyed(job, n, key, ms)


async def two_keys(job: Job, n: int, key: str, ms: int = 0) -> int:
    return await keyed(job, n, key, ms)


async def fair(job: Job, n: int, key: str, ms: int = 0) -> int:
    return await keyed(job, n, key, ms)


async def tick(job: Job) -> int:
    """The job that repeats create."""
    with on_record(job, -1):
        return effect(job, -1)


async def noop() -> None:
    """Do nothing, and write no line: for counting hundreds of thousands of jobs."""


# ---------------------------------------------------------------- jobs that do not simply return


async def flaky(job: Job, n: int, failures: int, ms: int = 0) -> int:
    with on_record(job, n):
        await asyncio.sleep(ms / 1000)
        if job.attempt <= failures:
            raise RuntimeError(f"failure {job.attempt} of {failures}")
        return effect(job, n)


async def moving(job: Job, n: int, times: int, ms: int = 0) -> int:
    with on_record(job, n):
        await asyncio.sleep(ms / 1000)
        if job.reschedules < times:
            raise Reschedule(after=0.05)
        return effect(job, n)


def doomed(job: Job, n: int, ms: int = 0) -> int:
    with on_record(job, n):
        time.sleep(ms / 1000)
        raise RuntimeError("always")


async def poison(job: Job, n: int) -> int:
    with on_record(job, n):
        die("poison")
        return effect(job, n)


# ---------------------------------------------------------------- jobs that take long


async def blocking(job: Job, n: int, ms: int) -> int:
    """Block the event loop, as a wrong handler does."""
    with on_record(job, n):
        time.sleep(ms / 1000)  # noqa: ASYNC251
        return effect(job, n)


async def spinning(job: Job, n: int, ms: int) -> int:
    """Block the event loop, and leave the other threads of the process hardly any time."""
    with on_record(job, n):
        end = time.monotonic() + ms / 1000
        while time.monotonic() < end:
            pass
        return effect(job, n)


def is_first_run(job: Job) -> bool:
    """Whether this is its first run, by its counters: the first token need not be 1."""
    claim = job._claim
    return not (claim.attempts or claim.reschedules or claim.interruptions or claim.crashes)


async def slow_at_first(job: Job, n: int, ms: int) -> int:
    """Slow in its first run, and quick when it is run again."""
    with on_record(job, n):
        await asyncio.sleep(ms / 1000 if is_first_run(job) else 0)
        return effect(job, n)


def slow_thread_at_first(job: Job, n: int, ms: int) -> int:
    with on_record(job, n):
        time.sleep(ms / 1000 if is_first_run(job) else 0)
        return effect(job, n)


async def gate() -> None:
    """Wait until the gate is open."""
    while True:
        if Here.gate.exists():
            return
        await asyncio.sleep(0.005)


async def gated(job: Job, n: int) -> int:
    """Wait until the gate of its process is open, however long that takes."""
    with on_record(job, n):
        await gate()
        return effect(job, n)


async def gated_key(job: Job, n: int, key: str) -> int:
    with on_record(job, n):
        await gate()
        return effect(job, n)


def gated_thread(job: Job, n: int) -> int:
    with on_record(job, n):
        while not Here.gate.exists():
            time.sleep(0.01)
        return effect(job, n)


async def gated_writer(job: Job, n: int) -> int:
    """Write progress and a once value before and after the gate; a refusal of either ends the
    run."""
    with on_record(job, n):
        await job.progress(1, 2)
        await gate()
        await asyncio.sleep(0.3)  # progress is written no more often than this
        refusals = [
            await _refusal(job.progress(2, 2)),
            await _refusal(job.once("memo", lambda: job.token)),
        ]
        for what, refused in zip(("progress", "memo"), refusals, strict=True):
            if refused is not None:
                note("refused", job, n, what)
        for refused in refusals:
            if refused is not None:
                raise refused
        return effect(job, n)


async def reporting(job: Job, n: int, ms: int = 0) -> int:
    """Call the store all the time: progress, and a value that is computed once."""
    with on_record(job, n):
        for step in range(5):
            await job.progress(step, 5)
            await asyncio.sleep(ms / 5000)
        await job.once("value", lambda: n)
        return effect(job, n)


# ---------------------------------------------------------------- jobs that sleep or wait


async def asleep(job: Job, n: int, key: str, seconds: float) -> int:
    with on_record(job, n):
        await job.sleep(seconds)
        return effect(job, n)


async def asking(job: Job, n: int, key: str, signals: int) -> int:
    """Wait for several signals, and write down each that comes."""
    with on_record(job, n):
        for place in range(signals):
            value = await job.wait_for(f"s{place}", type=int)
            note("delivered", job, n, f"{place}:{value}")
        return effect(job, n)


async def asking_once(job: Job, n: int) -> int:
    with on_record(job, n):
        value = await job.wait_for("s0", type=int)
        note("delivered", job, n, f"0:{value}")
        return effect(job, n)


async def sharing(job: Job, n: int) -> int:
    """Use a value that all jobs share. The job that computes it waits for the gate."""

    async def compute() -> int:
        note("computed", job, n)
        await gate()
        return n

    with on_record(job, n):
        value = await job.once("shared", compute, scope="global")
        note("shared", job, n, str(value))
        return effect(job, n)


# ---------------------------------------------------------------- steps of flows


class AddedPlan(Struct):
    """A step that a handler adds: its number, what it does, and after which others it comes."""

    n: int
    plan: str
    after: list[int]


async def flow_step(
    job: Job,
    n: int,
    plan: str,
    inputs: list[int] | None = None,
    added: list[AddedPlan] | None = None,
) -> int:
    """Succeed, fail, or fail at first, as the plan says. The result is the step's number and what
    it was given."""
    with on_record(job, n):
        await asyncio.sleep(n % 5 / 1000)
        steps: list[Any] = []
        for one in added or []:
            call = Here.flow_step.call(one.n, one.plan)
            steps.append(await job.add(call, after=[steps[at] for at in one.after]))
        if plan == "fail" or (plan == "flaky" and job.attempt == 1):
            raise ValueError(plan)
        effect(job, n)
        return n + sum(inputs or [])


async def _refusal(act: Any) -> Exception | None:
    try:
        await act
    except Exception as error:  # noqa: BLE001 - which one it is, the record tells
        return error
    return None


class Works:
    """The tasks, on one app. The same for the test, which enqueues them, and for the processes,
    which run them."""

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        self.app = app = Mita(url, **(KEPT if options is None else options))
        self.nap = app.task(nap)
        self.thread_nap = app.task(thread_nap)
        self.keyed = app.task(resource="key:{key}")(keyed)
        self.rated = app.task(name="rated", rate=RATE)(nap)
        self.rated_key = app.task(resource="key:{key}", rate=KEY_RATE)(rated_key)
        self.two_keys = app.task(resource=["key:{key}", Key("both", limit=3)])(two_keys)
        self.fair = app.task(fair="{key}")(fair)
        self.tick = app.task(tick)
        self.noop = app.task(noop)
        self.flaky = app.task(flaky)
        self.moving = app.task(moving)
        self.doomed = app.task(retry=TWO_RETRIES)(doomed)
        self.poison = app.task(retry=POISON)(poison)
        self.blocking = app.task(blocking)
        self.spinning = app.task(spinning)
        self.slow_at_first = app.task(slow_at_first)
        self.slow_thread_at_first = app.task(slow_thread_at_first)
        self.gated = app.task(gated)
        self.gated_key = app.task(resource="key:{key}")(gated_key)
        self.gated_thread = app.task(gated_thread)
        self.gated_writer = app.task(gated_writer)
        self.reporting = app.task(reporting)
        self.asleep = app.task(resource="key:{key}")(asleep)
        self.asking = app.task(resource="key:{key}")(asking)
        self.sharing = app.task(sharing)
        self.asking_once = app.task(asking_once)
        self.flow_step = app.task(retry=TWO_RETRIES)(flow_step)
        Here.flow_step = self.flow_step
