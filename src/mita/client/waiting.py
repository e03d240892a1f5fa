"""Waiting for a job to end."""

import asyncio
import math
from collections.abc import Awaitable, Callable

from mita.errors import JobCancelled, JobFailed, MitaError, UsageError
from mita.model.job import Job, State
from mita.model.outbox import RowState
from mita.model.outcome import TimelineKind
from mita.ports.backoff import Backoff
from mita.ports.outbox import JobOutbox
from mita.ports.store import Store
from mita.rules.sealed import shown_text
from mita.rules.states import TERMINAL

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.25  # between two looks at a job


async def succeeded(
    open_store: Callable[[], Awaitable[Store]],
    id: str,
    timeout: float | None,
    outbox: JobOutbox | None = None,
) -> Job:
    """Wait until the job has succeeded and return it. Polls often at first and more slowly later. A
    job that is still in the outbox is waited for, too. Raises `JobFailed`, `JobCancelled`, or
    `TimeoutError`."""
    store = await open_store()
    loop = asyncio.get_running_loop()
    end = None if timeout is None else loop.time() + _seconds(timeout)
    backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, factor=1.5, jitter=False)
    while True:
        [job] = await store.find([id])
        is_outside = job is None and outbox is not None and await _is_in(outbox, id)
        if job is None and outbox is not None and not is_outside:
            [job] = await store.find([id])  # the relay may have moved it in between
        if job is None and not is_outside:
            raise MitaError(
                f"no job {id} is in the store: it was never enqueued, or it was deleted. Results "
                "are kept for Mita(keep=…) seconds, 3600 by default"
            )
        if job is not None and job.state in TERMINAL:
            return await _ended_well(store, job)
        left = math.inf if end is None else end - loop.time()
        if left <= 0:
            raise TimeoutError(
                f"job {id} was still {_shown(job)} after {timeout:g} s; the job itself "
                "continues, and `mita why` explains what it is waiting for"
            )
        await asyncio.sleep(min(backoff.fail(), left))


async def _is_in(outbox: JobOutbox, id: str) -> bool:
    row = await outbox.row(id)
    return row is not None and row.state is not RowState.PARKED


def _shown(job: Job | None) -> str:
    return "in the outbox" if job is None else str(job.state)


async def _ended_well(store: Store, job: Job) -> Job:
    match job.state:
        case State.FAILED:
            raise JobFailed(job.id, shown_text(job.error or ""))
        case State.CANCELLED:
            raise JobCancelled(job.id, await _why_cancelled(store, job.id))
    return job


async def _why_cancelled(store: Store, id: str) -> str:
    """What the newest entry of the timeline says about the end of the job."""
    for event in reversed(await store.timeline(id)):
        if event.kind == TimelineKind.CANCELLED:
            return event.note
        if event.kind == TimelineKind.EXPIRED:
            return f"{event.kind}: {event.note}"
    return ""


def _seconds(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout < 0:
        raise UsageError(f"timeout={timeout!r}: give seconds, 0 or more, or None to wait for ever")
    return timeout
