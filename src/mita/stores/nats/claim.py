"""Claiming: queue after queue, priority after priority, tickets are pulled and their jobs taken.

`tickets/` has the steps: pulling, taking, and when to claim again."""

import asyncio
import time
from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import Claim
from mita.model.outcome import ClaimResult, Settlement
from mita.model.time import Moment, Wait
from mita.rules.judge import RELEASE

from .codec import QueueRecord
from .context import NatsContext
from .maintenance import restore_queue_record
from .resources import end_holds
from .settle import is_simple, settle
from .stream.decode import decode_queue, is_guessed
from .stream.subjects import WAKE_SLOT
from .tickets.claim_call import ClaimCall
from .tickets.claim_memory import QueuePriority
from .tickets.next_due import next_claim
from .tickets.pull import Pulled, pull
from .tickets.take import take
from .tickets.ticket import Ticket, give_back
from .tickets.wakes import open_keys

PULL_TICKETS = 250
CLAIM_SCAN_TICKETS = 1000
# A consumer knows of a new ticket a moment after its publisher does; an idle claim waits for it.
IDLE_PULL_MS: Wait = 10
EARLY_WAIT_MS: Wait = 20  # a claim waits so long for tickets that are not due yet
# How long a claim believes that a queue is not paused; `control.pause` relies on it.
UNPAUSED_BELIEVED_S = 20.0
# Rounds of the event loop in which a claim sends its first pull. `settle_and_claim` sends it before
# the settlements, so that tickets arrive while those are stored.
FIRST_PULL_ROUNDS = 2


