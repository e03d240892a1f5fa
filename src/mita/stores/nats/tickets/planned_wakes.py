"""Wake tickets that are due soon, and which store takes them.

The store that makes a wake ticket for a time that is near takes it itself when it is due. The other
stores hear of it in a plain message, and leave it alone. If it is late, one of them takes it, even
if it was delivered: the store that has it may have died. So tokens come at most every few
milliseconds to one store, and the others sleep. A store that has no room for all jobs that may
start hands its next wake ticket on: any store takes it at once."""

import asyncio
import os
import random
from collections.abc import Callable, Collection

import msgspec

from mita.model.time import SECOND, Moment, Wait
from mita.stores.nats.client.wire import NatsWire
from mita.stores.nats.stream.clock import ServerClock
from mita.stores.nats.stream.subjects import Subjects

LATE_MS: Wait = 30  # after its time other stores take a wake ticket, each a little later
SPREAD_MS: Wait = 30
AT_WORK_MS: Wait = 10  # after its time a store that takes a wake ticket says so to the others
ANY_STORE = ""  # the maker of a plan that any store carries out
NEAR_MS: Wait = 50  # a wake ticket that is due within this time is not asked for
FORGOTTEN_MS: Wait = SECOND  # after its time a plan of a queue that this store does not serve
MOST_PLANS = 100  # other wake tickets are delivered again by the server when they are late


class WakePlan(msgspec.Struct, array_like=True, frozen=True):
    """A wake ticket that the store `maker` (or `ANY_STORE`) takes at `due`."""

    queue: str
    key: str
    due: Moment
    maker: str


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(WakePlan).decode


class PlannedWakes:
    """What one store knows of wake tickets that are due soon. `wake` is called with queues from
    which it should claim."""

    def __init__(
        self,
        wire: NatsWire,
        subjects: Subjects,
        clock: ServerClock,
        wake: Callable[[Collection[str]], None],
    ) -> None:
        self._wire, self._subjects, self._clock, self._wake = wire, subjects, clock, wake
        self._id = os.urandom(8).hex()
        self._late_ms = LATE_MS + random.randrange(SPREAD_MS)
        self._plans: dict[tuple[str, str], WakePlan] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: Moment = 0

    async def open(self) -> None:
        """Listen to the plans of other stores."""
        await self._wire.subscribe_raw(self._subjects.planned, self._take)

    def close(self) -> None:
        """Forget all plans."""
        self._plans.clear()
        if self._timer is not None:
            self._timer.cancel()

    async def announce(self, queue: str, key: str, due: Moment, *, hand_on: bool = False) -> None:
        """Say that this store, or any if it is to `hand_on`, takes the wake ticket of this key at
        `due`."""
        plan = WakePlan(queue, key, due, ANY_STORE if hand_on else self._id)
        self._add(plan)
        self._send(plan)

    def _send(self, plan: WakePlan) -> None:
        self._wire.send_message(self._subjects.planned, _pack(plan))
        self._wire.flush_soon()

    def _take(self, _: bytes, __: bytes, data: bytes, ___: bytes | None) -> None:
        try:
            plan = _unpack(data)
        except msgspec.MsgspecError:
            return
        if plan.maker != self._id:
            self._add(plan)

    def _add(self, plan: WakePlan) -> None:
        name = plan.queue, plan.key
        if name in self._plans or len(self._plans) < MOST_PLANS:
            self._plans[name] = plan
            at = self._look_at(plan)
            if self._timer is None or at < self._timer_at:
                self._set_timer(at)

    def _look_at(self, plan: WakePlan) -> Moment:
        """Returns when this plan is late, also for its own store if that is busy."""
        return plan.due + self._late_ms - (LATE_MS if plan.maker == ANY_STORE else 0)

    def _set_timer(self, at: Moment) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait = max(1, at - self._clock.now())
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(wait, SECOND) / SECOND, self._look)
        self._timer_at = at

    def _look(self) -> None:
        """Wake this store if a wake ticket is late."""
        self._timer, now = None, self._clock.now()
        self._plans = {
            name: plan for name, plan in self._plans.items() if plan.due > now - FORGOTTEN_MS
        }
        late = {plan.queue for plan in self._plans.values() if self._is_late(plan, now)}
        if late:
            self._wake(late)
        times = [self._look_at(plan) for plan in self._plans.values()]
        if times:
            self._set_timer(min(at if at > now else now + self._late_ms for at in times))

    def _is_late(self, plan: WakePlan, now: Moment) -> bool:
        return (plan.due if plan.maker == self._id else self._look_at(plan)) <= now

    def late(self, queues: Collection[str]) -> list[WakePlan]:
        """Returns, once, the plans of these queues that this store carries out now: its own that
        are due, and those of others that are late. Of what is late, the others hear that this store
        is at work: on a busy machine all of them would compete for it otherwise."""
        if not self._plans:
            return []
        now = self._clock.now()
        late = [
            plan
            for plan in self._plans.values()
            if plan.queue in queues and self._is_late(plan, now)
        ]
        for plan in late:
            del self._plans[plan.queue, plan.key]
            if plan.due < now - AT_WORK_MS:
                self._send(WakePlan(plan.queue, plan.key, now, self._id))
        return late

    def has_late(self, queues: Collection[str]) -> bool:
        """True if this store should carry out a plan of these queues now."""
        if not self._plans:
            return False
        now = self._clock.now()
        return any(
            plan.queue in queues and self._is_late(plan, now) for plan in self._plans.values()
        )

    def without_near(self, queues: Collection[str]) -> set[str]:
        """Returns those of these queues whose wake tickets should be asked for now: not those in
        which one is due very soon, unless another is due or late."""
        if not self._plans:
            return set(queues)
        now, near, late = self._clock.now(), set[str](), set[str]()
        for plan in self._plans.values():
            if self._is_late(plan, now):
                late.add(plan.queue)
            elif plan.due <= now + NEAR_MS:
                near.add(plan.queue)
        return set(queues) - (near - late)
