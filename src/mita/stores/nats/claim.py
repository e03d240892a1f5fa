"""Claiming: queue after queue, priority after priority, tickets are pulled and their jobs taken.

`tickets/` has the steps: pulling, taking, whose turn it is, and when to claim again."""

import asyncio
import time
from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.gate import MOST_HOLDERS
from mita.model.job import Claim
from mita.model.outcome import ClaimResult, Settlement
from mita.model.time import Wait
from mita.rules.judge import RELEASE

from .codec import QueueRecord
from .context import NatsContext
from .maintenance import restore_queue_record
from .resources import end_holds
from .settle import is_put_back, is_simple, settle
from .stream.decode import decode_queue, is_guessed
from .stream.queue_use import places_left, queue_use, recount
from .stream.slots import WAKE_SLOT, job_slots, priority_of
from .stream.transaction import StreamTransaction
from .tickets.claim_call import ClaimCall
from .tickets.claim_memory import QueuePriority
from .tickets.draining import PULL_TICKETS, TicketDrain
from .tickets.next_due import next_claim
from .tickets.priorities import lead, with_tickets
from .tickets.pull import Pulled, pull
from .tickets.ticket import Ticket, give_back_all
from .tickets.wakes import KeyOpening, due_wakes, late_wakes

# How long a claim believes that a queue is neither paused nor limited; `control` relies on it.
UNPAUSED_BELIEVED_S = 3.0
# Rounds of the event loop in which a claim sends its first pull. `settle_and_claim` sends it before
# the settlements, so that tickets arrive while those are stored.
FIRST_PULL_ROUNDS = 2


