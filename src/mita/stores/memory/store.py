"""The memory store: every verb is one act upon the shared state."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, suppress

from msgspec.structs import replace

from mita.errors import StoreMissing
from mita.model.job import Claim, Job, NewJob, Receipt
from mita.model.outcome import Answer, Change, Event, Held, Progress, Settlement, Turn
from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Moment, Wait, When
from mita.model.view import Finding, JobFilter, Page, QueueView, ResourceView, WorkerView
from mita.ports.clock import Clock, SystemClock
from mita.ports.ear import EVERY, Ear, Told
from mita.ports.store import SILENCE, Can, Memo
from mita.stores.shared import room as rooms

from . import amending, care, claims, intake, keys, looking, memos, repeats, settling
from .bell import Bell
from .claims import extend
from .state import Act, MemoryState


class MemoryStore:
    """One handle on a `MemoryState`. Handles that share a state are to each other as processes that share a database."""

    can = Can.OBEY_A_FAKE_CLOCK | Can.KEEP_EXACT_ORDER
    silence = SILENCE  # there is no connection that could fall silent

    def __init__(self, state: MemoryState | None = None, clock: Clock | None = None, room: int | None = None) -> None:
        self.room = room  # a test may bound what a job takes, as other stores do
        self._state = state or MemoryState()
        self._clock = clock or SystemClock()
        self._bell = Bell(self._state.lock)
        self._ears: set[Ear] = set()

    async def open(self, *, create: bool = True) -> None:
        with self._state.lock:
            if not create and not (self._state.queues or self._state.repeats or self._state.workers):
                raise StoreMissing(
                    "memory:// holds no jobs: they live in the process that enqueued them, and no other process sees them"
                )
            self._state.bells.add(self._bell)

    async def close(self) -> None:
        for ear in list(self._ears):
            await ear.close()
        with self._state.lock:
            self._state.bells.discard(self._bell)

    async def _act(self) -> AbstractContextManager[Act]:
        """Gives way once, as a call to any other store does: a loop that asks again and again must not stop the world."""
        await asyncio.sleep(0)
        return self._state.act(self._clock)

    # ------------------------------------------------------------ jobs

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        rooms.check(jobs, self.room)
        with await self._act() as act:
            return [intake.enqueue(act, job) for job in jobs]

    async def claim(self, queues: Sequence[str], limit: int, lease: Wait, worker: str) -> Turn:
        return await self.turn([], queues, limit, lease, worker)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        with await self._act() as act:
            return settling.settle_all(act, settlements, self.room)

    async def turn(
        self, settlements: Sequence[Settlement], queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> Turn:
        with await self._act() as act:
            took = settling.settle_all(act, settlements, self.room)
            turn = claims.claim(act, queues, limit, lease, worker)
            return replace(turn, took=took)

    async def extend(self, claims: Sequence[Claim], lease: Wait) -> list[Held]:
        with await self._act() as act:
            return [extend(act, claim, lease) for claim in claims]

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        with await self._act() as act:
            return claims.reap(act, limit, lease, worker)

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        with await self._act() as act:
            return [amending.amend(act, id, change) for id in ids]

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        with await self._act() as act:
            return [memos.progress(act, report) for report in reports]

    async def recall(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        with await self._act() as act:
            return memos.recall(act, claim, name, shared)

    async def remember(self, memo: Memo) -> bytes | None:
        with await self._act() as act:
            return memos.remember(act, memo, self.room)

    # ------------------------------------------------------------ repeats

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        with await self._act() as act:
            return repeats.put(act, repeat)

    async def remove_repeats(self, keys: Sequence[str]) -> list[bool]:
        with await self._act() as act:
            return [repeats.remove(act, key) for key in keys]

    async def pause_repeats(self, keys: Sequence[str]) -> list[bool]:
        with await self._act() as act:
            return [repeats.switch(act, key, RepeatState.ACTIVE, RepeatState.PAUSED) for key in keys]

    async def resume_repeats(self, keys: Sequence[str]) -> list[bool]:
        with await self._act() as act:
            return [repeats.switch(act, key, RepeatState.PAUSED, RepeatState.ACTIVE) for key in keys]

    async def due_repeats(self, limit: int) -> DueRepeats:
        with await self._act() as act:
            return repeats.due(act, limit)

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        with await self._act() as act:
            return [repeats.fire(act, firing) for firing in firings]

    async def list_repeats(self) -> list[Repeat]:
        with await self._act() as act:
            return [act.state.repeats[key] for key in sorted(act.state.repeats)]

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]:
        with await self._act() as act:
            return [act.state.repeats.get(key) for key in keys]

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
            return looking.queues(act)

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        with await self._act() as act:
            return looking.page(act, want, after, limit)

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        with await self._act() as act:
            return [looking.find(act, id) for id in ids]

    async def raw(self, id: str) -> dict[str, bytes] | None:
        with await self._act() as act:
            return looking.raw(act, id)

    async def timeline(self, id: str) -> list[Event]:
        with await self._act() as act:
            return looking.timeline(act, id)

    async def ahead(self, id: str) -> int | None:
        with await self._act() as act:
            return looking.ahead(act, id)

    async def workers(self) -> list[WorkerView]:
        with await self._act() as act:
            return looking.workers(act)

    async def resources(self, queue: str | None = None, key: str | None = None) -> list[ResourceView]:
        with await self._act() as act:
            return looking.resources(act, queue, key)

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
                keys.hold(act, (queue, key), until.moment(act.now))

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

    async def tell(self, told: Sequence[Told]) -> None:
        with await self._act() as act:
            for ear, loop in act.state.ears.items():
                with suppress(RuntimeError):  # its loop was closed under it: nobody is left to hear
                    loop.call_soon_threadsafe(ear.put, told)

    async def listened(self) -> frozenset[str]:
        with await self._act() as act:
            return frozenset(EVERY if ear.queue is None else ear.queue for ear in act.state.ears)

    async def listen(self, queue: str | None) -> Ear:
        ear = Ear(queue, self._deafen)
        with await self._act() as act:
            act.state.ears[ear] = asyncio.get_running_loop()
        self._ears.add(ear)
        return ear

    async def _deafen(self, ear: Ear) -> None:
        self._ears.discard(ear)
        with await self._act() as act:
            act.state.ears.pop(ear, None)
