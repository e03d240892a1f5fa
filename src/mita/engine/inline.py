"""Runs jobs one after the other without a worker: for tests of code that uses Mita."""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from mita.events.signals import ignore_signal
from mita.flows.ended import is_step, place_of
from mita.flows.own_jobs import OwnTools, run_own_job
from mita.flows.runs import (
    ReadyStep,
    conclude_settled,
    conclude_skipped,
    prepared,
    tell_before_settling,
    with_added,
)
from mita.flows.told_here import ToldHere
from mita.model.ending import Ending, Unknown
from mita.model.job import Claim
from mita.model.outcome import Settlement, Verdict
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


class InlineRun(NamedTuple):
    """A run, how it ended, and what became of its job. `error` is what the handler raised."""

    claim: Claim
    ending: Ending
    verdict: Verdict
    error: BaseException | None


class InlineStep(NamedTuple):
    """What one step did: how many jobs it claimed, the run of one of them (None: no handler was
    called), and the wait until there is more (None: never)."""

    claims: int
    run: InlineRun | None
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
        self._completed: set[tuple[str, int]] = set()  # claims that their handler has settled
        self._raised: BaseException | None = None  # by the handler of the run that has just ended

    async def step(self) -> InlineStep:
        """Fire and run what is due now, each job once. A job that comes too late is settled without
        a run, as in a worker."""
        _, fires = await fire_due(self._store, keep=self._keep.failed)
        turn = await self._store.claim(await self._store.queue_names(), 1, HOUR, WORKER)
        skipped = any(one.ended and is_step(one.id) for one in turn.busy)
        if skipped:
            await conclude_skipped(self._store, turn.busy, self._keep.failed)
        run = None
        for claim in turn.claims:
            ending: Ending | None = refusal(claim)
            if ending is None and claim.task in FLOW_TASKS:
                ending = await run_own_job(OwnTools(self._store, self._keep.failed), claim)
            elif ending is None:
                run = await self._run_and_settle(claim)
                continue
            await self._settle(claim, ending)
        waits = [wait for wait in (fires, turn.again, 0 if skipped else None) if wait is not None]
        return InlineStep(len(turn.claims), run, min(waits, default=None))

    async def _run_and_settle(self, claim: Claim) -> InlineRun:
        self._raised = None
        with runs_jobs():
            ending = await self._run_step(claim)
        return InlineRun(claim, ending, await self._settle(claim, ending), self._raised)

    async def _settle(self, claim: Claim, ending: Ending) -> Verdict:
        store, keep = self._store, self._keep
        spent = (await store.now() - claim.at) / SECOND
        verdict = judge(claim, ending, keep, self._roll, spent=spent)
        settlement = with_added(Settlement(claim, verdict), ending)
        here = ToldHere()
        told = await tell_before_settling(store, [settlement], keep, here=here)
        batch, took = await settle(store, told, keep)
        # the handler may have settled it in its own transaction
        key = claim.id, claim.token
        took = [one or key in self._completed for one in took]
        self._completed.discard(key)
        await report_repeats(store, batch, took, ignore_signal)
        await conclude_settled(store, batch, took, keep, here)
        return verdict

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
        context.completed = self._completed
        execution = Execution(claim, task, context, math.inf, time.monotonic(), after=ready.after)
        call = self._call_async if task.is_async else self._call_sync
        try:
            return await call(execution)
        finally:
            self._raised = execution.error

    async def _call_sync(self, execution: Execution) -> Ending:
        """Run a sync handler."""
        return await asyncio.to_thread(run_sync, execution)

    async def _call_async(self, execution: Execution) -> Ending:
        """Run an async handler, in its own task and context, as in a worker."""
        return await asyncio.create_task(run_async(execution))
