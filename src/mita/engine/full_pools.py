"""Claiming while the threads or the processes are full, so that jobs which need neither do not wait
for them (I9)."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

from mita.model.job import Claim
from mita.ports.backoff import Backoff
from mita.rules.claim_size import Load, full_pools, jobs_beside_full_pool
from mita.tasks import Task

STUCK_AFTER_S = 0.05  # without a free slot; then other jobs are claimed
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0  # after a claim that brought only jobs for a full pool


class FullPools:
    """Decides how much to claim while a pool is full. Jobs that need that pool go back to the queue
    at once, for other workers. A claim that brought nothing else delays the next one: workers with
    full threads must not pass the same jobs around all the time. `changed` is set when it is time
    to claim."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self.since: float | None = None  # when a pool became full; None: there is a free slot
        self._not_before = 0.0
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, jitter=False)
        self._timer: asyncio.TimerHandle | None = None

    def jobs_to_claim(self, load: Load, executors: Iterable[str]) -> int:
        """Returns how many jobs to claim now. `executors` are those of the tasks that this worker
        knows."""
        pools = full_pools(load)
        if not pools or not jobs_beside_full_pool(load) or pools.issuperset(executors):
            return 0
        now = time.monotonic()
        if self.since is None:
            self.since = now
        start = max(self.since + STUCK_AFTER_S, self._not_before)
        if now < start:
            self._call_at(start - now)
            return 0
        return jobs_beside_full_pool(load)

    def claimed(self, started: int, put_back: int) -> None:
        """Note how many jobs of a claim started, and how many went back to the queue."""
        if started or not put_back:
            self._backoff.reset()
        if put_back:
            self._not_before = time.monotonic() + self._backoff.fail()

    def _call_at(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)


def with_free_slot(
    claims: list[Claim], tasks: Mapping[str, Task[Any, Any]], load: Load
) -> tuple[list[Claim], list[Claim]]:
    """Returns the claims that can start now, and the claims that need a pool without a free slot
    left."""
    places = {
        "thread": load.threads - load.on_threads,
        "process": load.processes - load.in_processes,
    }
    kept, others = [], []
    for claim in claims:
        task = tasks.get(claim.task)
        if task is not None and task.executor in places:
            places[task.executor] -= 1
            if places[task.executor] < 0:
                others.append(claim)
                continue
        kept.append(claim)
    return kept, others
