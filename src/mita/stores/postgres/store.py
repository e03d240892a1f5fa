"""The store: every verb of the contract, handed to one of a few connections.

The first works (turns, leases), one beside it claims while it settles, another does what is short
(enqueuing, amending, memos), the last reads what may take long. So a page of a million jobs holds
up no heartbeat. Each is made when first needed."""

import asyncio
from collections.abc import Collection, Sequence

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
from mita.rules.names import check_namespace
from mita.stores.shared import room as rooms
from mita.stores.shared.apart import settle_apart, turn_apart

from . import (
    amend,
    arrays,
    aside,
    care,
    claim,
    doctor,
    enqueue,
    inspect,
    migrate,
    once,
    pubsub,
    repeats,
    settle,
)
from .commits import Commits
from .connection import ANSWER_SLOWLY, TUNED, UNTUNED, is_pooled, parse
from .enqueue_batcher import Gather
from .joining import Joining
from .line import Line, Place
from .notify import Notifier
from .parallel_turn import Turning
from .statements import Statements
from .subscriptions import Ears

RESERVE = 1024  # bytes of a list that are left for all but the arguments or the result of a job


class PostgresStore(Joining):
    """`url` is what libpq understands; the namespace is a schema. A clock is for tests: otherwise
    the server's decides."""

    can = Can.OBEY_A_FAKE_CLOCK | Can.KEEP_EXACT_ORDER | Can.ENQUEUE_IN_YOUR_TRANSACTION
    silence = SILENCE

    @property
    def room(self) -> int:
        return arrays.LARGEST // 2 - RESERVE

    def __init__(self, url: str, *, namespace: str = "mita", clock: Clock | None = None) -> None:
        told, named = parse(url)
        space = check_namespace(named if named is not None and namespace == "mita" else namespace)
        self._place = Place(told, Statements(space, given_clock=clock is not None), clock)

    async def open(self, *, create: bool = True) -> None:
        self._place.silence = self.silence
        self._work = Line(self._place, TUNED)
        self._beside = Line(self._place, TUNED)
        self._side = Line(self._place, TUNED)
        self._read = Line(self._place, UNTUNED, ANSWER_SLOWLY)
        self._turning = Turning(self._work, self._beside)
        self._gather = Gather(self._enqueue)
        self._ears = Ears(self._place, self._side, self._read)
        self._bell = Notifier(self._place)
        self._place.ring = self._bell.ring
        self._commits = Commits(self._side, self._bell.ring)
        try:
            connection = await self._side.connection()
            if create:
                await migrate.migrate(connection, self._place, removing=False)
            else:
                await migrate.look(connection, self._place)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._ears.close()
        if self._commits is not None:
            await self._commits.close()
        await asyncio.gather(
            *(line.close() for line in (self._work, self._beside, self._side, self._read))
        )
        await self._bell.close()

    # ------------------------------------------------------------ jobs

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        if not jobs:
            return []
        return [
            receipt
            for part in rooms.parts(jobs, self.room)
            for receipt in await self._gather.enqueue(part)
        ]

    async def _enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        receipts = await self._side.do(lambda act: enqueue.enqueue(act, jobs), again=True)
        self._place.queues.update(
            job.queue for job, receipt in zip(jobs, receipts, strict=True) if receipt.created
        )
        return receipts

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        return await self._work.do(
            lambda act: claim.claim(act, queues, limit, lease, worker), again=True
        )

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await settle_apart(self._settle, settlements) if settlements else []

    async def _settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._work.do(lambda act: settle.settle(act, settlements), again=True)

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        return await turn_apart(
            lambda: self._turning.settle_and_claim(settlements, queues, limit, lease, worker),
            self._settle,
            lambda: self.claim(queues, limit, lease, worker),
            settlements,
        )

    async def extend(self, claimed: Sequence[Claim], lease: Wait) -> list[Held]:
        return (
            await self._work.do(lambda act: claim.extend(act, claimed, lease), again=True)
            if claimed
            else []
        )

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        return await self._work.do(
            lambda act: claim.reap(act, self._place.sql, limit, lease, worker), again=True
        )

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        return (
            await self._side.do(lambda act: amend.amend(act, self._place.sql, ids, change))
            if ids
            else []
        )

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        return (
            await self._side.do(lambda act: once.progress(act, reports), again=True)
            if reports
            else []
        )

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        return await self._side.do(lambda act: once.load_once(act, claim, name, shared), again=True)

    async def store_once(self, memo: OnceValue) -> bytes | None:
        return await self._side.do(lambda act: once.store_once(act, memo), again=True)

    # ------------------------------------------------------------ repeats

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        return await self._side.do(lambda act: repeats.put(act, repeat), again=True)

    async def remove_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await self._side.do(lambda act: repeats.remove(act, keys)) if keys else []

    async def pause_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await self._switch(keys, RepeatState.ACTIVE, RepeatState.PAUSED)

    async def resume_repeats(self, keys: Sequence[str]) -> list[bool]:
        return await self._switch(keys, RepeatState.PAUSED, RepeatState.ACTIVE)

    async def _switch(self, keys: Sequence[str], old: RepeatState, new: RepeatState) -> list[bool]:
        return await self._side.do(lambda act: repeats.switch(act, keys, old, new)) if keys else []

    async def due_repeats(self, limit: int) -> DueRepeats:
        return await self._side.do(lambda act: repeats.due(act, limit), again=True)

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        if not firings:
            return []
        won, queues = await self._side.do(lambda act: repeats.fire(act, firings))
        self._place.queues |= queues
        return won

    async def list_repeats(self) -> list[Repeat]:
        return await self._side.do(repeats.everything, again=True)

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]:
        return await self._side.do(lambda act: repeats.find(act, keys), again=True) if keys else []

    async def lock(self, name: str, holder: str, keep: Wait) -> bool:
        return await self._side.do(lambda act: repeats.lock(act, name, holder, keep), again=True)

    async def unlock(self, name: str, holder: str) -> None:
        await self._side.do(lambda act: repeats.unlock(act, name, holder), again=True)

    # ------------------------------------------------------------ looking

    async def now(self) -> Moment:
        return await self._side.do(inspect.now, again=True)

    async def queue_names(self) -> list[str]:
        return await self._side.do(inspect.queue_names, again=True)

    async def queues(self) -> list[QueueView]:
        return await self._read.do(inspect.queues, again=True)

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        return await self._read.do(
            lambda act: inspect.page(act, self._place.sql, want, after, limit), again=True
        )

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._side.do(lambda act: inspect.find(act, ids), again=True) if ids else []

    async def raw(self, id: str) -> dict[str, bytes] | None:
        return await self._read.do(lambda act: aside.raw(act, self._place.sql, id), again=True)

    async def timeline(self, id: str) -> list[TimelineEntry]:
        return await self._side.do(lambda act: inspect.timeline(act, id), again=True)

    async def ahead(self, id: str) -> int | None:
        return await self._read.do(lambda act: inspect.ahead(act, id), again=True)

    async def workers(self) -> list[WorkerView]:
        return await self._side.do(inspect.workers, again=True)

    async def resources(
        self, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        return await self._read.do(lambda act: inspect.resources(act, queue, key), again=True)

    # ------------------------------------------------------------ care

    async def pause(self, queues: Sequence[str]) -> None:
        await self._side.do(lambda act: care.pause(act, queues), again=True)

    async def resume(self, queues: Sequence[str]) -> None:
        await self._side.do(lambda act: care.resume(act, queues), again=True)

    async def hold(self, queues: Sequence[str], key: str, until: When) -> None:
        await self._side.do(lambda act: care.hold(act, queues, key, until), again=True)

    async def beat(self, worker: WorkerView, keep: Wait) -> Moment:
        return await self._side.do(lambda act: care.beat(act, worker, keep), again=True)

    async def leave(self, worker: str) -> None:
        await self._side.do(lambda act: care.leave(act, worker), again=True)

    async def prune(self, limit: int, most: int) -> int:
        return await self._side.do(lambda act: care.prune(act, limit, most), again=True)

    async def migrate(self) -> list[str]:
        return await migrate.migrate(await self._side.connection(), self._place, removing=True)

    async def doctor(self) -> list[Finding]:
        pooled = is_pooled(await self._read.connection())
        findings = await self._read.do(lambda act: doctor.doctor(act, pooled), again=True)
        return [
            *findings,
            await self._read.do(lambda act: aside.doctor(act, self._place.sql), again=True),
        ]

    # ------------------------------------------------------------ waking

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        return await self._bell.wait(queues, timeout)

    # ------------------------------------------------------------ telling

    async def publish(self, told: Sequence[EventMessage]) -> None:
        if told:
            await self._side.do(lambda act: pubsub.publish(act, told))

    async def subscribed_queues(self) -> frozenset[str]:
        return await self._side.do(pubsub.subscribed_queues, again=True)

    async def subscribe(self, queue: str | None) -> Subscription:
        return await self._ears.subscribe(queue)
