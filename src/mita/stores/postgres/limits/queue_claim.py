"""Claiming from one queue that has a limit or jobs of fair groups.

One claim of such a queue is made at a time: it takes the queue's advisory lock, and the row lock of
its limit, against which settlements give tokens back. Then it reads the first jobs of each group,
decides in Python which of them start, and takes these."""

from msgspec import json
from msgspec.structs import replace

from mita.model.gate import MOST_HOLDERS, StoredLimit
from mita.model.job import Claim, WhenBusy
from mita.model.outcome import Busy
from mita.model.time import Moment, Wait
from mita.rules.gates import after_starts, keys_of, next_token_at, places
from mita.rules.readable import BAD, salvaged
from mita.stores.postgres import codec, resources
from mita.stores.postgres.codec import ShownJob, UnreadableRow
from mita.stores.postgres.context import PostgresContext, Query, RoundTrip, RoundTrips, query
from mita.stores.postgres.server.arrays import numbers, texts
from mita.stores.postgres.throughput.watermarks import ResourceKey

from . import admit
from .bounds import CLAIM_SCAN_JOBS, QUEUE_LOCK
from .further_keys import FurtherKey, hold_further
from .key_states import GatedJob, KeyStates, read_states
from .ready_order import ReadyOrder


class QueueClaim:
    """One claim of one queue."""

    def __init__(
        self, context: PostgresContext, queue: str, limit: int, lease: Wait, worker: str
    ) -> None:
        self._context = context
        self._queue, self._limit, self._lease, self._worker = queue, limit, lease, worker
        self.claims: list[Claim] = []
        self.busy: list[Busy] = []
        self.cut_short = False
        self.next_start: Moment | None = None  # as far as the clock can tell

    def run(self) -> RoundTrips[None]:
        """Claim up to `limit` jobs."""
        examined = 0
        while True:
            part = yield from self._claim_part(self._limit - len(self.claims))
            examined += part.examined
            if not part.is_unknown or len(self.claims) >= self._limit:
                return
            self.cut_short = examined >= CLAIM_SCAN_JOBS or not part.examined
            if self.cut_short:
                return

    def _claim_part(self, limit: int) -> "RoundTrips[StartedJobs]":
        context, queue = self._context, self._queue
        _, limits, rows = yield RoundTrip(
            resources.lock(context, [(queue, QUEUE_LOCK)]),
            query("claim_queue", queue=queue),
            query("claim_show", queue=queue, limit=limit, watermark=context.watermarks.lease),
        )
        self.header = header = codec.queue_header(rows.pop(0)[0])
        stored, tat_us = (codec.stored_limit(limits[0][0]), limits[0][1]) if limits else (None, 0)
        free = MOST_HOLDERS
        if stored is not None:
            free = places(stored, header.running, tat_us, header.now)
        jobs = [ShownJob(*row[1:]) for row in rows]
        started = StartedJobs(self, jobs, min(limit, free))
        yield from started.decide()
        if stored is not None and stored.interval_us:
            tat_us = after_starts(stored, tat_us, header.now, len(started.free))
        yield from self._write(started, stored, tat_us)
        self._next_start(started, stored, tat_us)
        return started

    def _write(
        self, started: "StartedJobs", stored: StoredLimit | None, tat_us: int
    ) -> RoundTrips[None]:
        """Start the jobs, and store what that changes. The commit is synced if a crash that undid
        it would give a place, a token or a key away. Turns of fair groups may be undone."""
        tokens = None
        if stored is not None and stored.interval_us and started.free:
            tokens = query("claim_tokens", queue=self._queue, tat_us=tat_us)
        start = started.start(self._lease, self._worker)
        trip = RoundTrip(
            start,
            *started.others(self._queue),
            tokens,
            last=True,
            synced=stored is not None or started.states is not None,
        )
        answers = yield trip
        if start is not None:
            found, _ = codec.claims(answers[0])
            # the time of a start is the time for which the tokens were counted
            now = self.header.now if started.states is None else started.states.now
            by_id = {claim.id: replace(claim, at=now) for claim in found}
            self.claims += [by_id[job.id] for job in started.free if job.id in by_id]
        self.busy += admit.as_busy(started.away) + admit.replaced(trip, answers)

    def _next_start(self, started: "StartedJobs", stored: StoredLimit | None, tat_us: int) -> None:
        """When to claim from this queue again. A full queue notifies when a run ends."""
        header = self.header
        self.next_start = due = header.now if started.has_more else header.next_due
        if stored is None or due is None:
            return
        running = header.running + len(started.free)
        if stored.concurrency is not None and running >= stored.concurrency:
            self.next_start = due if due > header.now else None
        elif stored.interval_us:
            self.next_start = max(due, next_token_at(stored, tat_us, header.now))


