"""The heartbeat of a worker: put down what ended, take up what is next, in one round trip.

One turn is under way at a time. What ends meanwhile goes with the next one: a lone job is settled
at once, and under load the batches grow by themselves."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from mita.errors import Rejected, StoreError
from mita.events import Emit
from mita.events.signals import Ahead, Began, SentAway, Settled, Turned, settled
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import SECOND, Moment, Wait
from mita.ports.store import ASKED, REPEATS, TOLD, Store
from mita.rules.claim_size import MOST, room, rotate, smooth
from mita.rules.judge import RELEASE, Retention

from .backoff import StoreBackoff
from .executor import TOO_LONG, Executor
from .full_pools import FullPools
from .job_log import extras
from .rejections import split

log = logging.getLogger("mita.worker")


class ClaimLoop:
    """`queues` None means all there are but those in `exclude`. `asked` is called when somebody may
    have asked something of a running job, `repeats` when repeats may have changed, `publish` with
    what happened, `now` gives the store's clock.

    After `max_jobs` starts nothing more is claimed, and `run` ends with the last of them. `is_over`
    is asked when nothing was found and nothing runs: True ends `run`."""

    def __init__(
        self,
        store: Store,
        keep: Retention,
        queues: tuple[str, ...] | None,
        lease: Wait,
        worker: str,
        poll: float,
        asked: Callable[[], None],
        repeats: Callable[[], None],
        emit: Emit,
        now: Callable[[], Moment],
        exclude: frozenset[str] = frozenset(),
        max_jobs: int | None = None,
        is_over: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._keep, self._repeats, self._emit, self._now = keep, repeats, emit, now
        self._exclude, self._max_jobs, self._is_over = exclude, max_jobs, is_over
        self._store, self._queues, self._lease, self._worker, self._poll, self._asked = (
            store,
            queues,
            lease,
            worker,
            poll,
            asked,
        )
        self._names: list[str] = list(queues or ())
        self._news = asyncio.Event()
        self._hungry = True
        self._alarm: asyncio.TimerHandle | None = None
        self._number = 0
        self._since = time.monotonic()
        self._counted = 0
        self._patience = StoreBackoff("take turns")
        self.rate = 0.0
        self.ended: Counter[str] = Counter()  # runs by queue; read by the keeper's thread
        self._full_pools = FullPools(self.news)
        self._beside = False  # the claim under way was made while a pool was full
        self.leaving = False
        self.sending: list[Settlement] = []  # of the turn under way, or of the last one
        self.stale = 0

    def news(self) -> None:
        """Something ended: it is to be put down, or its slot is free."""
        self._news.set()

    @property
    def names(self) -> list[str]:
        return self._names

    async def run(self, crew: Executor) -> None:
        """Until `leaving`, or until its jobs are over, and then until everything is settled."""
        while crew.done or not crew.idle or not (self.leaving or self.spent(crew)):
            self._news.clear()
            limit = self._limit(crew)
            if not crew.done and not limit:
                await self._news.wait()
                continue
            await self._turn(crew, limit)
            if (
                self._is_over is not None
                and limit
                and crew.idle
                and not crew.done
                and await self._is_over()
            ):
                return

    def spent(self, crew: Executor) -> bool:
        """Whether as many jobs were started as this worker may run."""
        return self._max_jobs is not None and crew.started >= self._max_jobs

    def serves(self, queue: str) -> bool:
        return queue not in self._exclude if self._queues is None else queue in self._queues

    def wake(self) -> None:
        """There may be something to claim, or a reason to leave."""
        self._hungry = True
        self._news.set()

    def _limit(self, crew: Executor) -> int:
        self._measure(crew)
        limit = self._room(crew) if self._hungry and not self.leaving else 0
        if self._max_jobs is not None:
            limit = max(0, min(limit, self._max_jobs - crew.started - crew.waiting))
        return limit

    def _room(self, crew: Executor) -> int:
        load = crew.load(self.rate)
        limit = room(load)
        self._beside = False
        if limit:
            self._full_pools.free()
        elif load.threads or load.processes:
            limit = self._full_pools.room(load, crew.executors())
            self._beside = limit > 0
        return limit

    def _measure(self, crew: Executor) -> None:
        now = time.monotonic()
        self.rate = smooth(self.rate, crew.finished - self._counted, now - self._since)
        self._since, self._counted = now, crew.finished

    async def _turn(self, crew: Executor, limit: int) -> None:
        self.sending = batch = crew.done[:MOST]
        crew.done = crew.done[MOST:]
        self._tell_began(crew)
        ahead = Settled(batch, (), self._worker, self._now())
        if batch:
            self._emit(Ahead(ahead))
        sent = time.monotonic()
        if limit:
            # before we ask: who is woken while the answer is on its way must look again
            self._hungry = False
        try:
            turn = await self._ask(batch, limit)
        except StoreError as error:
            self._hungry = True
            if not isinstance(error, Rejected) or not error.rejected:
                # its answer may be lost: a token settles at most once, so say it again
                crew.done = batch + crew.done
                await self._patience.after(error)
                return
            batch, took, again = split(batch, error, self._keep)
            crew.done = again + crew.done
            ahead, turn, limit = (
                Settled(batch, (), self._worker, self._now()),
                ClaimResult(took, []),
                0,
            )
        self._patience.reset()
        took = self._note_stale(crew, batch, turn)
        self._emit(Turned(time.monotonic() - sent, len(batch), len(turn.claims) if limit else None))
        if batch:
            self.ended.update(
                [
                    settlement.claim.queue
                    for settlement in batch
                    if settlement.verdict is not RELEASE
                ]
            )
            self._emit(settled(ahead, took))
        if turn.busy:
            report_busy(turn.busy)
            self._emit(SentAway(turn.busy, self._now()))
        if limit:
            self._plan(turn)
        if turn.claims:
            put_back = crew.take(turn.claims, sent + self._lease / SECOND, beside=self._beside)
            self._tell_began(crew)
            if self._beside:
                self._full_pools.claimed(len(turn.claims) - put_back, put_back)

    async def _ask(self, batch: list[Settlement], limit: int) -> ClaimResult:
        if not limit:
            return ClaimResult(await self._store.settle(batch), [])
        self._number += 1
        queues = rotate(self._names, self._number)
        return await self._store.settle_and_claim(batch, queues, limit, self._lease, self._worker)

    def _tell_began(self, crew: Executor) -> None:
        """Before a turn and after it, so that nobody hears of the end of a run before its
        beginning."""
        if began := crew.began():
            self._emit(Began(began, self._worker, self._now()))

    def _note_stale(self, crew: Executor, batch: list[Settlement], turn: ClaimResult) -> list[bool]:
        """Which of them took, here or in a transaction of the handler's own."""
        if all(turn.took):
            return turn.took
        return [
            took or self._took_elsewhere(crew, one)
            for one, took in zip(batch, turn.took, strict=True)
        ]

    def _took_elsewhere(self, crew: Executor, settlement: Settlement) -> bool:
        claim = settlement.claim
        if crew.was_completed(claim):
            return True
        self.stale += 1
        log.warning(
            "job %s of %s was settled too late: it is not ours any more",
            claim.id,
            claim.task,
            extra=extras(claim, "stale", settlement.seconds),
        )
        return False

    def _plan(self, turn: ClaimResult) -> None:
        """When to look again: at once, when the next job is due, or when somebody tells us."""
        self._hungry = self._hungry or turn.again == 0
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if turn.again:
            self._alarm = asyncio.get_running_loop().call_later(turn.again / SECOND, self.wake)

    async def listen(self, crew: Executor) -> None:
        """Hear of new work, with a slow poll as the net beneath."""
        patience = StoreBackoff("listen")
        while not self.leaving:
            try:
                heard = await self._hear()
                patience.reset()
            except StoreError as error:
                await patience.after(error)
                continue
            if ASKED in heard:
                self._asked()
            if REPEATS in heard:
                self._repeats()
            if not heard or heard - {ASKED, REPEATS, TOLD, *self._exclude}:
                self.wake()
            crew.put_back(TOO_LONG)

    async def _hear(self) -> frozenset[str]:
        """A worker of all queues finds out first which there are, and again when it hears of a new
        one, or of nothing."""
        if self._queues is None and not self._names:
            await self._find_queues()
            self.wake()  # for jobs that were there before us: nobody notifies of them
        heard = await self._store.wait(self._queues, self._poll)
        if self._queues is None and (
            not heard or not heard <= {ASKED, REPEATS, TOLD, *self._exclude, *self._names}
        ):
            await self._find_queues()
        return heard

    async def _find_queues(self) -> None:
        self._names = [
            name for name in await self._store.queue_names() if name not in self._exclude
        ]


def report_busy(jobs: Sequence[Busy]) -> None:
    """One line for each job that was sent away from its resource key."""
    if log.isEnabledFor(logging.INFO):
        for busy in jobs:
            event = "cancelled" if busy.ended else "blocked"
            text = (
                "cancelled, as its when_busy says"
                if busy.ended
                else "postponed until it is free; this costs no attempt"
            )
            facts = {"job": busy.id, "task": busy.task, "queue": busy.queue, "event": event}
            log.info(
                "job %s of %s: its resource key is busy: %s", busy.id, busy.task, text, extra=facts
            )
