"""Pulling tickets and claiming their jobs, until there are enough or no ticket is left."""

import asyncio
import time
from collections import Counter as Counters
from collections.abc import Mapping, Sequence

from mita.model.job import Claim
from mita.model.time import Moment, Wait
from mita.stores.nats.stream.slots import WAKE_SLOT

from .claim_call import ClaimCall
from .claim_memory import QueuePriority
from .pull import Pulled, pull
from .take import take
from .take_keyed import own_rate, take_keyed
from .ticket import Ticket, give_back, give_back_all
from .turns import lane_of

PULL_TICKETS = 250
CLAIM_SCAN_TICKETS = 1000
# A claim that has found so many jobs without a token ends, so that wake tickets do not wait for it.
CLAIM_RATE_JOBS = 100
# New jobs that wait for a rate only have to be written, so a claim takes many of them at once.
LINE_TICKETS = 100
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
        self._only_line = False  # the jobs of the last slices were all put in line

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
            or self._call.has_returned
            or self._is_wake_late()
        )

    def _is_wake_late(self) -> bool:
        """True if tokens are there while this claim lets new jobs wait: those before them go first.
        The next claim wakes them."""
        if not self._call.without_token:
            return False
        return self._context.planned.has_late(self._memory.with_wakes)

    async def _take_slices(
        self, source: QueuePriority, limit: int, first: Pulled | None
    ) -> tuple[list[Claim], bool]:
        """Look at `limit` tickets of one slot of a queue, slice by slice; at more if the last ones
        were all put in line. While one slice is claimed, the next is pulled. Slices with keys wait
        for the one before: the order at a key must be kept. Returns the claims, and whether no
        ticket is left."""
        taking: list[asyncio.Future[list[Claim]]] = []
        looked_at, empty, in_line = 0, False, self._call.in_line
        more = LINE_TICKETS if self._only_line else 0
        try:
            while looked_at < limit and not empty:
                want = min(limit - looked_at + more, PULL_TICKETS)
                if (pulled := first or await self._pull({source: want})) is None:
                    empty = True
                    break
                self.looked_at += pulled.delivered
                empty = pulled.delivered < want and not (self.first_is_old and first)
                first = None
                if any(one.record.resource or one.record.gates for one in pulled.tickets):
                    await asyncio.gather(*taking)
                room = limit - looked_at
                taking.append(asyncio.ensure_future(self._take(pulled.tickets, room)))
                looked_at += pulled.delivered
        finally:
            taken = await asyncio.gather(*taking)
        self._only_line = 0 < looked_at == self._call.in_line - in_line
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
        left, pulled = list(sources), first
        while pulled or (len(claims) < limit and left and self._goes_on(queue)):
            if pulled is None:
                wanted = turns.wanted(left, min(limit - len(claims), PULL_TICKETS))
                if (pulled := await self._pull(wanted)) is None:
                    break
            self.looked_at += pulled.delivered
            came = Counters(lane_of(ticket.record) for ticket in pulled.tickets)
            chosen = pulled.tickets
            if len(chosen) > limit - len(claims):
                chosen, over = _divided(chosen, turns.chosen(came, limit - len(claims)))
                give_back_all(self._context, over)
                came.update({lane_of(ticket.record): PULL_TICKETS for ticket in over})
            turns.started(ticket.record for ticket in chosen)
            if pulled is not first or not self.first_is_old:
                left = turns.without_empty(left, _of_queue(pulled.wanted, queue), came)
            claims += await self._take(chosen, len(chosen))
            pulled = None
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
        return await self._take(tickets[:limit], limit)

    async def _take(self, tickets: list[Ticket], room: int) -> list[Claim]:
        """Claim the jobs of these tickets, at most `room`. If there are more, those that have to
        wait in line are put there, and what is left is given back."""
        now = self._context.clock.now()
        early = min((ticket.record.due for ticket in tickets), default=now) - now
        if 0 < early <= EARLY_WAIT_MS:  # or another store's clock is a little ahead of ours
            await asyncio.sleep((early + 1) / 1000)
            now = self._context.clock.now()
        due = self._due(tickets, now)
        if len(due) <= room:
            return await take(self._call, due, now) if due else []
        waiting = [ticket for ticket in due if self._is_in_line(ticket)]
        others = [ticket for ticket in due if not self._is_in_line(ticket)]
        if others[room:]:
            give_back_all(self._context, others[room:])
            self._call.has_returned = True
        for at in range(0, len(waiting), LINE_TICKETS):
            await take_keyed(self._call, waiting[at : at + LINE_TICKETS], only_line=True)
        return await take(self._call, others[:room], now) if others else []

    def _is_in_line(self, ticket: Ticket) -> bool:
        """True if the job of this ticket is likely to wait for a rate, as others before it."""
        rate = own_rate(ticket.record)
        return rate is not None and (ticket.record.queue, rate.key) in self._call.lines

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


def _divided(
    tickets: Sequence[Ticket], counts: Mapping[QueuePriority, int]
) -> tuple[list[Ticket], list[Ticket]]:
    """Returns the first tickets of each lane, so many as `counts` says, and the others."""
    left, chosen, over = dict(counts), list[Ticket](), list[Ticket]()
    for ticket in tickets:
        lane = lane_of(ticket.record)
        (chosen if left.get(lane, 0) > 0 else over).append(ticket)
        left[lane] = left.get(lane, 0) - 1
    return chosen, over


def _of_queue(wanted: Mapping[QueuePriority, int], queue: str) -> dict[QueuePriority, int]:
    """Returns what was wanted of the lanes of a queue: not of its wake tickets, or of others."""
    return {
        source: most
        for source, most in wanted.items()
        if source[0] == queue and source[1] != WAKE_SLOT
    }
