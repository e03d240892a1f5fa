"""The steps of flows in a worker: what is read before their runs, and told before they are settled.

Steps that end at about the same time tell their dependants in one call."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from mita.errors import LeaseLost, StoreError
from mita.flows.arrivals import ArrivalCollector
from mita.flows.own_jobs import OWN_JOB_SUCCEEDED, OwnTools, look_again, run_own_job
from mita.flows.runs import (
    ReadyStep,
    conclude_settled,
    conclude_skipped,
    prepared,
    tell_before_settling,
    told_here,
    told_with_settlement,
)
from mita.flows.told_here import ToldHere
from mita.model.ending import STORE_AWAY, Ending, Interrupted, Raised
from mita.model.flow import Arrival, FlowPlace
from mita.model.job import Claim, State
from mita.model.outcome import Answer, Busy, ClaimResult, Held, Settlement
from mita.model.time import SECOND
from mita.ports.store import Can
from mita.rules.claim_size import CALL_JOBS
from mita.rules.flow import ADDED_TASK, FLOW_TASK, GATHER_TASK
from mita.rules.judge import judge

from .backoff import run_backoff
from .context import WorkerContext
from .execution import Execution

log = logging.getLogger("mita.worker")

T = TypeVar("T")

LEASE_BEATS = 3  # in one lease, of a job that the lease keeper does not know


class FlowRuns:
    """Works on claims before and after their runs. `start` is called with a run that is ready,
    `finish` with one that must not run, and `settle` with what is to be settled. `in_hand` is how
    many claims are here."""

    def __init__(
        self,
        context: WorkerContext,
        start: Callable[[Execution], None],
        finish: Callable[[Execution, Ending], None],
        settle: Callable[[Settlement], None],
    ) -> None:
        self._context, self._start, self._finish, self._settle = context, start, finish, settle
        self._tasks: set[asyncio.Task[None]] = set()
        self._untold: list[tuple[Settlement, float]] = []  # and when the lease ends
        self._is_telling = False
        self._here = ToldHere()
        tell = ArrivalCollector(context.store).tell
        self._tools = OwnTools(context.store, context.retention.failed, context.emit, tell)
        self.in_hand = 0
        self.is_used = False  # this worker has claimed a job of a flow
        self.put_back: set[str] = set()  # flows that go back to the queue
        self.tells_with_settle = Can.TELL_WITH_SETTLE in context.store.can

    # ------------------------------------------------------------ before a run

    def is_ready(self, execution: Execution, place: FlowPlace) -> bool:
        """Whether a step can run at once: this is its first run, and it needs nothing of others, or
        what it needs was told here. Then it has its arguments."""
        self.is_used = True
        claim = execution.claim
        if claim.crashes or claim.interruptions:
            return False
        if not place.needs:
            return True
        ready = told_here(claim, place, self._here)
        if not isinstance(ready, ReadyStep):
            return False
        execution.claim, execution.after = ready.claim, ready.after
        return True

    def prepare(self, execution: Execution, place: FlowPlace) -> None:
        """Read what the run of a step needs, and start it."""
        self._begin(self._prepare(execution, place))

    async def _prepare(self, execution: Execution, place: FlowPlace) -> None:
        store, claim = self._context.store, execution.claim
        here = self._here
        ready = await self._until(
            execution.deadline, lambda: prepared(store, claim, place, here), claim
        )
        if isinstance(ready, ReadyStep):
            execution.claim, execution.after = ready.claim, ready.after
            self._start(execution)
        elif not execution.settled:
            self._finish(execution, ready or Interrupted(False, STORE_AWAY))

    def run_own(self, claim: Claim, deadline: float) -> None:
        """Run a job of a flow that runs no code of the user."""
        self.is_used = True
        if claim.task == FLOW_TASK and self._here.all_succeeded(claim):
            verdict = judge(claim, OWN_JOB_SUCCEEDED, self._context.retention, random.random())
            self._settle(Settlement(claim, verdict))
        else:
            self._begin(self._run_own(claim, deadline))

    async def _run_own(self, claim: Claim, deadline: float, *, apart: bool = False) -> None:
        """`apart`: what a gathering job tells is told before it is settled, on any store."""
        context, tools = self._context, self._tools
        arrivals: list[Arrival] = []
        if claim.task == GATHER_TASK and self.tells_with_settle and not apart:

            async def tell(told: Sequence[Arrival]) -> list[Answer]:
                arrivals[:] = told
                return [Answer.DONE] * len(told)

            tools = replace(tools, tell=tell)
        call = self._until(deadline, lambda: run_own_job(tools, claim), claim)
        try:
            ending = await self._extending(claim, asyncio.ensure_future(call))
        except LeaseLost as error:
            log.warning("%s", error)
            return
        except Exception as error:
            log.exception("job %s of %s failed", claim.id, claim.task)
            ending = Raised(f"{type(error).__name__}: {error}")
        ending = ending or Interrupted(True, STORE_AWAY)
        verdict = judge(claim, ending, context.retention, random.random())
        if claim.task in (FLOW_TASK, ADDED_TASK) and verdict.state is State.QUEUED:
            self.put_back.add(claim.id)
        if claim.task == GATHER_TASK and verdict.state is State.SUCCEEDED:
            verdict = replace(verdict, told=True)
        self._settle(Settlement(claim, verdict, arrivals=tuple(arrivals)))

    async def _extending(self, claim: Claim, work: asyncio.Task[T]) -> T:
        """Wait for `work`, and extend the lease of its job meanwhile: to look after a flow of
        100,000 steps takes longer than a lease. Raises LeaseLost if another worker has it."""
        lease = self._context.lease
        while not (await asyncio.wait([work], timeout=lease / SECOND / LEASE_BEATS))[0]:
            try:
                [held] = await self._context.store.extend([claim], lease)
            except StoreError as error:
                log.warning("the lease of job %s could not be extended: %s", claim.id, error)
                continue
            if held is Held.LOST:
                work.cancel()
                raise LeaseLost(f"job {claim.id} of {claim.task}: its lease expired")
        return await work

    # ------------------------------------------------------------ before a settlement

    def tell(self, settlement: Settlement, deadline: float) -> None:
        """Tell the dependants of a step that it succeeded, and settle it then; in one operation if
        the store can."""
        told = told_with_settlement(settlement) if self.tells_with_settle else None
        if told is None:
            self._tell_first(settlement, deadline)
        else:
            self._settle(told)

    def _tell_first(self, settlement: Settlement, deadline: float) -> None:
        self._untold.append((settlement, deadline))
        if not self._is_telling:
            self._is_telling = True
            self._begin(self._tell())

    async def _tell(self) -> None:
        """Tell what there is, until there is no more. Steps that end in the meantime go with the
        next call."""
        try:
            while self._untold:
                some, self._untold = self._untold[:CALL_JOBS], self._untold[CALL_JOBS:]
                await self._tell_some(some)
        finally:
            self._is_telling = False

    async def _tell_some(self, some: list[tuple[Settlement, float]]) -> None:
        context = self._context
        now = time.monotonic()
        some = [(one, end) for one, end in some if not self._is_late(one, end, now)]
        if not some:
            return
        batch, deadline = [one for one, _ in some], min(end for _, end in some)
        self.in_hand += len(batch)
        try:
            told = await self._until(
                deadline,
                lambda: tell_before_settling(
                    context.store, batch, context.retention, context.emit, self._here
                ),
                batch[0].claim,
            )
        finally:
            self.in_hand -= len(batch)
        for one in told or ():  # without an answer their leases end, and another worker goes on
            self._settle(one)

    def _is_late(self, settlement: Settlement, deadline: float, now: float) -> bool:
        """Whether the lease of a step is over, as after a process was stopped. Another worker runs
        it now, and its dependants must wait for that run."""
        if now < deadline:
            return False
        claim = settlement.claim
        log.warning(
            "job %s of %s ended after its lease, so it does not tell its flow", claim.id, claim.task
        )
        return True

    def tell_apart(self, settlements: Sequence[Settlement]) -> None:
        """Tell and settle these one after the other: together they were rejected. Then it is known
        which of them is too large, and the others go on."""
        deadline = time.monotonic() + self._context.lease / SECOND / LEASE_BEATS
        for one in settlements:
            if one.claim.task == GATHER_TASK:
                self._begin(self._run_own(one.claim, deadline, apart=True))
            else:
                self._tell_first(replace(one, arrivals=()), deadline)

    # ------------------------------------------------------------ after a settlement

    def settled(self, batch: Sequence[Settlement], result: ClaimResult) -> None:
        """These were settled, and have told what they tell with that."""
        written = (one for one, took in zip(batch, result.took, strict=True) if took)
        self._here.settled(written, result.untold)

    async def conclude(self, settled: list[tuple[Settlement, bool]]) -> None:
        """Tell what follows from settlements that were written. What fails here is found by the
        patrol of the flow."""
        context = self._context
        try:
            for claim in [one.claim for one, _ in settled if one.claim.id in self.put_back]:
                self.put_back.discard(claim.id)
                await look_again(context.store, claim)
            cancelled = await conclude_settled(
                context.store,
                [one for one, _ in settled],
                [took for _, took in settled],
                context.retention,
                self._here,
            )
        except StoreError as error:
            log.warning("the end of %d jobs was not told to their flows: %s", len(settled), error)
            return
        for one in cancelled:
            context.emit(one)

    async def conclude_skipped(self, busy: Sequence[Busy]) -> None:
        """Tell what follows from the end of steps that a claim has cancelled."""
        context = self._context
        try:
            cancelled = await conclude_skipped(context.store, busy, context.retention.failed)
        except StoreError as error:
            log.warning("the end of skipped jobs was not told to their flows: %s", error)
            return
        for one in cancelled:
            context.emit(one)

    # ------------------------------------------------------------ calls to the store

    def _begin(self, work: Awaitable[None]) -> None:
        self.in_hand += 1
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.in_hand -= 1
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a step of a flow was left to another worker: %r", error)

    async def _until(
        self, deadline: float, call: Callable[[], Awaitable[T]], claim: Claim
    ) -> T | None:
        """Call the store, and retry while it is unreachable; None when the lease is nearly over."""
        backoff = run_backoff()
        while True:
            try:
                return await call()
            except StoreError as error:
                if not error.transient:
                    raise
                pause = backoff.fail()
                if time.monotonic() + pause >= deadline:
                    log.warning("job %s waited for its store in vain: %s", claim.id, error)
                    return None
                await asyncio.sleep(pause)