async def claim(
    context: NatsContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Claim up to `limit` due jobs of these queues for a worker."""
    async with context.claim_memory.lock:
        return await _Claiming(context, queues, limit, lease, worker).run()


async def settle_and_claim(
    context: NatsContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Settle, then claim. Both at once if no claim can depend on the settlements."""
    if not all(is_simple(settlement) for settlement in settlements):
        took = await settle(context, settlements)
        return replace(await claim(context, queues, limit, lease, worker), took=took)
    claiming = asyncio.ensure_future(claim(context, queues, limit, lease, worker))
    try:
        for _ in range(FIRST_PULL_ROUNDS):
            await asyncio.sleep(0)
        took = await settle(context, settlements)
    except Rejected:  # the caller gets this error, and no claims
        await settle(context, [Settlement(one, RELEASE) for one in (await claiming).claims])
        raise
    finally:
        result = await claiming
    return replace(result, took=took)


class _Claiming:
    """One claim."""

    def __init__(
        self, context: NatsContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> None:
        self._context = context
        self._memory = context.claim_memory
        self._queues = list(dict.fromkeys(queues))
        self._limit = limit
        self._call = ClaimCall(context, lease, worker)
        self._believed_until = 0.0  # until then the queues count as not paused
        self._too_late = False  # that time is over, and there may be more tickets
        self._asked_for_wakes: set[str] = set()  # queues
        self._wakes: list[Ticket] = []
        self._woke = False  # jobs became ready after the first pull

    async def run(self) -> ClaimResult:
        """Returns the claims, and when to claim again."""
        if not self._queues:
            return ClaimResult([], [], None, [])
        self._context.notifier.arm(self._queues)
        going, ahead = await asyncio.gather(self._unpaused(), self._pull_ahead())
        if await self._end_holds(going):  # jobs became ready after that pull
            self._give_back(ahead)
            ahead = {}
        self._woke = await self._open_keys(going)
        claims, looked_at = await self._claim_from(going, ahead)
        more = looked_at >= CLAIM_SCAN_TICKETS or self._too_late
        if not claims and not more:
            claims = await self._claim_late(going)
        claims.sort(key=self._order)
        if more or 0 < self._limit <= len(claims):
            return ClaimResult([], claims, 0, self._call.busy)
        again = await next_claim(self._context, going, look_at_ready=self._limit <= 0)
        return ClaimResult([], claims, again, self._call.busy)

    def _order(self, claim: Claim) -> tuple[int, int, Moment, int]:
        return self._queues.index(claim.queue), -claim.priority, claim.due, claim.ref.record.age

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
        going = [record for record in records if record.paused is None]
        self._believed_until = asked_at + UNPAUSED_BELIEVED_S
        self._memory.highest = {
            record.name: (record.name, max(slots)) for record in going if (slots := _slots(record))
        }
        self._memory.with_wakes = {
            record.name for record in going if WAKE_SLOT in record.priorities
        }
        return going

    async def _pull_ahead(self) -> dict[QueuePriority, Pulled]:
        """Pull from the first queue while its record is read: it is rarely paused. Also pull the
        wake tickets of all queues that have such tickets."""
        source = self._memory.highest.get(self._queues[0])
        if source is None or self._limit <= 0:
            return {}
        if self._memory.with_wakes:
            self._asked_for_wakes = self._memory.with_wakes & set(self._queues)
        sources = [source, *((queue, WAKE_SLOT) for queue in self._asked_for_wakes)]
        pulled = await pull(self._context, sources, min(self._limit, PULL_TICKETS))
        self._wakes = pulled.wakes
        return {source: pulled}

    def _give_back(self, ahead: dict[QueuePriority, Pulled]) -> None:
        """Return tickets that were pulled ahead and are not needed."""
        for pulled in ahead.values():
            for ticket in pulled.tickets:
                give_back(self._context, ticket, 1)

    async def _open_keys(self, going: list[QueueRecord]) -> bool:
        """Wake jobs at keys whose rate has tokens. Returns True if there were such keys."""
        with_wakes = {record.name for record in going if WAKE_SLOT in record.priorities}
        missing = with_wakes - self._asked_for_wakes
        if missing and self._limit > 0:
            sources = [(queue, WAKE_SLOT) for queue in missing]
            self._wakes += (await pull(self._context, sources, PULL_TICKETS)).wakes
        if not self._wakes:
            return False
        return await open_keys(self._context, self._wakes, with_wakes)

    async def _end_holds(self, going: list[QueueRecord]) -> bool:
        now = self._context.clock.now()
        over = [
            record.name for record in going if any(until <= now for until in record.holds.values())
        ]
        for name in over:
            await end_holds(self._context, name)
        return bool(over)

    async def _claim_from(
        self, going: list[QueueRecord], ahead: dict[QueuePriority, Pulled]
    ) -> tuple[list[Claim], int]:
        """Claim from queue after queue, highest priority first. Returns the claims, and how many
        tickets were looked at."""
        claims: list[Claim] = []
        looked_at = 0
        for record in going:
            for priority in sorted(_slots(record), reverse=True):
                source = record.name, priority
                left = self._limit - len(claims)
                found, seen = await self._drain(source, left, ahead.pop(source, None))
                claims += found
                looked_at += seen
                if len(claims) >= self._limit or looked_at >= CLAIM_SCAN_TICKETS:
                    break
        self._give_back(ahead)
        return claims, looked_at

    async def _drain(
        self, source: QueuePriority, limit: int, first: Pulled | None
    ) -> tuple[list[Claim], int]:
        """Claim from one queue and priority, until `limit` is reached or no ticket is left. Returns
        the claims, and how many tickets were looked at."""
        claims: list[Claim] = []
        looked_at, empty = 0, False
        while len(claims) < limit and not empty and looked_at < CLAIM_SCAN_TICKETS:
            found, seen, empty = await self._take_slices(source, limit - len(claims), first)
            first = None
            claims += found
            looked_at += seen
        return claims, looked_at

    async def _take_slices(
        self, source: QueuePriority, limit: int, first: Pulled | None
    ) -> tuple[list[Claim], int, bool]:
        """Look at `limit` tickets of one queue and priority, slice by slice. While one slice is
        claimed, the next is pulled. Slices with resource keys wait for the one before: the order at
        a key must be kept. Returns the claims, how many tickets were looked at, and whether no
        ticket is left."""
        taking: list[asyncio.Future[list[Claim]]] = []
        looked_at, empty = 0, False
        try:
            while looked_at < limit and not empty:
                if time.monotonic() > self._believed_until:  # the queue may be paused by now
                    self._too_late = empty = True
                    break
                want = min(limit - looked_at, PULL_TICKETS)
                tickets, delivered, _ = first or await pull(self._context, [source], want)
                looked_at += delivered
                empty = delivered < want and not (self._woke and first)
                first = None
                if any(ticket.record.resource or ticket.record.gates for ticket in tickets):
                    await asyncio.gather(*taking)
                taking.append(asyncio.ensure_future(self._take(tickets)))
        finally:
            taken = await asyncio.gather(*taking)
        return [claim for claims in taken for claim in claims], looked_at, empty

    async def _claim_late(self, going: list[QueueRecord]) -> list[Claim]:
        """Nothing could be claimed: wait a moment for tickets of which the consumers do not know
        yet."""
        sources = [
            (record.name, priority)
            for record in going
            for priority in sorted(_slots(record), reverse=True)
        ]
        if not sources or self._limit <= 0 or time.monotonic() > self._believed_until:
            return []
        tickets = (await pull(self._context, sources, self._limit, wait=IDLE_PULL_MS)).tickets
        order = {name: at for at, (name, _) in enumerate(sources)}
        tickets.sort(key=lambda ticket: (order[ticket.record.queue], -ticket.record.priority))
        for ticket in tickets[self._limit :]:
            give_back(self._context, ticket, 1)
        return await self._take(tickets[: self._limit])

    async def _take(self, tickets: list[Ticket]) -> list[Claim]:
        now = self._context.clock.now()
        early = min((ticket.record.due for ticket in tickets), default=now) - now
        if 0 < early <= EARLY_WAIT_MS:  # or another store's clock is a little ahead of ours
            await asyncio.sleep((early + 1) / 1000)
            now = self._context.clock.now()
        due = self._due(tickets, now)
        return await take(self._call, due, now) if due else []

    def _due(self, tickets: list[Ticket], now: Moment) -> list[Ticket]:
        """Returns the tickets that are due. The others are given back until they are."""
        due = []
        for ticket in tickets:
            record = ticket.record
            if record.due <= now:
                self._memory.early.pop(record.id, None)
                due.append(ticket)
            else:
                self._memory.early[record.id] = record.due, record.queue
                delay_ns = record.due * 1_000_000 - self._context.clock.exact_ns()
                give_back(self._context, ticket, delay_ns)
        return due


def _slots(record: QueueRecord) -> list[int]:
    """Returns the slots of a queue's job tickets."""
    return [slot for slot in record.priorities if slot != WAKE_SLOT]
