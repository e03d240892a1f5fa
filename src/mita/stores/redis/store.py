"""The store: every verb of the contract, handed to the script that does it."""

from collections.abc import Collection, Coroutine, Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection

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
from mita.ports.clock import Clock
from mita.ports.pubsub import EventMessage, Subscription
from mita.ports.store import SILENCE, Can, OnceValue
from mita.stores.shared import room as rooms

from . import address, amend, aside, care, doctor, enqueue, inspect, leases, pubsub, repeats, turns
from .context import Room
from .key_names import Keys
from .link import Link
from .notify import Notifier

RESERVE = 16_384  # bytes of a call that are left for all but the arguments or the result of a job


class RedisStore:
    """`url` is `redis://`, `rediss://`, `unix://` or `redis+cluster://`. The server's clock decides
    unless a test brings one. A store belongs to the event loop that opened it; several may be open
    in one process."""

    can = Can.OBEY_A_FAKE_CLOCK | Can.KEEP_EXACT_ORDER
    silence = SILENCE
    room: int | None = None

    def __init__(self, url: str, *, namespace: str = "mita", clock: Clock | None = None) -> None:
        self._address = address.read(url, namespace)
        self._link = Link(self._address)
        self._room = Room(self._link, Keys(self._address.namespace), clock, self._address.cluster)
        self._ears: set[Subscription] = set()
        self._bell = Notifier(self._room.keys.bell, self._connection)

    def _connection(self) -> AbstractConnection:
        return self._link.driver.connection()

    async def open(self, *, create: bool = True) -> None:
        self._link.open(self.silence)
        self._bell.silence = self.silence
        try:
            said = await doctor.info(self._link)
            doctor.check(said, self._address.shown, allow_eviction=self._address.allow_eviction)
            if not create:
                await self._must_be_used()
            most = await doctor.largest(self._link)
            self._link.driver.limit(most)
            self.room = most - RESERVE
            await self._room.queues()
        except BaseException:
            await self.close()
            raise

    async def _must_be_used(self) -> None:
        """A namespace is there as soon as it has a queue, a repeat or a worker."""
        keys = self._room.keys
        signs = (keys.queues, f"{keys.shared}:repeats", f"{keys.shared}:workers")
        if not await self._link.command("EXISTS", *signs):
            raise StoreMissing(
                f"{self._address.shown} has no Mita in namespace {self._address.namespace!r}"
            )

    async def close(self) -> None:
        for ear in list(self._ears):
            await ear.close()
        await self._bell.close()
        await self._link.close()

    # ------------------------------------------------------------ jobs

    def enqueue(self, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, list[Receipt]]:
        return enqueue.enqueue_parts(self._room, rooms.parts(jobs, self.room))

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        return await turns.settle_and_claim(self._room, [], queues, limit, lease, worker)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await turns.settle(self._room, settlements)

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        return await turns.settle_and_claim(self._room, settlements, queues, limit, lease, worker)

    async def extend(self, claimed: Sequence[Claim], lease: Wait) -> list[Held]:
        return await leases.extend(self._room, claimed, lease)

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        await repeats.deliver(self._room)
        return await leases.reap(self._room, limit, lease, worker)

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        return await amend.amend(self._room, ids, change)

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        return await leases.progress(self._room, reports)

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        return await leases.load_once(self._room, claim, name, shared)

    async def store_once(self, memo: OnceValue) -> bytes | None:
        return await leases.store_once(self._room, memo)

    # ------------------------------------------------------------ repeats

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        return await repeats.put(self._room, repeat)

    async def remove_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await repeats.remove(self._room, keys)

    async def pause_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await repeats.switch(self._room, keys, RepeatState.ACTIVE, RepeatState.PAUSED)

    async def resume_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await repeats.switch(self._room, keys, RepeatState.PAUSED, RepeatState.ACTIVE)

    async def due_repeats(self, limit: int) -> DueRepeats:
        return await repeats.due(self._room, limit)

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        return await repeats.fire(self._room, firings)

    async def list_repeats(self) -> list[Repeat]:
        return await repeats.everything(self._room)

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]:
        return await repeats.find(self._room, keys)

    async def lock(self, name: str, holder: str, keep: Wait) -> bool:
        return bool(await self._room.shared("lock", self._room.now(), name, holder, keep))

    async def unlock(self, name: str, holder: str) -> None:
        await self._room.shared("unlock", self._room.keys.bell, name, holder)

    # ------------------------------------------------------------ looking

    async def now(self) -> Moment:
        return await self._room.moment()

    async def queue_names(self) -> list[str]:
        return await self._room.queues()

    async def queues(self) -> list[QueueView]:
        return await inspect.queues(self._room)

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        return await inspect.page(self._room, want, after, limit)

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        return await inspect.find(self._room, ids) if ids else []

    async def raw(self, id: str) -> dict[str, bytes] | None:
        return await inspect.raw(self._room, id)

    async def timeline(self, id: str) -> list[TimelineEntry]:
        return await inspect.timeline(self._room, id)

    async def ahead(self, id: str) -> int | None:
        return await inspect.ahead(self._room, id)

    async def workers(self) -> list[WorkerView]:
        return await inspect.workers(self._room)

    async def resources(
        self, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        return await inspect.resources(self._room, queue, key)

    # ------------------------------------------------------------ care

    async def pause(self, queues: Sequence[str]) -> None:
        await care.pause(self._room, queues)

    async def resume(self, queues: Sequence[str]) -> None:
        await care.resume(self._room, queues)

    async def hold(self, queues: Sequence[str], key: str, until: When) -> None:
        await care.hold(self._room, queues, key, until)

    async def beat(self, worker: WorkerView, keep: Wait) -> Moment:
        return await care.beat(self._room, worker, keep)

    async def leave(self, worker: str) -> None:
        await care.leave(self._room, worker)

    async def prune(self, limit: int, most: int) -> int:
        return await care.prune(self._room, limit, most)

    async def migrate(self) -> list[str]:
        return []

    async def doctor(self) -> list[Finding]:
        return [
            *await doctor.doctor(self._room, self._address.namespace),
            await aside.doctor(self._room),
        ]

    # ------------------------------------------------------------ waking

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        return await self._bell.wait(queues, timeout)

    # ------------------------------------------------------------ telling

    async def publish(self, told: Sequence[EventMessage]) -> None:
        await pubsub.publish(self._room, told)

    async def subscribed_queues(self) -> frozenset[str]:
        return await pubsub.subscribed_queues(self._room)

    async def subscribe(self, queue: str | None) -> Subscription:
        async def close(ear: Subscription) -> None:
            self._ears.discard(ear)
            await listener.stop()

        ear = Subscription(queue, close)
        listener = pubsub.Listener(self._room, self._connection, ear)
        await listener.start()
        self._ears.add(ear)
        return ear
