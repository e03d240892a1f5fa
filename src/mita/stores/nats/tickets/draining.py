"""Pulling tickets and claiming their jobs, until there are enough or no ticket is left."""

import asyncio
import time
from collections import Counter as Counters
from collections.abc import Sequence

from mita.model.job import Claim
from mita.model.time import Moment, Wait
from mita.stores.nats.codec import slot_of

from .claim_call import ClaimCall
from .claim_memory import QueuePriority
from .pull import Pulled, pull
from .take import take
from .ticket import Ticket, give_back, give_back_all

PULL_TICKETS = 250
CLAIM_SCAN_TICKETS = 1000
# A claim that has found so many jobs without a token ends, so that wake tickets do not wait for it.
CLAIM_RATE_JOBS = 100
# A consumer knows of a new ticket a moment after its publisher does; an idle claim waits for it.
IDLE_PULL_MS: Wait = 10
EARLY_WAIT_MS: Wait = 20  # a claim waits so long for tickets that are not due yet


class TicketDrain:
    """The tickets of one claim. `believed_until` is how long what the claim read of its queues is
    believed, `too_late` that there may be more tickets after that. `looked_at` counts tickets.
    `first_is_old`: jobs became ready after the first pull, so there may be more tickets than it
    delivered."""

    def __init__(self, call: ClaimCall) -> None:
        self._call = call
        self._context = call.context
        self._memory = call.context.claim_memory
        self.believed_until = 0.0
        self.too_late = False
        self.looked_at = 0
        self.first_is_old = False

    async def one(self, source: QueuePriority, limit: int, first: Pulled | None) -> list[Claim]:
        """Claim from one slot of a queue, until `limit` is reached or no ticket is left. `first`
        was pulled before."""
        claims: list[Claim] = []
        empty = False
        while len(claims) < limit and not empty and self._goes_on(source[0]):
            found, empty = await self._take_slices(source, limit - len(claims), first)
            first = None
            claims += found
        return claims

    def _goes_on(self, queue: str) -> bool:
        return not self.has_seen_enough and queue not in self._call.full

    @property
    def has_seen_enough(self) -> bool:
        """True if the claim ends here, although there may be more tickets."""
        return (
            self.looked_at >= CLAIM_SCAN_TICKETS
            or self._call.without_token >= CLAIM_RATE_JOBS
            or self.too_late
        )

    async def _take_slices(
        self, source: QueuePriority, limit: int, first: Pulled | None
    ) -> tuple[list[Claim], bool]:
        """Look at `limit` tickets of one slot of a queue, slice by slice. While one slice is
        claimed, the next is pulled. Slices with keys wait for the one before: the order at a key
        must be kept. Returns the claims, and whether no ticket is left."""
        taking: list[asyncio.Future[list[Claim]]] = []
        looked_at, empty = 0, False
        try:
            while looked_at < limit and not empty:
                want = min(limit - looked_at, PULL_TICKETS)
                if (pulled := first or await self._pull({source: want})) is None:
                    empty = True
                    break
                looked_at += pulled.delivered
                self.looked_at += pulled.delivered
                empty = pulled.delivered < want and not (self.first_is_old and first)
                first = None
                if any(one.record.resource or one.record.gates for one in pulled.tickets):
                    await asyncio.gather(*taking)
                taking.append(asyncio.ensure_future(self._take(pulled.tickets)))
        finally:
            taken = await asyncio.gather(*taking)
        return [claim for claims in taken for claim in claims], empty

    async def _pull(self, wanted: dict[QueuePriority, int], wait: Wait = 0) -> Pulled | None:
        """Pull tickets, unless what was read of the queues may have changed: they may be paused or
        limited by now. What was delivered in the meantime is given back."""
        if time.monotonic() > self.believed_until:
            self.too_late = True
            return None
        pulled = await pull(self._context, wanted, wait)
        if time.monotonic() > self.believed_until:
            self.too_late = True
            give_back_all(self._context, pulled.tickets)
            return None
        return pulled

    async def lanes(
        self, sources: Sequence[QueuePriority], limit: int, first: Pulled | None
    ) -> list[Claim]:
        """Claim from the lanes of one priority of a queue in turns (`turns`), until `limit` is
        reached or no ticket is left."""
        queue, turns = sources[0][0], self._memory.turns_of(sources[0])
        claims: list[Claim] = []
        if first:
            turns.started(ticket.record for ticket in first.tickets)
            claims += await self._take(first.tickets)
        left = list(sources)
        while len(claims) < limit and left and self._goes_on(queue):
            wanted = turns.wanted(left, min(limit - len(claims), PULL_TICKETS))
            if (pulled := await self._pull(wanted)) is None:
                break
            self.looked_at += pulled.delivered
            came = Counters((queue, slot_of(ticket.record)) for ticket in pulled.tickets)
            turns.started(ticket.record for ticket in pulled.tickets)
            empty = {source for source, most in wanted.items() if came[source] < most}
            left = turns.without(left, empty)
            claims += await self._take(pulled.tickets)
        return claims

    async def late(self, sources: Sequence[QueuePriority], limit: int) -> list[Claim]:
        """Wait a moment for tickets of these sources, and claim up to `limit` of them."""
        pulled = await self._pull(dict.fromkeys(sources, limit), IDLE_PULL_MS)
        self.too_late = False
        if pulled is None:
            return []
        order = {name: at for at, (name, _) in enumerate(sources)}
        tickets = pulled.tickets
        tickets.sort(key=lambda ticket: (order[ticket.record.queue], -ticket.record.priority))
        give_back_all(self._context, tickets[limit:])
        return await self._take(tickets[:limit])

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
