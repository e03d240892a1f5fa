"""The store: each operation is one change of the file."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from msgspec.structs import replace

from mita.model.audit import AuditEntry
from mita.model.flow import Arrival
from mita.model.gate import StoredLimit
from mita.model.history import RunCounts, StoredCounts
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
from mita.model.view import (
    Finding,
    JobFilter,
    Page,
    QueueView,
    ResourceView,
    StoredGroup,
    WorkerView,
)
from mita.ports.clock import Clock, SystemClock
from mita.ports.pubsub import EVERY, SUBSCRIPTION_RETENTION, EventMessage, Subscription
from mita.ports.store import ASKED, REPEATS, SILENCE_S, Can, OnceValue
from mita.rules.audit import AUDIT_ENTRIES, AUDIT_KEEP, matches
from mita.rules.timeline import for_people

from . import claim, history, keys, repeats, views
from . import jobs as verbs
from .file import Content, ContentFile, Until

POLL_S = 0.01  # between two looks at the file
MESSAGES = 1000  # that are kept for slow subscribers


class ExampleStore:
    """One handle on the jobs in a file."""

    can = Can.OBEY_A_FAKE_CLOCK | Can.KEEP_EXACT_ORDER | Can.SHARE_EXACTLY
    silence = SILENCE_S  # not used: a file always answers
    ageing: Wait | None = None
    room = None  # a job may have any size

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._file = ContentFile(path)
        self._clock = clock or SystemClock()
        self._seen: dict[str, int] = {}
        self._subscriptions: dict[Subscription, asyncio.Task[None]] = {}

    async def open(self, *, create: bool = True) -> None:
        if create:
            self._file.create()
        self._file.must_exist()
        self._seen = self._file.read().notified

    async def close(self) -> None:
        for subscription in list(self._subscriptions):
            await subscription.close()

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[Content]:
        await asyncio.sleep(0)  # others run first, as with a store that has a server
        with self._file.change() as content:
            content.now, content.ageing = max(content.now, self._clock.now()), self.ageing
            yield content

    # ------------------------------------------------------------ jobs

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        async with self._change() as content:
            return [verbs.enqueue(content, job) for job in jobs]

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        return await self.settle_and_claim([], queues, limit, lease, worker)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        async with self._change() as content:
            return [verbs.settle(content, settlement) for settlement in settlements]

    async def settle_and_claim(
        self,
        settlements: Sequence[Settlement],
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
    ) -> ClaimResult:
        async with self._change() as content:
            took = [verbs.settle(content, settlement) for settlement in settlements]
            return replace(claim.claim(content, queues, limit, lease, worker), took=took)

    async def extend(self, claims: Sequence[Claim], lease: Wait) -> list[Held]:
        async with self._change() as content:
            return [_extend(content, claim, lease) for claim in claims]

    async def reap(self, limit: int, lease: Wait, worker: str) -> list[Claim]:
        async with self._change() as content:
            keys.open_keys(content, content.queues)
            keys.wake_all(content)
            return claim.reap(content, limit, lease, worker)

    async def amend(self, ids: Sequence[str], change: Change) -> list[Answer]:
        async with self._change() as content:
            return [verbs.amend(content, id, change) for id in ids]

    async def arrive(self, arrivals: Sequence[Arrival]) -> list[Answer]:
        async with self._change() as content:
            return [verbs.arrive(content, arrival) for arrival in arrivals]

    async def progress(self, reports: Sequence[Progress]) -> list[bool]:
        async with self._change() as content:
            held = [content.held_by(report.claim) for report in reports]
            for record, report in zip(held, reports, strict=True):
                if record is not None:
                    record.change(progress=report.report)
            return [record is not None for record in held]

    async def load_once(self, claim: Claim, name: str, shared: bool) -> bytes | None:
        async with self._change() as content:
            return _once_value(content, claim, name, shared)

    async def once_values(self, id: str) -> dict[str, bytes]:
        async with self._change() as content:
            record = content.records.get(id)
            return {} if record is None else dict(record.once_values)

    async def store_once(self, value: OnceValue) -> bytes | None:
        async with self._change() as content:
            record = content.held_by(value.claim)
            if record is None:
                return None
            if value.keep is None:
                return record.once_values.setdefault(value.name, value.value)
            if (found := _once_value(content, value.claim, value.name, shared=True)) is not None:
                return found
            content.once_values[value.name] = Until(value.value, content.now + value.keep)
            return value.value

    # ------------------------------------------------------------ the audit log

    async def record_audit(self, entries: Sequence[AuditEntry]) -> None:
        async with self._change() as content:
            for entry in entries:
                content.audit.setdefault(entry.id, replace(entry, at=content.now))
            kept = sorted(content.audit.items(), key=lambda one: one[0])[-AUDIT_ENTRIES:]
            before = content.now - AUDIT_KEEP
            content.audit = {id: entry for id, entry in kept if entry.at > before}

    async def audit_page(
        self, after: str | None, limit: int, who: str | None, what: str | None, target: str | None
    ) -> list[AuditEntry]:
        async with self._change() as content:
            found = [
                entry
                for id, entry in sorted(content.audit.items(), key=lambda one: one[0], reverse=True)
                if (after is None or id < after)
                and entry.at > content.now - AUDIT_KEEP
                and matches(entry, who, what, target)
            ]
            return found[:limit]

    # ------------------------------------------------------------ repeats and locks

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        async with self._change() as content:
            return repeats.put(content, repeat)

    async def remove_repeats(self, keys: Sequence[str]) -> list[bool]:
        async with self._change() as content:
            content.notify(REPEATS)
            return [content.repeats.pop(key, None) is not None for key in keys]

    async def pause_repeats(self, keys: Sequence[str], reason: str = "") -> list[bool]:
        async with self._change() as content:
            return [repeats.switch(content, key, RepeatState.ACTIVE, reason) for key in keys]

    async def resume_repeats(self, keys: Sequence[str]) -> list[bool]:
        async with self._change() as content:
            return [repeats.switch(content, key, RepeatState.PAUSED) for key in keys]

    async def report_repeat(self, key: str, failed: bool) -> int:
        async with self._change() as content:
            return repeats.report(content, key, failed)

    async def due_repeats(self, limit: int) -> DueRepeats:
        async with self._change() as content:
            return repeats.due(content, limit)

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        async with self._change() as content:
            return [repeats.fire(content, firing) for firing in firings]

    async def list_repeats(self) -> list[Repeat]:
        async with self._change() as content:
            return [content.repeats[key] for key in sorted(content.repeats)]

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]:
        async with self._change() as content:
            return [content.repeats.get(key) for key in keys]

    async def lock(self, name: str, holder: str, keep: Wait) -> bool:
        async with self._change() as content:
            held = content.locks.get(name)
            if held and held.value != holder and not views.is_over(content, held.until):
                return False
            content.locks[name] = Until(holder, content.now + keep)
            return True

    async def unlock(self, name: str, holder: str) -> None:
        async with self._change() as content:
            held = content.locks.get(name)
            if held is not None and held.value == holder:
                del content.locks[name]
                content.notify(REPEATS)

    # ------------------------------------------------------------ inspect

    async def now(self) -> Moment:
        async with self._change() as content:
            return content.now

    async def queue_names(self) -> list[str]:
        async with self._change() as content:
            return sorted(content.queues)

    async def queues(self) -> list[QueueView]:
        async with self._change() as content:
            return [views.queue(content, name) for name in sorted(content.queues)]

    async def page(self, want: JobFilter, after: str | None, limit: int) -> Page:
        async with self._change() as content:
            return views.page(content, want, after, limit)

    async def dead_groups(
        self, queue: str | None, task: str | None, limit: int
    ) -> list[StoredGroup]:
        async with self._change() as content:
            return views.dead_groups(content, queue, task, limit)

    async def find(self, ids: Sequence[str]) -> list[Job | None]:
        async with self._change() as content:
            found = [content.records.get(id) for id in ids]
            return [None if record is None else record.job for record in found]

    async def raw(self, id: str) -> dict[str, bytes] | None:
        [job] = await self.find([id])
        return None if job is None else verbs.packed(job)

    async def timeline(self, id: str) -> list[TimelineEntry]:
        async with self._change() as content:
            return for_people(content.records[id].events) if id in content.records else []

    async def ahead(self, id: str) -> int | None:
        async with self._change() as content:
            record = content.records.get(id)
            return None if record is None else views.ahead(content, record.job)

    async def workers(self) -> list[WorkerView]:
        async with self._change() as content:
            alive = sorted(content.workers.items())
            return [worker for _, (worker, until) in alive if until > content.now]

    async def resources(
        self, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        async with self._change() as content:
            return views.resources(content, queue, key)

    # ------------------------------------------------------------ control and maintenance

    async def pause(self, queues: Sequence[str]) -> None:
        async with self._change() as content:
            for queue in queues:
                if content.queues.get(queue) is None:
                    content.queues[queue] = content.now

    async def resume(self, queues: Sequence[str]) -> None:
        async with self._change() as content:
            for queue in queues:
                if content.queues.get(queue) is not None:
                    content.queues[queue] = None
                    content.notify(queue)

    async def hold(self, queues: Sequence[str], key: str, until: When) -> None:
        async with self._change() as content:
            for queue in queues:
                keys.hold(content, (queue, key), until.moment(content.now))

    async def limit(
        self, queues: Sequence[str], key: str | None, limit: StoredLimit | None
    ) -> None:
        async with self._change() as content:
            for queue in queues:
                keys.set_limit(content, (queue, key), limit)

    async def beat(self, worker: WorkerView, keep: Wait) -> Moment:
        async with self._change() as content:
            alive = replace(worker, seen=content.now)
            content.workers[worker.id] = (alive, content.now + keep)
            return content.now

    async def leave(self, worker: str) -> None:
        async with self._change() as content:
            content.workers.pop(worker, None)

    async def prune(self, limit: int, most: int) -> int:
        async with self._change() as content:
            return views.prune(content, limit, most)

    async def migrate(self) -> list[str]:
        return []

    async def doctor(self) -> list[Finding]:
        async with self._change() as content:
            return [Finding("jobs", f"{len(content.records)} in {self._file.path}")]

    # ------------------------------------------------------------ notify

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        wanted = None if queues is None else {*queues, ASKED, REPEATS}
        end = time.monotonic() + timeout
        while True:
            notified = self._file.read().notified
            new = {
                topic
                for topic, count in notified.items()
                if count > self._seen.get(topic, 0) and (wanted is None or topic in wanted)
            }
            if new or time.monotonic() >= end:
                self._seen |= {topic: notified[topic] for topic in new}
                return frozenset(new)
            await asyncio.sleep(min(POLL_S, max(0.0, end - time.monotonic())))

    # ------------------------------------------------------------ history of runs

    async def count_runs(self, counts: Sequence[RunCounts]) -> None:
        async with self._change() as content:
            history.add(content, counts)

    async def run_history(
        self, since: Moment, hourly: bool, queue: str | None, task: str | None
    ) -> list[StoredCounts]:
        async with self._change() as content:
            return history.shown(content, since, hourly, queue, task)

    # ------------------------------------------------------------ publish and subscribe

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        async with self._change() as content:
            content.messages += messages
            surplus = max(0, len(content.messages) - MESSAGES)
            del content.messages[:surplus]
            content.dropped += surplus

    async def subscribed_queues(self) -> frozenset[str]:
        async with self._change() as content:
            alive = [queue for queue, until in content.subscribers.values() if until > content.now]
            return frozenset(EVERY if queue is None else queue for queue in alive)

    async def subscribe(self, queue: str | None) -> Subscription:
        subscription, id = Subscription(queue, self._unsubscribe), uuid4().hex
        async with self._change() as content:
            content.subscribers[id] = (queue, content.now + SUBSCRIPTION_RETENTION)
            seen = content.dropped + len(content.messages)
        following = asyncio.create_task(self._follow(subscription, id, seen))
        self._subscriptions[subscription] = following
        return subscription

    async def _follow(self, subscription: Subscription, id: str, seen: int) -> None:
        """Give the subscription what was published since `seen`, until it is cancelled."""
        try:
            while True:
                content = self._file.read()
                if seen < content.dropped:
                    subscription.cut()
                subscription.put(content.messages[max(0, seen - content.dropped) :])
                seen = content.dropped + len(content.messages)
                _, until = content.subscribers[id]
                if until - self._clock.now() < SUBSCRIPTION_RETENTION // 2:
                    async with self._change() as content:
                        until = content.now + SUBSCRIPTION_RETENTION
                        content.subscribers[id] = (subscription.queue, until)
                await asyncio.sleep(POLL_S)
        finally:
            with self._file.change() as content:
                content.subscribers.pop(id, None)

    async def _unsubscribe(self, subscription: Subscription) -> None:
        following = self._subscriptions.pop(subscription)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _extend(content: Content, claim: Claim, lease: Wait) -> Held:
    record = content.held_by(claim)
    if record is None:
        return Held.LOST
    record.change(lease_until=content.now + lease)
    return Held.CANCEL if record.job.asked == "cancel" else Held.HELD


def _once_value(content: Content, claim: Claim, name: str, shared: bool) -> bytes | None:
    if not shared:
        record = content.records.get(claim.id)
        return None if record is None else record.once_values.get(name)
    found = content.once_values.get(name)
    if found is None or views.is_over(content, found.until):
        return None
    value: bytes = found.value
    return value