class StartedJobs:
    """Which of the shown jobs start, and which are turned away."""

    def __init__(self, claim: QueueClaim, jobs: list[ShownJob], room: int) -> None:
        self._claim, self._jobs, self._room = claim, jobs, room
        self._context = claim._context  # noqa: SLF001
        self.free: list[ShownJob] = []
        self.away: list[admit.TurnedAway] = []
        self.states: KeyStates | None = None
        self._unreadable: list[UnreadableRow] = []
        self._gated: dict[str, GatedJob] = {}
        self.has_more = False

    @property
    def examined(self) -> int:
        """How many jobs were started or turned away."""
        return len(self.free) + len(self.away)

    @property
    def is_unknown(self) -> bool:
        """Whether more jobs must be read to know which starts next."""
        return self._order.is_unknown and len(self.free) < self._room

    def decide(self) -> RoundTrips[None]:
        """Decide which jobs start, in their order."""
        header, hints = self._claim.header, self._context.hints
        ours: set[ResourceKey] = set()
        if self._room:
            ours = yield from self._lock_keys()
        order = self._order = ReadyOrder(
            self._jobs, header.turns or (), hints.ageing, header.group_jobs
        )
        while len(self.free) < self._room and (job := order.first()) is not None:
            if self._starts(job, ours):
                self.free.append(job)
                order.start(job)
            else:
                order.drop(job)
        self.has_more = order.first() is not None or order.is_unknown

    def _lock_keys(self) -> RoundTrips[set[ResourceKey]]:
        """Lock the keys of the shown jobs, and read them. Returns the keys that are ours."""
        queue = self._claim._queue  # noqa: SLF001
        keys: dict[ResourceKey, bool] = {}
        for job in self._jobs:
            if job.resource is None and job.gates is None:
                continue
            try:
                gated = GatedJob(job.resource, job.limit, codec.read_gates(job.gates))
            except BAD as error:
                self._unreadable.append((job.id, codec.unreadable_reason("gates", error)))
                continue
            self._gated[job.id] = gated
            limited = {gate.key for gate in gated.gates if gate.limit is not None}
            for key in keys_of(gated.resource, gated.gates):
                counts = key == gated.resource or key in limited
                keys[queue, key] = keys.get((queue, key), False) or counts
        if not keys:
            return set()
        names = list(keys)[: admit.ADMITTED_KEYS]
        locked, rows = yield RoundTrip(
            resources.try_lock(self._context, names),
            read_states(self._context, names, [keys[name] for name in names]),
        )
        found = {name: row for name, row, (got,) in zip(names, rows, locked, strict=True) if got}
        self.states = KeyStates(list(found), list(found.values()))
        return set(found)

    def _starts(self, job: ShownJob, ours: set[ResourceKey]) -> bool:
        """Whether this job starts. A job that does not, waits or ends, or is left as it is."""
        queue, gated = self._claim._queue, self._gated.get(job.id)  # noqa: SLF001
        if gated is None:
            return job.resource is None and job.gates is None
        keys = {(queue, key) for key in keys_of(gated.resource, gated.gates)}
        when_busy = _when_busy(job, self._unreadable)
        if self.states is None or when_busy is None:
            return False
        if not keys <= ours:
            self._claim.cut_short = True  # another session has locked one of its keys
            return False
        gates = self.states.gates_of(queue, gated)
        gate = self.states.closed_gate(queue, gates)
        if gate is None:
            self.states.pass_gates(queue, gates)
            return True
        policy = self.states.block(queue, gate, when_busy)
        self.away.append(admit.TurnedAway(job.id, job.task, queue, gate.key, policy))
        return False

    def start(self, lease: Wait, worker: str) -> Query | None:
        """Start the jobs that may."""
        if not self.free:
            return None
        ids = texts([job.id for job in self.free])
        return query("claim_start", ids=ids, lease=lease, worker=worker)

    def others(self, queue: str) -> list[Query | None]:
        """The statements beside the start."""
        turns = self._turns(queue) if self._claim.header.is_fair else None
        store = None if self.states is None else self.states.store()
        further = [
            FurtherKey(queue, key, job.id)
            for job in self.free
            if (gated := self._gated.get(job.id)) is not None
            for key in keys_of(None, gated.gates)
            if key != gated.resource
        ]
        away = admit.turn_away(self.away)
        return [hold_further(further), *away, store, turns, resources.aside(self._unreadable)]

    def _turns(self, queue: str) -> Query | None:
        changed = {
            priority: turns
            for priority, turns in self._order.priorities.items()
            if turns.is_changed
        }
        if not changed:
            return None
        finished = [json.encode(turns.ahead_of_all()).decode() for turns in changed.values()]
        return query(
            "claim_turns",
            queue=queue,
            priorities=numbers(changed),
            virtuals=numbers(turns.virtual for turns in changed.values()),
            finished=texts(finished),
        )


def _when_busy(job: ShownJob, unreadable: list[UnreadableRow]) -> WhenBusy | None:
    """The busy policy of a job; None if its record cannot be read."""
    found = salvaged({"limit": job.limit, "when_busy": job.when_busy})
    if found.limit == job.limit and found.when_busy == job.when_busy:
        return found.when_busy
    unreadable.append((job.id, found.error or ""))
    return None