async def claim(
    context: NatsContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Claim up to `limit` due jobs of these queues for a worker."""
    async with context.claim_memory.lock:
        return await _Claiming(context, queues, limit, lease, worker).run()


async def _claim_at_once(
    context: NatsContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Claim what is ready, without waiting for more: another claim follows if that is too
    little."""
    async with context.claim_memory.lock:
        return await _Claiming(context, queues, limit, lease, worker, is_last=False).run()


async def settle_and_claim(
    context: NatsContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Settle, then claim. Both at once if no claim can depend on the settlements, or only one that
    finds too little: then a second claim follows."""
    returning = [one for one in settlements if not is_simple(one, context.limited)]
    if any(not _comes_last(context, one, queues, limit) for one in returning):
        took = await settle(context, settlements)
        return replace(await claim(context, queues, limit, lease, worker), took=took)
    first = _claim_at_once if returning else claim
    claiming = asyncio.ensure_future(first(context, queues, limit, lease, worker))
    try:
        for _ in range(FIRST_PULL_ROUNDS):
            await asyncio.sleep(0)
        took = await settle(context, settlements)
    except Rejected:  # the caller gets this error, and no claims
        await settle(context, [Settlement(one, RELEASE) for one in (await claiming).claims])
        raise
    finally:
        result = await claiming
    if returning and result.again is None:
        left = limit - len(result.claims)
        more = await claim(context, queues, left, lease, worker)
        busy = [*result.busy, *more.busy]
        result = replace(more, claims=[*result.claims, *more.claims], busy=busy)
    return replace(result, took=took)


def _comes_last(
    context: NatsContext, settlement: Settlement, queues: Sequence[str], limit: int
) -> bool:
    """True if a job that is put back by this settlement comes after all that are ready: it has no
    keys, and its queue, of which all tickets are in one line, is the only one to claim from."""
    queue = settlement.claim.queue
    if limit <= 0 or not is_put_back(settlement, context.limited):
        return False
    return list(queues) == [queue] and queue in context.claim_memory.with_one_slot


class _Claiming:
    """One claim."""

    def __init__(
        self,
        context: NatsContext,
        queues: Sequence[str],
        limit: int,
        lease: Wait,
        worker: str,
        *,
        is_last: bool = True,
    ) -> None:
        self._context = context
        self._is_last = is_last  # if it finds too little, no other claim follows at once
        self._memory = context.claim_memory
        self._queues = list(dict.fromkeys(queues))
        self._limit = limit
        self._call = ClaimCall(context, lease, worker)
        self._drain = TicketDrain(self._call)
        self._places: dict[str, int] = {}  # of limited queues: how many more jobs may start
        self._asked_for_wakes: set[str] = set()  # queues
        self._wakes: list[Ticket] = []

    async def run(self) -> ClaimResult:
        """Returns the claims, and when to claim again."""
        if not self._queues:
            return ClaimResult([], [], None, [])
        self._context.notifier.arm(self._queues)
        going, ahead = await asyncio.gather(self._unpaused(), self._pull_ahead())
        if await self._end_holds(going):  # jobs became ready after that pull
            self._give_back(ahead)
            ahead = {}
        claims = await self._open_keys(going)
        claims += await self._claim_from(going, ahead, self._limit - len(claims))
        more = self._drain.has_seen_enough
        if self._is_last and not claims and not more:
            claims = await self._claim_late(going)
        claims.sort(key=self._order)
        if more or 0 < self._limit <= len(claims):
            return ClaimResult([], claims, 0, self._call.busy)
        if not self._is_last:
            return ClaimResult([], claims, None, self._call.busy)
        open_queues = [record.name for record in going if self._places_of(record.name) > 0]
        ready_in = open_queues if self._limit <= 0 else []
        again = await next_claim(self._context, going, ready_in)
        return ClaimResult([], claims, again, self._call.busy)

    def _order(self, claim: Claim) -> tuple[int, ...]:
        at, ageing = self._queues.index(claim.queue), self._context.ageing
        own = -claim.priority, claim.due, claim.ref.record.age
        return (at, *own) if ageing is None else (at, claim.due - claim.priority * ageing, *own)

    # ------------------------------------------------------------ looking at the queues

    async def _unpaused(self) -> list[QueueRecord]:
        """Returns the queues that exist and are not paused, in the order asked for."""
        asked_at = time.monotonic()
        subjects = [self._context.subjects.queue(queue) for queue in self._queues]
        found = {
            message.subject: message.body
            for message in await self._context.reader.last(subjects, fresh=False)
        }
        records = [
            decode_queue(found[subject], subject) for subject in subjects if found.get(subject)
        ]
        records = [
            await restore_queue_record(self._context, record) if is_guessed(record) else record
            for record in records
        ]
        await self._read_limits(records)
        going = [record for record in records if record.paused is None]
        self._drain.believed_until = asked_at + UNPAUSED_BELIEVED_S
        self._memory.highest = {
            record.name: highest_sources(record) for record in going if job_slots(record.priorities)
        }
        self._memory.with_one_slot = {
            record.name for record in going if len(job_slots(record.priorities)) == 1
        }
        self._memory.with_wakes = {
            record.name for record in going if WAKE_SLOT in record.priorities
        }
        return going

    async def _read_limits(self, records: list[QueueRecord]) -> None:
        """Read how many jobs of limited queues may start. If all places of a queue are taken, check
        that from time to time."""
        limited = [record.name for record in records if record.limited]
        self._context.limited.difference_update(self._queues)
        self._context.limited.update(limited)
        for queue in limited:
            tx = StreamTransaction(self._context)
            use = await queue_use(tx, queue)
            if use is None:
                continue
            self._places[queue] = places_left(use, tx.now)
            if self._places[queue] <= 0 and self._memory.may_recount(queue, tx.now):
                await recount(self._context, queue)

    def _places_of(self, queue: str) -> int:
        """How many more jobs of this queue may start."""
        return self._places.get(queue, MOST_HOLDERS) if self._places else MOST_HOLDERS

    async def _pull_ahead(self) -> dict[QueuePriority, Pulled]:
        """Pull from the first queue while its record is read: it is rarely paused. Also pull the
        wake tickets of all queues that have such tickets."""
        queue = self._queues[0]
        sources = self._memory.highest.get(queue)
        if sources is None or self._limit <= 0 or queue in self._context.limited:
            return {}
        want = min(self._limit, PULL_TICKETS)
        if len(sources) == 1:
            wanted = {sources[0]: want}
        else:
            wanted = self._memory.turns_of(sources[0]).wanted(sources, want)
        if self._memory.with_wakes:
            self._asked_for_wakes = self._memory.with_wakes & set(self._queues)
            wanted |= self._wake_sources(self._asked_for_wakes)
        pulled = await pull(self._context, wanted)
        self._wakes = pulled.wakes
        return {(queue, priority_of(sources[0][1])): pulled}

    def _wake_sources(self, queues: set[str]) -> dict[QueuePriority, int]:
        """Returns what to pull for the wake tickets of these queues."""
        now = self._context.planned.without_near(queues)
        return {(queue, WAKE_SLOT): PULL_TICKETS for queue in now}

    def _give_back(self, ahead: dict[QueuePriority, Pulled]) -> None:
        """Return tickets that were pulled ahead and are not needed."""
        for pulled in ahead.values():
            give_back_all(self._context, pulled.tickets)

    async def _open_keys(self, going: list[QueueRecord]) -> list[Claim]:
        """Wake jobs at keys whose rate has tokens. Returns the claims of those that this claim
        starts itself: in queues where no other job can be before them."""
        with_wakes = {record.name for record in going if WAKE_SLOT in record.priorities}
        missing = self._wake_sources(with_wakes - self._asked_for_wakes)
        if missing and self._limit > 0:
            self._wakes += (await pull(self._context, missing)).wakes
        due: list[Ticket] = []
        if with_wakes and self._limit > 0:
            self._memory.forget_wakes(with_wakes, self._context.clock.now())
            late = self._context.planned.late(with_wakes)
            due = late_wakes(late, self._wakes) if late else []
        if self._wakes:
            due += due_wakes(self._context, self._wakes, with_wakes)
        if not due:
            return []
        direct = {
            record.name
            for record in going
            if len(job_slots(record.priorities)) == 1 and not record.limited
        }
        queues = {record.name: record for record in going}
        opening = KeyOpening(self._call, queues, direct, self._limit)
        claims = await opening.open(due)
        self._drain.first_is_old = opening.left_ready
        return claims

    async def _end_holds(self, going: list[QueueRecord]) -> bool:
        now = self._context.clock.now()
        over = [
            record.name for record in going if any(until <= now for until in record.holds.values())
        ]
        for name in over:
            await end_holds(self._context, name)
        return bool(over)

    # ------------------------------------------------------------ claiming

    async def _claim_from(
        self, going: list[QueueRecord], ahead: dict[QueuePriority, Pulled], limit: int
    ) -> list[Claim]:
        """Claim from queue after queue, up to `limit` jobs."""
        claims: list[Claim] = []
        for record in going:
            left = min(limit - len(claims), self._places_of(record.name))
            if left > 0 and not self._drain.has_seen_enough:
                claims += await self._claim_queue(record, left, ahead)
        self._give_back(ahead)
        return claims

    async def _claim_queue(
        self, record: QueueRecord, limit: int, ahead: dict[QueuePriority, Pulled]
    ) -> list[Claim]:
        """Claim from one queue, the priority first whose turn it is."""
        claims: list[Claim] = []
        slots, looked = job_slots(record.priorities), False
        while slots and len(claims) < limit and not self._drain.has_seen_enough:
            priority, most = await lead(self._context, record.name, slots)
            sources = [(record.name, slot) for slot in slots if priority_of(slot) == priority]
            want = min(limit - len(claims), most)
            first = ahead.pop((record.name, priority), None)
            if len(sources) == 1:
                found = await self._drain.one(sources[0], want, first)
            else:
                found = await self._drain.lanes(sources, want, first)
            claims += found
            if len(found) < want:
                slots = [slot for slot in slots if priority_of(slot) != priority]
                if not looked:
                    slots, looked = await with_tickets(self._context, record.name, slots), True
        return claims

    async def _claim_late(self, going: list[QueueRecord]) -> list[Claim]:
        """Nothing could be claimed: wait a moment for tickets of which the consumers do not know
        yet."""
        sources = [
            (record.name, slot)
            for record in going
            if self._places_of(record.name) > 0
            for slot in sorted(job_slots(record.priorities), key=priority_of, reverse=True)
        ]
        return await self._drain.late(sources, self._limit) if sources and self._limit > 0 else []


def highest_sources(record: QueueRecord) -> list[QueuePriority]:
    """Returns the sources of the highest priority of a queue: one, or one for each lane."""
    slots = job_slots(record.priorities)
    highest = max(map(priority_of, slots))
    return [(record.name, slot) for slot in slots if priority_of(slot) == highest]
