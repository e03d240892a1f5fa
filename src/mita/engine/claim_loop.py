"""The claim loop of a worker: settle the runs that ended and claim the next jobs, in one call to
the store.

One call is under way at a time. Runs that end meanwhile go with the next call: a lone job is
settled at once, and under load the batches grow by themselves."""

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mita.errors import Rejected, StoreError
from mita.events.signals import BusyJobs, RunsSettled, SettlingSoon, StoreCalled
from mita.flows.ended import is_step
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import SECOND, Wait
from mita.ports.store import ASKED, EVENTS, REPEATS
from mita.rules.claim_size import CALL_JOBS, jobs_to_claim, rotate, smooth

from .backoff import StoreBackoff
from .context import WorkerContext
from .executor import Executor
from .full_pools import FullPools
from .job_log import extras
from .rejections import split
from .repeat_reports import report_repeats

log = logging.getLogger("mita.worker")

LONGEST_SLOT_WAIT_S = 1.0  # of a claimed job; then it goes back, for workers with free slots


class ClaimLoop:
    """Claims jobs for `executor` and settles its runs. `is_over` is called when nothing was claimed
    and nothing runs: if it returns True, `run` ends."""

    def __init__(
        self,
        context: WorkerContext,
        executor: Executor,
        is_over: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._context, self._executor, self._is_over = context, executor, is_over
        self._store, self._emit, self._clock = context.store, context.emit, context.clock
        settings = context.settings
        self._chosen, self._excluded = settings.queues, frozenset(settings.exclude)
        self._max_jobs = settings.max_jobs or sys.maxsize
        self.queues: list[str] = list(settings.queues or ())  # that are claimed from
        self._backoff = StoreBackoff("claim or settle jobs")
        self._full_pools = FullPools(executor.changed)
        self._may_have_jobs = True  # there may be jobs to claim in the store
        self._due_timer: asyncio.TimerHandle | None = None  # until the next job is due
        self._calls = 0
        self._measured_at, self._measured = time.monotonic(), 0
        self.rate = 0.0  # finished runs per second
        self.leaving = False
        self.settling: list[Settlement] = []  # in the call that is under way, or in the last one
        self.stale = 0
        self._of_repeats: list[tuple[Settlement, bool]] = []  # settled, and to be reported
        self._of_flows: list[tuple[Settlement, bool]] = []  # settled, and to be told
        self._skipped: list[Busy] = []  # that ended in a claim, and to be told

    async def run(self) -> None:
        """Claim and settle until `leaving` is set or `max_jobs` have started, and then until every
        run is settled."""
        executor = self._executor
        while (
            executor.ended
            or executor.held
            or executor.flows.in_hand
            or (executor.started < self._max_jobs and not self.leaving)
        ):
            executor.changed.clear()
            limit, beside = self._limit()
            if not limit and not executor.ended:
                await executor.changed.wait()
                continue
            await self._settle_and_claim(limit, beside=beside)
            if self._of_repeats:
                await self._report_repeats()
            if self._of_flows:
                settled, self._of_flows = self._of_flows, []
                await executor.flows.conclude(settled)
            if self._skipped:
                skipped, self._skipped = self._skipped, []
                await executor.flows.conclude_skipped(skipped)
            idle = limit and not (executor.held or executor.ended or executor.flows.in_hand)
            if idle and self._is_over is not None and await self._is_over():
                return

    def serves(self, queue: str) -> bool:
        """Whether this worker claims jobs of this queue."""
        return queue not in self._excluded if self._chosen is None else queue in self._chosen

    def wake(self) -> None:
        """Run the loop once more: there may be a job to claim, or the worker stops."""
        self._may_have_jobs = True
        self._executor.changed.set()

    def _limit(self) -> tuple[int, bool]:
        """Returns how many jobs to claim now, and whether that is beside a full pool."""
        executor, now = self._executor, time.monotonic()
        finished = executor.finished - self._measured
        self.rate = smooth(self.rate, finished, now - self._measured_at)
        self._measured_at, self._measured = now, executor.finished
        if self.leaving or not self._may_have_jobs:
            return 0, False
        load = executor.load(self.rate)
        limit, beside = jobs_to_claim(load), False
        if limit:
            self._full_pools.since = None
        elif load.threads or load.processes:
            limit = self._full_pools.jobs_to_claim(load, executor.executors())
            beside = limit > 0
        left = self._max_jobs - executor.started - len(executor.waiting)
        return max(0, min(limit, left)), beside

    async def _settle_and_claim(self, limit: int, *, beside: bool) -> None:
        """Settle the runs that ended, claim up to `limit` jobs, and start these."""
        context, executor = self._context, self._executor
        executor.emit_started()  # before the call: no subscriber may see a run end before it starts
        batch = self.settling = executor.ended[:CALL_JOBS]
        executor.ended = executor.ended[CALL_JOBS:]
        signal = RunsSettled(batch, (), context.id, self._clock.now())
        if batch:
            self._emit(SettlingSoon(signal))
        sent = time.monotonic()
        try:
            if limit:
                # before the call: a wake-up during the call must lead to another claim
                self._may_have_jobs = False
                self._calls += 1
                queues = self.queues
                if len(queues) > 1:
                    queues = rotate(queues, self._calls)
                result = await self._store.settle_and_claim(
                    batch, queues, limit, context.lease, context.id
                )
            elif executor.flows.tells_with_settle and executor.flows.is_used:
                result = await self._store.settle_and_claim(batch, [], 0, context.lease, context.id)
            else:
                result = ClaimResult(await self._store.settle(batch), [])
        except StoreError as error:
            await self._after_error(batch, error, sent)
            return
        if self._backoff.failures:
            self._backoff.reset()
        if executor.flows.is_used and batch:
            executor.flows.settled(batch, result)
        self._emit_result(signal, result, sent, claimed=limit > 0)
        if limit:
            self._plan_next(result.again)
        if result.claims:
            deadline = sent + context.lease / SECOND
            put_back = executor.start(result.claims, deadline, beside=beside)
            executor.emit_started()
            if beside:
                self._full_pools.claimed(len(result.claims) - put_back, put_back)

    async def _after_error(self, batch: list[Settlement], error: StoreError, sent: float) -> None:
        """Settle again what was not settled. A token settles at most once, so this is safe even if
        the store did it and only its answer was lost."""
        self._may_have_jobs = True
        if isinstance(error, Rejected) and (told := [one for one in batch if one.arrivals]):
            self._executor.ended = [one for one in batch if not one.arrivals] + self._executor.ended
            self._executor.flows.tell_apart(told)
            return
        if not isinstance(error, Rejected) or not error.rejected:
            self._executor.ended = batch + self._executor.ended
            await self._backoff.after(error)
            return
        settled, took, smaller = split(batch, error, self._context.retention)
        self._executor.ended = smaller + self._executor.ended
        if self._backoff.failures:
            self._backoff.reset()
        signal = RunsSettled(settled, (), self._context.id, self._clock.now())
        self._emit_result(signal, ClaimResult(took, []), sent, claimed=False)

    def _emit_result(
        self, signal: RunsSettled, result: ClaimResult, sent: float, *, claimed: bool
    ) -> None:
        """Report what a call to the store did. `signal` has the settlements that it was given."""
        batch, took = signal.settlements, result.took
        count = len(result.claims) if claimed else None
        self._emit(StoreCalled(time.monotonic() - sent, len(batch), count))
        if batch:
            if not all(took):
                took = [self._took(one, took) for one, took in zip(batch, took, strict=True)]
            succeeded = self._context.tally.settled(batch, took)
            if all(took):
                signal.took = took
            else:
                signal = RunsSettled(batch, took, signal.worker, signal.at)
            self._emit(signal)
            if [one for one in batch if one.claim.repeat is not None]:
                self._of_repeats += zip(batch, took, strict=True)
            if self._executor.flows.is_used or not succeeded:
                back = self._executor.flows.put_back
                self._of_flows += [
                    (one, written)
                    for one, written in zip(batch, took, strict=True)
                    if is_step(one.claim.id) or one.was_cancelled or one.claim.id in back
                ]
        if result.busy:
            log_busy(result.busy)
            self._emit(BusyJobs(result.busy, self._clock.now()))
            self._skipped += [one for one in result.busy if one.ended and is_step(one.id)]

    async def _report_repeats(self) -> None:
        """Report the jobs of repeats that ended, for `pause_after`."""
        settled, self._of_repeats = self._of_repeats, []
        batch, took = [one for one, _ in settled], [took for _, took in settled]
        await report_repeats(self._store, batch, took, self._emit)

    def _took(self, settlement: Settlement, took: bool) -> bool:
        """Whether a settlement took effect, here or in a transaction of the handler's own."""
        claim = settlement.claim
        if took or self._executor.was_completed(claim):
            return True
        self.stale += 1
        log.warning(
            "job %s of %s was settled too late: it is not ours any more",
            claim.id,
            claim.task,
            extra=extras(claim, "stale", settlement.seconds),
        )
        return False

    def _plan_next(self, again: Wait | None) -> None:
        """When to claim again: now, when the next job is due, or when a wake-up comes."""
        self._may_have_jobs = self._may_have_jobs or again == 0
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None
        if again:
            loop = asyncio.get_running_loop()
            self._due_timer = loop.call_later(again / SECOND, self.wake)

    async def listen(self, on_topic: Mapping[str, Callable[[], None]]) -> None:
        """Wait for wake-ups from the store, with a slow poll as a safety net, until `leaving` is
        set. `on_topic` has a function for each topic that is not a queue."""
        backoff = StoreBackoff("wait for wake-ups")
        others = {ASKED, REPEATS, EVENTS, *self._excluded}
        while not self.leaving:
            try:
                if self._chosen is None and not self.queues:
                    await self._find_queues()
                    self.wake()  # for jobs from before: there are no wake-ups for them
                topics = await self._store.wait(self._chosen, self._context.settings.poll)
                if self._chosen is None and (not topics or topics - others - {*self.queues}):
                    await self._find_queues()
            except StoreError as error:
                await backoff.after(error)
                continue
            if backoff.failures:
                backoff.reset()
            for topic in topics & on_topic.keys():
                on_topic[topic]()
            if not topics or topics - others:
                self.wake()
            if self._executor.waiting:
                self._executor.put_back(LONGEST_SLOT_WAIT_S)

    async def _find_queues(self) -> None:
        """Find the queues of a worker that serves all of them."""
        names = await self._store.queue_names()
        self.queues = [name for name in names if name not in self._excluded]


def log_busy(jobs: Sequence[Busy]) -> None:
    """Log one line for each job that was due while its key was busy. Jobs that wait for a token of
    their rate may be thousands: if there are several, they share one line for each task and
    queue."""
    if not log.isEnabledFor(logging.INFO):
        return
    waiting = Counter((busy.task, busy.queue) for busy in jobs if busy.at_rate)
    for busy in jobs:
        if not busy.at_rate or waiting[busy.task, busy.queue] == 1:
            _log_one_busy(busy)
    for (task, queue), count in waiting.items():
        if count > 1:
            text = "%d jobs of %s wait for a token of their rate; this costs no attempt"
            facts = {"task": task, "queue": queue, "event": "blocked"}
            log.info(text, count, task, extra=facts)


def _log_one_busy(busy: Busy) -> None:
    event = "cancelled" if busy.ended else "blocked"
    text = "its resource key is busy: postponed until it is free; this costs no attempt"
    if busy.ended:
        text = "its resource key is busy: cancelled, as its when_busy says"
    if busy.replaced:
        text = "a newer job waits for its resource key now: cancelled, as its when_busy says"
    elif busy.at_rate:
        text = "its rate has no token: postponed until it has one; this costs no attempt"
    facts = {"job": busy.id, "task": busy.task, "queue": busy.queue, "event": event}
    log.info("job %s of %s: %s", busy.id, busy.task, text, extra=facts)
