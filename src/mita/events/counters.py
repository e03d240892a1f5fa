"""Counters of what happens: plain numbers, changed once per signal, and read by `mita.metrics`."""

import threading
from collections import Counter
from typing import TypeAlias

from mita import forks
from mita.model.event import Kind, MoveReason
from mita.model.job import Claim, State
from mita.model.outcome import Busy, Settlement
from mita.model.outcome import Counter as Counted
from mita.model.time import SECOND
from mita.rules.options import options_of

from .batches import amend_event, batches_of, busy_reason, run_event, seconds_waited
from .flow_counters import FlowCounts
from .histogram import SIZE_BOUNDS, Histogram
from .signals import (
    Amended,
    BusyJobs,
    Enqueued,
    Fired,
    FlowStarted,
    Locked,
    RepeatPaused,
    RunsSettled,
    RunsStarted,
    SettlingSoon,
    Signal,
    StoreCalled,
    StoreFailed,
)

Labels: TypeAlias = tuple[str, str]  # queue and task
MOST_LABELS = 1000  # pairs of queue and task; others are counted together
SUCCEEDED = State.SUCCEEDED
OTHERS: Labels = ("(others)", "(others)")
_PLAIN_COUNTS = (
    "enqueued",
    "started",
    "retries",
    "retried",
    "exhausted",
    "crashes",
    "stale",
    "expired",
    "rate_waits",
    "signals",
    "children",
)


class Counts:
    """What happened to the jobs of one task in one queue."""

    __slots__ = (
        "children",
        "crashes",
        "enqueued",
        "exhausted",
        "expired",
        "finished",
        "lateness",
        "limit_waits",
        "moved",
        "rate_waits",
        "retried",
        "retries",
        "retry_latency",
        "run",
        "signals",
        "stale",
        "started",
        "wait",
    )

    def __init__(self) -> None:
        self.enqueued = self.started = self.retries = self.retried = self.exhausted = (
            self.crashes
        ) = self.stale = self.expired = self.rate_waits = self.signals = self.children = 0
        self.finished = {Kind.SUCCEEDED: 0, Kind.FAILED: 0, Kind.CANCELLED: 0}
        self.moved = dict.fromkeys(MoveReason, 0)
        self.limit_waits: dict[str, Histogram] = {}  # by what the job has: key, rate or both
        self.run, self.wait, self.lateness, self.retry_latency = (
            Histogram(),
            Histogram(),
            Histogram(),
            Histogram(),
        )

    def merge(self, other: "Counts") -> None:
        """Add the counts of another."""
        for name in _PLAIN_COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, count in other.finished.items():
            self.finished[kind] += count
        for reason, count in other.moved.items():
            self.moved[reason] += count
        for name in ("run", "wait", "lateness", "retry_latency"):
            getattr(self, name).merge(getattr(other, name))
        for name, waits in other.limit_waits.items():
            self.limit_waits.setdefault(name, Histogram()).merge(waits)

    def timed(self, claim: Claim, here: float) -> None:
        """Count the lateness of a run whose job was given a time or made by a repeat. A job that
        waited for a busy key or a rate is not counted there: its wait until its first run is
        counted by what it has, keys or a rate or both."""
        if claim.busy and not _ran_before(claim):
            waits = self.limit_waits.setdefault(_limits_of(claim), Histogram())
            waits.add(seconds_waited(claim, here))
        if claim.fire_time is not None and claim.due <= claim.created:  # without jitter
            self.lateness.add(max(0, claim.at - claim.fire_time) / SECOND + here)
        elif not claim.busy:
            self.lateness.add(seconds_waited(claim, here))

    def ended(self, settlement: Settlement) -> None:
        """Count a run that did not succeed."""
        means = run_event(settlement)
        if means is None:
            return
        kind, reason = means
        verdict, claim = settlement.verdict, settlement.claim
        if verdict.counts is Counted.CRASHES:
            self.crashes += 1
        elif not verdict.unstarted:
            self.run.add(settlement.seconds)
        match kind:
            case Kind.RETRIED:
                self.retries += 1
                # a job is counted at its first retry, and not again
                self.retried += not claim.attempts
                self.retry_latency.add(0.0 if verdict.when is None else verdict.when.wait / SECOND)
            case Kind.RESCHEDULED:
                self.moved[MoveReason(reason)] += 1
            case Kind.EXPIRED:
                self.expired += 1
                self.finished[Kind.CANCELLED] += 1
            case Kind.FAILED | Kind.CANCELLED | Kind.SUCCEEDED:
                self.finished[kind] += 1
                if kind is Kind.FAILED and verdict.counts is Counted.ATTEMPTS:
                    self.exhausted += claim.attempts >= options_of(claim.options).retry.max_retries


def _ran_before(claim: Claim) -> bool:
    return bool(claim.attempts or claim.reschedules or claim.interruptions or claim.crashes)


def _limits_of(claim: Claim) -> str:
    """What a job may have waited for: `key`, `rate` or `both`."""
    has_rate = any(gate.interval_us for gate in claim.gates)
    has_key = claim.resource is not None or any(gate.limit is not None for gate in claim.gates)
    return "both" if has_rate and has_key else "rate" if has_rate else "key"


