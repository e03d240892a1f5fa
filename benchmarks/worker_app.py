"""The app under test: tasks that do almost nothing and record that they ran."""

# ruff: noqa: ARG001  (a job has arguments, whether its handler looks at them or not)

import asyncio
import time
from collections.abc import Callable
from typing import Any

from mita import Mita, Rate, Reschedule, Retry
from mita.tasks import Call

from .record import Record

QUEUE = "bench"
# a payload like that of many small jobs
TEXT = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWX"
RESOURCE_KEYS = 1000
TENANTS = 100
SLEEP_S = 0.005
_NEVER_REACHED = Rate(1_000_000, per=1, burst=1_000_000)
_RETRY_AT_ONCE = Retry(max_retries=3, base=0.001, cap=0.001)

Make = Callable[[int], Call[Any]]


def build(url: str, keep: float, record: Record) -> tuple[Mita, dict[str, Any]]:
    """The app, and its tasks by name."""
    app = Mita(url, keep=keep)
    begin, finish = record.writers()

    @app.task(name="noop", queue=QUEUE)
    async def noop(i: int, text: str) -> None:
        begin(i)

    @app.task(name="sync", queue=QUEUE)
    def sync(i: int, text: str) -> None:
        begin(i)

    @app.task(name="wait", queue=QUEUE)
    async def wait(i: int, text: str) -> None:
        begin(i)
        await asyncio.sleep(SLEEP_S)
        finish(i)

    @app.task(name="fail_once", queue=QUEUE, retry=_RETRY_AT_ONCE)
    async def fail_once(i: int, text: str) -> None:
        if begin(i) == 1:
            raise RuntimeError("the first attempt")

    @app.task(name="move_once", queue=QUEUE)
    async def move_once(i: int, text: str) -> None:
        if begin(i) == 1:
            raise Reschedule(after=0.001)

    @app.task(name="keyed", queue=QUEUE, resource="account:{account}")
    async def keyed(i: int, text: str, account: int) -> None:
        begin(i)

    @app.task(name="rated", queue=QUEUE, rate=_NEVER_REACHED)
    async def rated(i: int, text: str) -> None:
        begin(i)

    @app.task(name="fair", queue=QUEUE, fair="{tenant}")
    async def fair(i: int, text: str, tenant: int) -> None:
        begin(i)

    @app.task(name="answer", queue=QUEUE)
    async def answer(i: int, text: str) -> dict[str, Any]:
        begin(i)
        return {"i": i, "text": text, "at": time.time()}

    return app, dict(app.tasks)


def maker(tasks: dict[str, Any], name: str, after: float = 0.0) -> Make:
    """A function that makes the call of job `i`. Keys and tenants look random and are the
    same in every run."""
    task = tasks[name].after(after) if after else tasks[name]
    if among := {"keyed": RESOURCE_KEYS, "fair": TENANTS}.get(name):
        return lambda i: task.call(i, TEXT, i * 2_654_435_761 % 2**32 % among)
    return lambda i: task.call(i, TEXT)
