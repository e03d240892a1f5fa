"""Runs jobs one after the other without a worker: for tests of code that uses Mita."""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from mita.events.signals import ignore_signal
from mita.flows.delivery import is_step, place_of
from mita.flows.own_jobs import run_own_job
from mita.flows.runs import (
    ReadyStep,
    ToldHere,
    conclude_settled,
    conclude_skipped,
    prepared,
    tell_before_settling,
    with_added,
)
from mita.model.ending import Ending, Unknown
from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.model.time import HOUR, SECOND, Moment, Wait
from mita.ports.store import Store
from mita.rules.expiry import refusal
from mita.rules.flow import FLOW_TASKS
from mita.rules.judge import Retention, judge
from mita.sync import runs_jobs
from mita.tasks import Task

from .execution import Execution
from .rejections import settle
from .repeat_reports import report_repeats
from .run import run_async, run_sync
from .run_context import RunContext
from .scheduler import fire_due
from .shared_values import SharedValues

WORKER = "inline"


class InlineStep(NamedTuple):
    """What one step did: how many jobs it claimed and how many of them ran, and the wait until
    there is more (None: never)."""

    claims: int
    runs: int
    wait: Wait | None


class InlineRunContext(RunContext):
    """What all runs share that no worker made. Their clock stands still while they run."""

    __slots__ = ()

    def now(self, claim: Claim, spent: float) -> Moment:  # noqa: ARG002
        """The time of the claim."""
        return claim.at


class Inline:
    """Takes the place of a worker. `roll` replaces the random number in the backoff: 1 makes the
    longest delays."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Task[Any, Any]],
        keep: Retention,
        roll: float,
        shared: SharedValues,
    ) -> None:
        self._store, self._tasks, self._keep, self._roll = store, tasks, keep, roll
        self.shared = shared

    async def step(self) -> InlineStep:
        """Fire and run what is due now, each job once. A job that comes too late is settled without
        a run, as in a worker."""
        _, fires = await fire_due(self._store, keep=self._keep.failed)
        turn = await self._store.claim(await self._store.queue_names(), 1, HOUR, WORKER)
        skipped = any(one.ended and is_step(one.id) for one in turn.busy)
        if skipped:
            await conclude_skipped(self._store, turn.busy, self._keep.failed)
        runs = 0
        for claim in turn.claims:
            ending: Ending | None = refusal(claim)
            if ending is None and claim.task in FLOW_TASKS:
                ending = await run_own_job(self._store, claim, self._keep.failed)
            elif ending is None:
                runs += 1
                with runs_jobs():
                    ending = await self._run_step(claim)
            await self._settle(claim, ending)
        waits = [wait for wait in (fires, turn.again, 0 if skipped else None) if wait is not None]
        return InlineStep(len(turn.claims), runs, min(waits, default=None))

    async def _settle(self, claim: Claim, ending: Ending) -> None:
        store, keep = self._store, self._keep
        spent = (await store.now() - claim.at) / SECOND
        verdict = judge(claim, ending, keep, self._roll, spent=spent)
        settlement = with_added(Settlement(claim, verdict), ending)
        here = ToldHere()
        told = await tell_before_settling(store, [settlement], keep, here=here)
        batch, took = await settle(store, told, keep)
        await report_repeats(store, batch, took, ignore_signal)
        await conclude_settled(store, batch, took, keep, here)

    async def _run_step(self, claim: Claim) -> Ending:
        """Run a job; if it is a step of a flow, with the results of its predecessors."""
        place = place_of(claim)
        ready = ReadyStep(claim) if place is None else await prepared(self._store, claim, place)
        return await self._run(ready) if isinstance(ready, ReadyStep) else ready

    async def _run(self, ready: ReadyStep) -> Ending:
        claim = ready.claim
        task = self._tasks.get(claim.task)
        if task is None:
            return Unknown()
        context = InlineRunContext(
            self._store, self._keep, HOUR, self._tasks, ignore_signal, self.shared
        )
        execution = Execution(claim, task, context, math.inf, time.monotonic(), after=ready.after)
        if not task.is_async:
            return await asyncio.to_thread(run_sync, execution)
        # in its own task and context, as in a worker
        return await asyncio.create_task(run_async(execution))