class Counters:
    """A sink of signals. Every number only grows."""

    def __init__(self) -> None:
        self._lock = forks.guarded(threading.Lock())
        self.jobs: dict[Labels, Counts] = {}
        self.fires: Counter[tuple[str, str, str]] = Counter()  # queue, task, policy
        self.dropped: Counter[tuple[str, str, str]] = Counter()  # windows; the same
        self.paused: Counter[Labels] = Counter()  # repeats
        self.flows = FlowCounts()
        self.locks: Counter[str] = Counter()
        self.store_errors: Counter[str] = Counter()  # by operation
        self.claim_sizes, self.settle_sizes = Histogram(SIZE_BOUNDS), Histogram(SIZE_BOUNDS)
        self.claim_seconds, self.settle_seconds = Histogram(), Histogram()

    def __call__(self, signal: Signal) -> None:
        with self._lock:
            match signal:
                case RunsSettled() | RunsStarted():
                    self._ran(signal)
                case SettlingSoon():
                    batches_of(signal)
                case StoreCalled():
                    self._called(signal)
                case Enqueued():
                    for job, receipt in zip(signal.jobs, signal.receipts, strict=True):
                        self.of(job.queue, job.task).enqueued += receipt.created
                    if signal.are_children:
                        self._children(signal)
                case BusyJobs():
                    for busy in signal.jobs:
                        self._busy(busy)
                case Amended():
                    self._amended(signal)
                case Fired():
                    self._fired(signal)
                case FlowStarted() | RepeatPaused() | Locked() | StoreFailed():
                    self._single(signal)

    def add_to(self, total: "Counters") -> None:
        """Add all numbers, as they are at one point in time, to `total`."""
        with self._lock:
            for (queue, task), counts in self.jobs.items():
                total.of(queue, task).merge(counts)
            total.fires.update(self.fires)
            total.dropped.update(self.dropped)
            total.paused.update(self.paused)
            self.flows.add_to(total.flows)
            total.locks.update(self.locks)
            total.store_errors.update(self.store_errors)
            for name in ("claim_sizes", "settle_sizes", "claim_seconds", "settle_seconds"):
                getattr(total, name).merge(getattr(self, name))

    def of(self, queue: str, task: str) -> Counts:
        """Returns the counts of a queue and task. Beyond `MOST_LABELS` pairs, all others share
        one."""
        found = self.jobs.get((queue, task))
        if found is None:
            labels = (queue, task) if len(self.jobs) < MOST_LABELS else OTHERS
            found = self.jobs.setdefault(labels, Counts())
        return found

    def _ran(self, signal: RunsStarted | RunsSettled) -> None:
        """Count starts and successes by batch. Only if some runs did not succeed, each of them is
        looked at."""
        odd = False
        for batch in batches_of(signal):
            if batch.kind is Kind.FLOW_ENDED:
                self.flows.end(batch)
                continue
            counts = self.of(batch.queue, batch.task)
            if batch.whole or batch.kind is Kind.STARTED:
                counts.started += len(batch.ids)
                counts.wait.add_all(batch.waits)
            if batch.kind is Kind.SUCCEEDED:
                counts.finished[Kind.SUCCEEDED] += len(batch.ids)
                counts.run.add_all(batch.seconds)
            odd |= batch.kind is not Kind.SUCCEEDED
        for run in signal.timed:
            self.of(run.claim.queue, run.claim.task).timed(run.claim, run.waited)
        if odd and isinstance(signal, RunsSettled):
            self._odd(signal)

    def _odd(self, signal: RunsSettled) -> None:
        for settlement, took in zip(signal.settlements, signal.took, strict=True):
            counts = self.of(settlement.claim.queue, settlement.claim.task)
            if not took:
                counts.stale += 1
            elif settlement.verdict.state is not SUCCEEDED or settlement.was_cancelled:
                counts.ended(settlement)

    def _called(self, signal: StoreCalled) -> None:
        if signal.claimed is not None:
            self.claim_sizes.add(signal.claimed)
            self.claim_seconds.add(signal.seconds)
        if signal.settled:
            self.settle_sizes.add(signal.settled)
            self.settle_seconds.add(signal.seconds)

    def _busy(self, busy: Busy) -> None:
        """Count a job whose key was busy, or whose rate had no token. A job that does not wait for
        its key also ends."""
        counts = self.of(busy.queue, busy.task)
        counts.moved[busy_reason(busy)] += not busy.replaced  # it was counted when it began to wait
        counts.rate_waits += busy.at_rate
        counts.finished[Kind.CANCELLED] += busy.ended

    def _children(self, signal: Enqueued) -> None:
        for job, receipt in zip(signal.jobs, signal.receipts, strict=True):
            self.of(job.queue, job.task).children += receipt.created

    def _amended(self, signal: Amended) -> None:
        match amend_event(signal):
            case Kind.CANCELLED, _ if signal.flow is not None:
                for batch in batches_of(signal):
                    self.flows.end(batch)
            case Kind.SIGNALLED, _:
                self.of(signal.queue, signal.task).signals += 1
            case Kind.RESCHEDULED, _:
                self.of(signal.queue, signal.task).moved[MoveReason.API] += 1
            case Kind.CANCELLED, _:
                self.of(signal.queue, signal.task).finished[Kind.CANCELLED] += 1

    def _single(self, signal: FlowStarted | RepeatPaused | Locked | StoreFailed) -> None:
        match signal:
            case FlowStarted():
                self.flows.start(signal.name)
            case RepeatPaused():
                self.paused[signal.queue, signal.task] += 1
            case Locked():
                self.locks[signal.outcome] += 1
            case StoreFailed():
                self.store_errors[signal.operation] += 1

    def _fired(self, signal: Fired) -> None:
        for firing, won in zip(signal.firings, signal.won, strict=True):
            if won:
                for job in firing.jobs:
                    self.of(job.queue, job.task).enqueued += 1
                    self.fires[job.queue, job.task, firing.missed] += 1
                if firing.dropped and firing.jobs:
                    self.dropped[firing.jobs[0].queue, firing.jobs[0].task, firing.missed] += (
                        firing.dropped
                    )
