"""The memory store: every verb is one act upon the shared state."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, suppress

from msgspec.structs import replace

from mita.errors import StoreMissing
from mita.model.job import Claim, Job, NewJob, Receipt
from mita.model.outcome import (
    Answer,
    Change,
    ClaimResult,
    Held,
    Progress,
    Settlement,
    TimelineEntry,
)
from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Moment, Wait, When
from mita.model.view import Finding, JobFilter, Page, QueueView, ResourceView, WorkerView
from mita.ports.clock import Clock, SystemClock
from mita.ports.pubsub import EVERY, EventMessage, Subscription
from mita.ports.store import SILENCE, Can, OnceValue
from mita.stores.shared import room as rooms

from . import amend, care, claim, enqueue, inspect, once, repeats, resources, settle
from .claim import extend
from .context import Act, MemoryState
from .notify import Notifier


class MemoryStore:
    """One handle on a `MemoryState`. Handles that share a state are to each other as processes that
    share a database."""

    can = Can.OBEY_A_FAKE_CLOCK | Can.KEEP_EXACT_ORDER
    silence = SILENCE  # there is no connection that could fall silent

    def __init__(
        self, state: MemoryState | None = None, clock: Clock | None = None, room: int | None = None
    ) -> None:
        self.room = room  # a test may bound what a job takes, as other stores do
        self._state = state or MemoryState()
        self._clock = clock or SystemClock()
        self._bell = Notifier(self._state.lock)
        self._ears: set[Subscription] = set()

    async def open(self, *, create: bool = True) -> None:
        with self._state.lock:
            if not create and not (
                self._state.queues or self._state.repeats or self._state.workers
            ):
                raise StoreMissing(
                    "memory:// holds no jobs: they live in the process that enqueued them, and "
                    "no other process sees them"
                )
            self._state.bells.add(self._bell)

    async def close(self) -> None:
        for ear in list(self._ears):
            await ear.close()
        with self._state.lock:
            self._state.bells.discard(self._bell)

    async def _act(self) -> AbstractContextManager[Act]:
        """Gives way once, as a call to any other store does: a loop that asks again and again must
        not stop the world."""
        await asyncio.sleep(0)
        return self._state.act(self._clock)

    # ------------------------------------------------------------ jobs

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        rooms.check(jobs, self.room)
        with await self._act() as act:
            return [enqueue.enqueue(act, job) for job in jobs]

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        return await self.settle_and_claim([], queues, limit, lease, worker)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        with await self._act() as act:
            return settle.settle_all(act, settlements, self.room)

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        with await self._act() as act:
            took = settle.settle_all(act, settlements, self.room)
            turn = claim.claim(act, queues, limit, lease, worker)
            return replace(turn, took=took)

    async def extend(self, claim: Sequence[Claim], lease: Wait) -> list[Held]:
        with await self._act() as act:
            return [extend(act, claim, lease) for claim in claim]

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        with await self._act() as act:
            return claim.reap(act, limit, lease, worker)

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        with await self._act() as act:
            return [amend.amend(act, id, change) for id in ids]

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        with await self._act() as act:
            return [once.progress(act, report) for report in reports]

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        with await self._act() as act:
            return once.load_once(act, claim, name, shared)

    async def store_once(self, memo: OnceValue) -> bytes | None:
        with await self._act() as act:
            return once.store_once(act, memo, self.room)

    # ------------------------------------------------------------ repeats

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        with await self._act() as act:
            return repeats.put(act, repeat)

    async def remove_repeats(self, resources: Sequence[str]) -> list[bool]:
        with await self._act() as act:
            return [repeats.remove(act, key) for key in resources]

    async def pause_repeats(self, resources: Sequence[str]) -> list[bool]:
        with await self._act() as act:
            return [
                repeats.switch(act, key, RepeatState.ACTIVE, RepeatState.PAUSED)
                for key in resources
            ]

    async def resume_repeats(self, resources: Sequence[str]) -> list[bool]:
        with await self._act() as act:
            return [
                repeats.switch(act, key, RepeatState.PAUSED, RepeatState.ACTIVE)
                for key in resources
            ]

    async def due_repeats(self, limit: int) -> DueRepeats:
        with await self._act() as act:
            return repeats.due(act, limit)

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        with await self._act() as act:
            return [repeats.fire(act, firing) for firing in firings]

    async def list_repeats(self) -> list[Repeat]:
        with await self._act() as act:
            return [act.state.repeats[key] for key in sorted(act.state.repeats)]

    async def find_repeats(self, resources: Sequence[str]) -> list[Repeat | None]:
        with await self._act() as act:
            return [act.state.repeats.get(key) for key in resources]

    async def lock(self, name: str, holder: str, keep: Wait) -> bool:
        with await self._act() as act:
            return repeats.lock(act, name, holder, keep)

    async def unlock(self, name: str, holder: str) -> None:
        with await self._act() as act:
            repeats.unlock(act, name, holder)

    # ------------------------------------------------------------ looking

    async def now(self) -> Moment:
        with await self._act() as act:
            return act.now

    async def queue_names(self) -> list[str]:
        with await self._act() as act:
            return sorted(act.state.queues)

    async def queues(self) -> list[QueueView]:
        with await self._act() as act:
            return inspect.queues(act)

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        with await self._act() as act:
            return inspect.page(act, want, after, limit)

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        with await self._act() as act:
            return [inspect.find(act, id) for id in ids]

    async def raw(self, id: str) -> dict[str, bytes] | None:
        with await self._act() as act:
            return inspect.raw(act, id)

    async def timeline(self, id: str) -> list[TimelineEntry]:
        with await self._act() as act:
            return inspect.timeline(act, id)

    async def ahead(self, id: str) -> int | None:
        with await self._act() as act:
            return inspect.ahead(act, id)

    async def workers(self) -> list[WorkerView]:
        with await self._act() as act:
            return inspect.workers(act)

    async def resources(
        self, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        with await self._act() as act:
            return inspect.resources(act, queue, key)

    # ------------------------------------------------------------ care

    async def pause(self, queues: Sequence[str]) -> None:
        with await self._act() as act:
            for queue in queues:
                care.pause(act, queue)

    async def resume(self, queues: Sequence[str]) -> None:
        with await self._act() as act:
            for queue in queues:
                care.resume(act, queue)

    async def hold(self, queues: Sequence[str], key: str, until: When) -> None:
        with await self._act() as act:
            for queue in queues:
                resources.hold(act, (queue, key), until.moment(act.now))

    async def beat(self, worker: WorkerView, keep: Wait) -> Moment:
        with await self._act() as act:
            return care.beat(act, worker, keep)

    async def leave(self, worker: str) -> None:
        with await self._act() as act:
            act.state.workers.pop(worker, None)

    async def prune(self, limit: int, most: int) -> int:
        with await self._act() as act:
            return care.prune(act, limit, most)

    async def migrate(self) -> list[str]:
        return []

    async def doctor(self) -> list[Finding]:
        with await self._act() as act:
            return care.doctor(act)

    # ------------------------------------------------------------ waking

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        return await self._bell.wait(queues, timeout)

    # ------------------------------------------------------------ telling

    async def publish(self, told: Sequence[EventMessage]) -> None:
        with await self._act() as act:
            for ear, loop in act.state.ears.items():
                with suppress(RuntimeError):  # its loop was closed under it: nobody is left to hear
                    loop.call_soon_threadsafe(ear.put, told)

    async def subscribed_queues(self) -> frozenset[str]:
        with await self._act() as act:
            return frozenset(EVERY if ear.queue is None else ear.queue for ear in act.state.ears)

    async def subscribe(self, queue: str | None) -> Subscription:
        ear = Subscription(queue, self._unsubscribe)
        with await self._act() as act:
            act.state.ears[ear] = asyncio.get_running_loop()
        self._ears.add(ear)
        return ear

    async def _unsubscribe(self, ear: Subscription) -> None:
        self._ears.discard(ear)
        with await self._act() as act:
            act.state.ears.pop(ear, None)
