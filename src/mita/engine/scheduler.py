"""Fires repeats. Any number of schedulers may run: each fire is one compare-and-set in the store,
so no job is made twice."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from mita.errors import Rejected, StoreError
from mita.events import Emit
from mita.events.signals import Fired, Locked, ignore_signal
from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import SECOND, Moment, Wait
from mita.ports.backoff import wait_up_to
from mita.ports.store import Store
from mita.rules.display import times
from mita.rules.fitting import check_room
from mita.rules.judge import Retention
from mita.rules.schedule.fire import MOST_FIRING_BYTES, half, plan
from mita.rules.schedule.spec import unpack

from .backoff import StoreBackoff
from .overlap import cancel_left_over, cancel_older

log = logging.getLogger("mita.scheduler")

BATCH_REPEATS = 1000  # in one look; many share one sync to disk
FIRE_JOBS = 1000  # in one call to the store
LOCK = "scheduler"
# between two attempts while the store is unreachable: limits how late a repeat can be
LONGEST_PAUSE_S = 0.4
RELEASE_TIMEOUT_S = 2.0  # for releasing the lock
KEEP_CANCELLED = Retention().failed


async def fire_due(
    store: Store, emit: Emit = ignore_signal, keep: Wait = KEEP_CANCELLED
) -> tuple[int, Wait | None]:
    """Fire one batch of due repeats. Returns how many this scheduler fired, and the wait until the
    next (0: there is more now; None: never). `keep` is how long jobs are kept that a newer fire
    cancels."""
    due = await store.due_repeats(BATCH_REPEATS)
    ahead = [] if due.next is None else [due.next]
    won = 0
    for planned in _batches(due, store.room):
        firings, fired = await _fire(store, planned)
        log_dropped(firings, fired)
        emit(Fired(firings, fired, due.now))
        cancelling = [one for one, mine in zip(firings, fired, strict=True) if mine and one.cancels]
        if cancelling:
            await cancel_older(store, cancelling, keep, emit)
        won += sum(fired)
        ahead += [firing.next for firing in firings if firing.next is not None]
    if len(due.repeats) == BATCH_REPEATS:
        return won, 0
    return won, max(0, min(ahead) - due.now) if ahead else None


def log_dropped(firings: list[Firing], won: list[bool]) -> None:
    """Log a line for each repeat that dropped windows, as a warning if its cap cut a catch-up
    short."""
    for firing, mine in zip(firings, won, strict=True):
        if mine and firing.dropped:
            level = logging.WARNING if firing.missed == "all" else logging.INFO
            why = (
                "max_catchup is reached" if firing.missed == "all" else f"missed={firing.missed!r}"
            )
            windows = times(firing.dropped, "missed window")
            facts = {"event": "dropped", "repeat": firing.key, "count": firing.dropped}
            log.log(level, "repeat %s drops %s: %s", firing.key, windows, why, extra=facts)


async def _fire(store: Store, firings: list[Firing]) -> tuple[list[Firing], list[bool]]:
    """Returns the firings, and for each whether this scheduler fired it. A firing that the store
    rejects by itself is parked with the reason."""
    try:
        return firings, await store.fire(firings)
    except Rejected as error:
        if len(firings) == 1 and len(firings[0].jobs) > 1:
            return await _fire(store, [half(firings[0])])
        if len(firings) == 1:
            [firing] = firings
            log.error(
                "the store does not take the jobs of repeat %s, which is parked: %s",
                firing.key,
                error,
            )
            stopped = [
                parked(
                    firing.key,
                    firing.cursor,
                    firing.revision,
                    f"the store does not take its jobs: {error}",
                )
            ]
            return stopped, await store.fire(stopped)
    made: list[Firing] = []
    won: list[bool] = []
    for firing in firings:
        one, answer = await _fire(store, [firing])
        made, won = made + one, won + answer
    return made, won


def _batches(due: DueRepeats, room: int | None) -> Iterator[list[Firing]]:
    """Yields what the due repeats do, in batches that are planned one at a time: repeats that all
    catch up at once are never in memory together."""
    firings: list[Firing] = []
    jobs = size = 0
    for repeat in due.repeats:
        firings.append(firing_of(repeat, due.now, room))
        jobs += len(firings[-1].jobs)
        size += sum(len(job.payload) for job in firings[-1].jobs)
        if jobs >= FIRE_JOBS or size >= MOST_FIRING_BYTES:
            yield firings
            firings, jobs, size = [], 0, 0
    if firings:
        yield firings


def firing_of(repeat: Repeat, now: Moment, room: int | None = None) -> Firing:
    """Returns what this repeat does now. A repeat that cannot be read or computed, or whose job is
    too large for the store, is parked with the reason."""
    assert repeat.cursor is not None  # noqa: S101
    try:
        wanted = unpack(repeat.spec)
        check_room(wanted.job.task, len(wanted.job.payload), room)
        return plan(repeat, wanted, now)
    except Exception as error:  # noqa: BLE001
        # one bad repeat must not stop the others
        log.error("repeat %s cannot be fired and is parked: %s", repeat.key, error)
        return parked(
            repeat.key, repeat.cursor, repeat.revision, str(error) or type(error).__name__
        )


def parked(key: str, cursor: Moment, revision: int, reason: str) -> Firing:
    """Returns a firing that parks the repeat: it fires no more until it is edited."""
    return Firing(
        key=key,
        cursor=cursor,
        revision=revision,
        next=None,
        fired=0,
        last=None,
        jobs=(),
        state=RepeatState.PARKED,
        reason=reason,
    )


class Scheduler:
    """Fires repeats when they are due. It sleeps until the next fire, until `look_now` is called,
    or for `poll` seconds.

    With a `lock` (seconds; 0: none) one scheduler of many, the leader, does the work for all.
    `gained` and `lost` count how often this one became the leader, and lost that to another."""

    def __init__(
        self,
        store: Store,
        poll: float,
        lock: float,
        id: str,
        emit: Emit = ignore_signal,
        keep: Wait = KEEP_CANCELLED,
    ) -> None:
        self._store, self._poll, self._id, self._emit = store, poll, id, emit
        self._lock, self._keep = lock, keep
        # a scheduler may have died, or a call failed, between a fire and what the fire cancels
        self._may_be_left_over = True
        self._changed = asyncio.Event()
        self._asked = 0.0
        self.leads = False
        self.gained = 0
        self.lost = 0

    def look_now(self) -> None:
        """Look for due repeats now: they may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Fire repeats until cancelled."""
        backoff = StoreBackoff("fire repeats", LONGEST_PAUSE_S)
        try:
            while True:
                # before the look: a change during it leads to another look
                self._changed.clear()
                try:
                    pause = await self._fire_batch()
                    backoff.reset()
                except StoreError as error:
                    self._may_be_left_over = True
                    await backoff.after(error)
                    continue
                await wait_up_to(pause, self._changed)
        finally:
            await self._release()

    async def _fire_batch(self) -> float:
        """Fire one batch. Returns the seconds until the next look."""
        if self._lock and not await self._lead():
            return self._poll
        # the store's clock was read a little later: wake early rather than late
        began = asyncio.get_running_loop().time()
        _, wait = await fire_due(self._store, self._emit, self._keep)
        if self._may_be_left_over:
            await cancel_left_over(self._store, self._keep, self._emit)
            self._may_be_left_over = False
        most = min(self._poll, self._lock / 3) if self._lock else self._poll
        if wait is None:
            return most
        return min(most, wait / SECOND - (asyncio.get_running_loop().time() - began))

    # ------------------------------------------------------------ the lock, which only spares work

    async def _lead(self) -> bool:
        """Whether this scheduler is the leader. It renews the lock when a third of its time has
        passed."""
        now = asyncio.get_running_loop().time()
        if self.leads and now - self._asked < self._lock / 3:
            return True
        self._asked = now
        self._set_leader(await self._store.lock(LOCK, self._id, round(self._lock * SECOND)))
        return self.leads

    def _set_leader(self, leads: bool) -> None:
        if leads and not self.leads:
            self.gained += 1
            self._may_be_left_over = True
            self._emit(Locked("acquired"))
            log.info("%s is now the repeat leader", self._id)
        if self.leads and not leads:
            self.lost += 1
            self._emit(Locked("lost"))
            log.info(
                "%s is no longer the repeat leader: it was away too long, and another took over",
                self._id,
            )
        elif not leads:
            self._emit(Locked("held"))
        self.leads = leads

    async def _release(self) -> None:
        if not self.leads:
            return
        self.leads = False
        self._emit(Locked("released"))
        with suppress(StoreError, TimeoutError):  # if this fails, the lock ends by itself
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._store.unlock(LOCK, self._id)
                log.info("%s is no longer the repeat leader: it stops", self._id)
