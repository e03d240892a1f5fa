"""Look at a store with many jobs, and change many of them: what an operator waits for."""

import time
from collections.abc import Awaitable, Callable
from functools import partial

from mita import Mita
from mita.model.outcome import CancelJob, Change, PrioritiseJob, RescheduleJob
from mita.model.time import Wait
from mita.rules.when import when

from .worker_app import QUEUE

_LOOKS = 5  # of each kind; the first is reported by itself
_PAGE_JOBS = 50
_AMENDED_AT_ONCE = 1000
_AN_HOUR_S = 3600


async def look(app: Mita) -> dict[str, list[float]]:
    """How long each look takes, in ms: the first, and the others after it."""
    [job] = (await app.jobs(limit=1)).jobs
    looks: dict[str, Callable[[], Awaitable[object]]] = {
        "counts": app.counts,
        "queues": app.queues,
        "explain": lambda: app.explain(job.id),
        "first page": lambda: app.jobs(queue=QUEUE, limit=_PAGE_JOBS),
    }
    return {
        name: [await _milliseconds(call) for _ in range(_LOOKS)] for name, call in looks.items()
    }


async def amend(app: Mita, most: int) -> dict[str, float]:
    """How long it takes to change this many jobs by id, in ms: to give them another priority, to
    move them, and to cancel them."""
    ids: list[str] = []
    after: str | None = None
    while len(ids) < most:
        page = await app.jobs(
            queue=QUEUE, limit=min(_AMENDED_AT_ONCE, most - len(ids)), after=after
        )
        ids += [job.id for job in page.jobs]
        after = page.after
        if after is None:
            break
    changes: dict[str, Change] = {
        "priority": PrioritiseJob(7),
        "reschedule": RescheduleJob(when(after=_AN_HOUR_S)),
        "cancel": CancelJob(Wait(0)),
    }
    return {
        name: await _milliseconds(partial(_change, app, ids, change))
        for name, change in changes.items()
    }


async def _change(app: Mita, ids: list[str], change: Change) -> None:
    store = await app.open_store()
    for start in range(0, len(ids), _AMENDED_AT_ONCE):
        await store.amend(ids[start : start + _AMENDED_AT_ONCE], change)


async def _milliseconds(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return (time.perf_counter() - began) * 1000
