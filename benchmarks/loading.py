"""Fill a store with the jobs of a measurement, as fast as the store takes them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from msgspec import Struct

from mita import Mita
from mita.tasks.flow_step import Step

from .record import LOADED, Record
from .worker_app import TEXT, maker

BULK_JOBS = 1000
CHAIN_STEPS = 10
GROUP_STEPS = 1000  # with the callback
FLOWS = ("chain", "group")  # the tasks of a `Load` whose jobs are steps of flows
IN_FLIGHT = 4  # batches that are being stored at once
_FAR_S = 3600.0  # how far in the future jobs are due that must not run


class Load(Struct, frozen=True, kw_only=True):
    """Jobs to be stored. `task` is one of `worker_app`, or `chain` or `group`: then the jobs are
    the steps of flows. `scheduled`: they are due after the end of the run."""

    jobs: int
    first: int = 0
    task: str = "noop"
    scheduled: bool = False


class Loader:
    """`spare` is the entry of the record for jobs that must not run."""

    def __init__(self, app: Mita, tasks: dict[str, Any], record: Record, spare: int) -> None:
        self._app, self._tasks, self._record, self._spare = app, tasks, record, spare

    async def load(self, wanted: Load) -> None:
        """Store the jobs: the next batch is built while the store writes the ones before it."""
        size, store = self._sort(wanted)
        starts = iter(range(0, wanted.jobs, size))
        await asyncio.gather(*(self._some(wanted, size, store, starts) for _ in range(IN_FLIGHT)))

    def _sort(self, wanted: Load) -> tuple[int, Callable[[Load, range], Awaitable[None]]]:
        match wanted.task:
            case "chain":
                return CHAIN_STEPS, self._chain
            case "group":
                return GROUP_STEPS, self._group
        return BULK_JOBS, self._plain

    async def _some(
        self,
        wanted: Load,
        size: int,
        store: Callable[[Load, range], Awaitable[None]],
        starts: Iterator[int],
    ) -> None:
        for start in starts:
            part = range(start, min(start + size, wanted.jobs))
            await store(wanted, part)
            self._record.head[LOADED] += len(part)

    async def _plain(self, wanted: Load, part: range) -> None:
        # each thousand has another due second; a run of one would be recorded in the spare entry
        if wanted.scheduled:
            make = maker(self._tasks, wanted.task, _FAR_S + part.start // BULK_JOBS)
            calls = [make(self._spare) for _ in part]
        else:
            make = maker(self._tasks, wanted.task)
            calls = [make(wanted.first + i) for i in part]
        await self._app.enqueue_many(calls)

    async def _chain(self, wanted: Load, part: range) -> None:
        flow = self._app.flow("chain")
        before: list[Step[Any]] = []
        for i in part:
            before = [flow.add(self._tasks["noop"].call(wanted.first + i, TEXT), after=before)]
        await flow.enqueue()

    async def _group(self, wanted: Load, part: range) -> None:
        flow = self._app.flow("group")
        *members, last = part
        steps = [flow.add(self._tasks["noop"].call(wanted.first + i, TEXT)) for i in members]
        flow.add(self._tasks["noop"].call(wanted.first + last, TEXT), after=steps)
        await flow.enqueue()
