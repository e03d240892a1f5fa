"""The store: every verb of the contract, handed to the thread that does it."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from mita.errors import StoreError
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
from mita.ports.ids import new_id
from mita.ports.pubsub import EVERY, EventMessage, PolledFeed, Subscription, poll_into, stop
from mita.ports.store import SILENCE, Can, OnceValue
from mita.rules.names import check_namespace
from mita.stores.shared import room as rooms
from mita.stores.shared.apart import settle_apart, turn_apart

from . import (
    amend,
    aside,
    care,
    claim,
    connection,
    enqueue,
    inspect,
    once,
    pubsub,
    repeats,
    settle,
    timeline,
)
from .clock import FileClock
from .context import Tx, is_text
from .line import Line
from .notify import Notifier
from .peek import peek
from .statements import Statements


class SqliteStore:
    """`path` is the database file. Two threads of our own: one writes, one reads."""

    can = Can.OBEY_A_FAKE_CLOCK | Can.KEEP_EXACT_ORDER
    silence = SILENCE  # there is no connection that could fall silent
    room: int | None = None

    def __init__(self, path: Path, namespace: str = "mita", clock: Clock | None = None) -> None:
        self._path = path.absolute()  # one file, wherever the process goes
        self._namespace = check_namespace(namespace)
        self._clock = clock
        self._ears: set[Subscription] = set()

    async def open(self, *, create: bool = True) -> None:
        if not create:
            await asyncio.to_thread(peek, self._path, self._namespace)
        sql = Statements(self._namespace)
        self._bell = Notifier(self._path)
        self._write = Line(
            self._path, sql, FileClock(self._path, sql, self._clock), self._bell.ring, writes=True
        )
        self._read = Line(
            self._path, sql, FileClock(self._path, sql, self._clock), self._bell.ring, writes=False
        )
        try:
            if create:
                await self.migrate()
            self.room = await self._write.do(
                lambda tx: connection.room(tx.connection), durable=False
            )
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        for ear in list(self._ears):
            await ear.close()
        self._bell.close()
        await self._read.close()
        await self._write.close()

    # ------------------------------------------------------------ jobs

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        rooms.check(jobs, self.room)
        return await self._write.do(lambda tx: enqueue.enqueue(tx, jobs)) if jobs else []

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        return await self._write.do(
            lambda tx: claim.claim(tx, queues, limit, lease, worker), durable=False
        )

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await settle_apart(self._settle, settlements) if settlements else []

    async def _settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._write.do(lambda tx: settle.settle(tx, settlements))

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        def both(tx: Tx) -> ClaimResult:
            took = settle.settle(tx, settlements)
            claimed = claim.claim(tx, queues, limit, lease, worker)
            return replace(claimed, took=took)

        return await turn_apart(
            lambda: self._write.do(both, durable=bool(settlements)),
            self._settle,
            lambda: self.claim(queues, limit, lease, worker),
            settlements,
        )

    async def extend(self, claimed: Sequence[Claim], lease: Wait) -> list[Held]:
        return (
            await self._write.do(lambda tx: claim.extend(tx, claimed, lease), durable=False)
            if claimed
            else []
        )

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        return await self._write.do(lambda tx: claim.reap(tx, limit, lease, worker), durable=False)

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        return await self._write.do(lambda tx: amend.amend(tx, ids, change)) if ids else []

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        return await self._write.do(lambda tx: once.progress(tx, reports)) if reports else []

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        return await self._read.do(lambda tx: once.load_once(tx, claim, name, shared))

    async def store_once(self, memo: OnceValue) -> bytes | None:
        return await self._write.do(lambda tx: once.store_once(tx, memo))

    # ------------------------------------------------------------ repeats

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        return await self._write.do(lambda tx: repeats.put(tx, repeat))

    async def remove_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await self._write.do(lambda tx: repeats.remove(tx, keys))

    async def pause_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await self._write.do(
            lambda tx: repeats.switch(tx, keys, RepeatState.ACTIVE, RepeatState.PAUSED)
        )

    async def resume_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await self._write.do(
            lambda tx: repeats.switch(tx, keys, RepeatState.PAUSED, RepeatState.ACTIVE)
        )

    async def due_repeats(self, limit: int) -> DueRepeats:
        return await self._read.do(lambda tx: repeats.due(tx, limit))

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        return await self._write.do(lambda tx: repeats.fire(tx, firings)) if firings else []

    async def list_repeats(self) -> list[Repeat]:
        return await self._read.do(repeats.everything)

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]:
        return await self._read.do(lambda tx: repeats.find(tx, keys)) if keys else []

    async def lock(self, name: str, holder: str, keep: Wait) -> bool:
        return await self._write.do(lambda tx: repeats.lock(tx, name, holder, keep), durable=False)

    async def unlock(self, name: str, holder: str) -> None:
        await self._write.do(lambda tx: repeats.unlock(tx, name, holder))

    # ------------------------------------------------------------ looking

    async def now(self) -> Moment:
        return await self._read.do(lambda tx: tx.now)

    async def queue_names(self) -> list[str]:
        return await self._read.do(
            lambda tx: [name for name, _ in tx.rows("queues") if is_text([name])]
        )

    async def queues(self) -> list[QueueView]:
        return await self._read.do(inspect.queues)

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        return await self._read.do(lambda tx: inspect.page(tx, want, after, limit))

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._read.do(lambda tx: inspect.find(tx, ids)) if ids else []

    async def raw(self, id: str) -> dict[str, bytes] | None:
        return await self._read.do(lambda tx: aside.raw(tx, id))

    async def timeline(self, id: str) -> list[TimelineEntry]:
        return await self._read.do(lambda tx: timeline.timeline(tx, id))

    async def ahead(self, id: str) -> int | None:
        return await self._read.do(lambda tx: inspect.ahead(tx, id))

    async def workers(self) -> list[WorkerView]:
        return await self._read.do(inspect.workers)

    async def resources(
        self, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        return await self._read.do(lambda tx: inspect.resources(tx, queue, key))

    # ------------------------------------------------------------ care

    async def pause(self, queues: Sequence[str]) -> None:
        await self._write.do(lambda tx: care.pause(tx, queues))

    async def resume(self, queues: Sequence[str]) -> None:
        await self._write.do(lambda tx: care.resume(tx, queues))

    async def hold(self, queues: Sequence[str], key: str, until: When) -> None:
        await self._write.do(lambda tx: care.hold(tx, queues, key, until))

    async def beat(self, worker: WorkerView, keep: Wait) -> Moment:
        return await self._write.do(lambda tx: care.beat(tx, worker, keep), durable=False)

    async def leave(self, worker: str) -> None:
        await self._write.do(lambda tx: tx.run("leave", id=worker))

    async def prune(self, limit: int, most: int) -> int:
        return await self._write.do(lambda tx: care.prune(tx, limit, most))

    async def migrate(self) -> list[str]:
        return await self._write.do(partial(care.migrate, namespace=self._namespace))

    async def doctor(self) -> list[Finding]:
        return await self._read.do(lambda tx: care.doctor(tx, self._path, self._namespace))

    # ------------------------------------------------------------ waking

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        return await self._bell.wait(queues, timeout)

    # ------------------------------------------------------------ telling

    async def publish(self, told: Sequence[EventMessage]) -> None:
        if told:
            await self._write.do(lambda tx: pubsub.publish(tx, told), durable=False)

    async def subscribed_queues(self) -> frozenset[str]:
        return await self._read.do(pubsub.subscribed_queues)

    async def subscribe(self, queue: str | None) -> Subscription:
        id, named = new_id(), EVERY if queue is None else queue
        follower = pubsub.Follower(
            await self._write.do(lambda tx: pubsub.subscribe(tx, id, named), durable=False)
        )
        bell = Notifier(self._path)

        async def renew() -> None:
            await self._write.do(lambda tx: pubsub.subscribe(tx, id, named), durable=False)

        async def close(ear: Subscription) -> None:
            self._ears.discard(ear)
            await stop(following)
            bell.close()
            with suppress(StoreError):
                await self._write.do(lambda tx: pubsub.unsubscribe(tx, id), durable=False)

        async def nap(seconds: float) -> bool:
            await bell.wait((), seconds)
            return False

        ear = Subscription(queue, close)
        trail = PolledFeed(renew, lambda: self._read.do(follower.news), nap)
        following = asyncio.get_running_loop().create_task(poll_into(ear, trail))
        self._ears.add(ear)
        return ear
