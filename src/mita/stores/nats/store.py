"""The store: every verb of the contract on one JetStream stream.

What JetStream cannot do to the letter, and why:

* No fake clock: the server's own timers fire schedules and end leases of tickets.
* No exact order within a priority: a ready line is in order of arrival. A job that comes back to
  the line with an older due time (released, or woken at its key) stands behind those that came
  before it did. Priorities are exact.
* Times to live are whole seconds: what has expired is gone a second or two late.
* `ClaimResult.again` is exact for a queue with few waiting jobs; with more of them it is one
  second. No worker sleeps too long by it: the server notifies when a job is due."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from mita.errors import Rejected, StoreError, UsageError
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
from mita.ports.clock import Clock
from mita.ports.pubsub import EventMessage, Subscription
from mita.ports.store import SILENCE, Can, OnceValue
from mita.rules.judge import RELEASE
from mita.rules.names import check_namespace
from mita.stores.shared import room as rooms

from . import amend, aside, care, enqueue, inspect, leases, pubsub, repeats, schema, settle
from .batches import Batches
from .client.link import shown
from .client.wire import Wire
from .clock import ServerClock
from .context import Context
from .doctor import doctor
from .subjects import Subjects
from .walk import Walk

# Rounds of the event loop after which a claim has sent its first questions. They go before what is
# put down, so that the first tickets come while that is stored, and are claimed right behind it.
ASKS_WITHIN = 2


class NatsStore:
    """`servers` are addresses of one cluster; `options` go to the driver's `connect` as they
    are."""

    can = Can(0)
    silence = SILENCE

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        namespace: str = "mita",
        replicas: int = 1,
        options: dict[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if clock is not None:
            raise UsageError(
                "a NATS store keeps the server's time and cannot be given another clock"
            )
        if replicas not in (1, 3, 5):
            raise UsageError(f"replicas={replicas}: use 1, 3 or 5")
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._subjects = Subjects(check_namespace(namespace))
        self._replicas = replicas
        self._options = options or {}
        self._wire: Wire | None = None
        self._ears: set[Subscription] = set()

    async def open(self, *, create: bool = True) -> None:
        self._wire = Wire()
        await self._wire.start(self._servers, {"ping_interval": self.silence / 2, **self._options})
        try:
            await (
                self.migrate()
                if create
                else schema.look(self._wire, self._subjects, shown(self._servers))
            )
            clock = ServerClock(self._wire, self._subjects.stream)
            await clock.refresh()
            self._context = Context(
                self._wire, self._subjects, clock, replicated=self._replicas > 1
            )
            self._batches = Batches(self._context)
            self._walk = Walk(self._context, self._batches)
            await self._context.bell.open()
            await self._wire.flush_now()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        for ear in list(self._ears):
            await ear.close()
        if self._wire is not None:
            await self._wire.end()
            self._wire = None

    @property
    def _in(self) -> Context:
        if self._wire is None:
            raise StoreError("this store is not open")
        return self._context

    @property
    def room(self) -> int:
        """A job is one message. A quarter of it is kept for its error, timeline and progress."""
        return self._in.room

    # ------------------------------------------------------------ jobs

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        rooms.check(jobs, self.room, "raise the server's max_payload")
        return await enqueue.enqueue(self._in, jobs) if jobs else []

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        return await self._walk.claim(queues, limit, lease, worker)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if not settlements:
            return []
        try:
            took = await settle.settle(self._in, settlements)
        except Rejected as error:  # those still run, so what lists them stands
            self._batches.put_down(
                one.claim.ref for at, one in enumerate(settlements) if at not in error.rejected
            )
            raise
        self._batches.put_down(settlement.claim.ref for settlement in settlements)
        return took

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        if not all(settle.is_simple(settlement) for settlement in settlements):
            took = await self.settle(settlements)
            return replace(await self._walk.claim(queues, limit, lease, worker), took=took)
        claiming = asyncio.ensure_future(self._walk.claim(queues, limit, lease, worker))
        try:
            for _ in range(ASKS_WITHIN):
                await asyncio.sleep(0)
            took = await self.settle(settlements)
        except Rejected:  # the caller hears of that, and of no claims
            await self.settle([Settlement(claim, RELEASE) for claim in (await claiming).claims])
            raise
        finally:
            turn = await claiming
        return replace(turn, took=took)

    async def extend(self, claims: Sequence[Claim], lease: Wait) -> list[Held]:
        return await leases.extend(self._in, claims, lease) if claims else []

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        return await leases.reap(self._in, self._batches, limit, lease, worker)

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        return await amend.amend(self._in, ids, change) if ids else []

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        return await leases.progress(self._in, reports) if reports else []

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        return await leases.load_once(self._in, claim, name, shared)

    async def store_once(self, memo: OnceValue) -> bytes | None:
        return await leases.store_once(self._in, memo)

    # ------------------------------------------------------------ repeats

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        return await repeats.put(self._in, repeat)

    async def remove_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await repeats.remove(self._in, keys)

    async def pause_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await repeats.switch(self._in, keys, RepeatState.ACTIVE, RepeatState.PAUSED)

    async def resume_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await repeats.switch(self._in, keys, RepeatState.PAUSED, RepeatState.ACTIVE)

    async def due_repeats(self, limit: int) -> DueRepeats:
        return await repeats.due(self._in, limit)

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        return await repeats.fire(self._in, firings)

    async def list_repeats(self) -> list[Repeat]:
        return await repeats.everything(self._in)

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]:
        return await repeats.find(self._in, keys)

    async def lock(self, name: str, holder: str, keep: Wait) -> bool:
        return await repeats.lock(self._in, name, holder, keep)

    async def unlock(self, name: str, holder: str) -> None:
        await repeats.unlock(self._in, name, holder)

    # ------------------------------------------------------------ looking

    async def now(self) -> Moment:
        return self._in.clock.now()

    async def queues(self) -> list[QueueView]:
        return await inspect.queues(self._in)

    async def queue_names(self) -> list[str]:
        return await inspect.queue_names(self._in)

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        return await inspect.page(self._in, want, after, limit)

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        return await inspect.find(self._in, ids) if ids else []

    async def raw(self, id: str) -> dict[str, bytes] | None:
        return await inspect.raw(self._in, id)

    async def timeline(self, id: str) -> list[TimelineEntry]:
        return await inspect.events(self._in, id)

    async def ahead(self, id: str) -> int | None:
        return await inspect.ahead(self._in, id)

    async def workers(self) -> list[WorkerView]:
        return await inspect.workers(self._in)

    async def resources(
        self, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        return await inspect.resources(self._in, queue, key)

    # ------------------------------------------------------------ care

    async def pause(self, queues: Sequence[str]) -> None:
        await care.pause(self._in, queues)

    async def resume(self, queues: Sequence[str]) -> None:
        await care.resume(self._in, queues)

    async def hold(self, queues: Sequence[str], key: str, until: When) -> None:
        await care.hold(self._in, queues, key, until)

    async def beat(self, worker: WorkerView, keep: Wait) -> Moment:
        return await care.beat(self._in, worker, keep)

    async def leave(self, worker: str) -> None:
        await care.leave(self._in, worker)

    async def prune(self, limit: int, most: int) -> int:
        return await care.prune(self._in, limit, most)

    async def migrate(self) -> list[str]:
        if self._wire is None:
            raise StoreError("this store is not open")
        return await schema.ensure(self._wire, self._subjects, self._replicas)

    async def doctor(self) -> list[Finding]:
        return [*await doctor(self._in, self._replicas), await aside.doctor(self._in)]

    # ------------------------------------------------------------ waking

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        return await self._in.bell.wait(queues, timeout)

    # ------------------------------------------------------------ telling

    async def publish(self, told: Sequence[EventMessage]) -> None:
        await pubsub.publish(self._in, told)

    async def subscribed_queues(self) -> frozenset[str]:
        return await pubsub.subscribed_queues(self._in)

    async def subscribe(self, queue: str | None) -> Subscription:
        async def close(ear: Subscription) -> None:
            self._ears.discard(ear)
            await listener.stop()

        ear = Subscription(queue, close)
        listener = pubsub.Listener(self._in, ear)
        await listener.start()
        self._ears.add(ear)
        return ear
