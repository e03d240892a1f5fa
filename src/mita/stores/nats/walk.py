"""One claim: the walk along the queues and their priorities, and when to come again."""

import asyncio
import time
from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from mita.model.job import Claim, State
from mita.model.outcome import Busy, ClaimResult
from mita.model.time import SECOND, Moment, Wait

from . import indexes, resources, schema
from .aside import mend_queue
from .batches import Batches
from .claims import take
from .codec import QueueRecord
from .context import Context, Line
from .job_records import locate
from .pulls import pull
from .reading import is_guess, read_queue, read_record
from .tickets import Ticket, give_back
from .tx import Tx, transact

SLICE = 250  # tickets in one pull
A_MOMENT: Wait = 10
WORTH_WAITING: Wait = 20  # a ticket that is so early, and nothing else to do, is kept in hand
MOST_LOOKED_AT = 1000  # in one claim
LOOK_AHEAD = 200  # homes read to know when the next job is due; with more of them we only say: soon
SOON = SECOND
RETRY: Wait = 100  # until a line that has no leader is asked again
# seconds for which a claim believes that a queue is not paused; `care.pause` counts on it
BELIEVED = 20.0
SAME: Wait = 60 * SECOND  # a queue with so many homes is not counted again before this is over

Pulled: TypeAlias = tuple[list[Ticket], int]  # and how many places were filled


class Walk:
    """The claims of one store, one after the other."""

    def __init__(self, context: Context, batches: Batches) -> None:
        self._context = context
        self._batches = batches
        self._lock = asyncio.Lock()
        # the first line of each queue that was open when we last looked
        self._top: dict[str, Line] = {}
        # job and due time of what was given back because it came before its time
        self._early: dict[str, Moment] = {}
        self._early_queue: dict[str, str] = {}
        self._believed_until = 0.0
        self._busy: list[Busy] = []  # whom the claim that is under way sent away from a key
        # queue: believed until, and the next due time
        self._next_due: dict[str, tuple[Moment, Moment | None]] = {}

    async def claim(
        self, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        async with self._lock:
            self._busy = []
            claims, again = await self._claim(list(dict.fromkeys(queues)), limit, lease, worker)
            return ClaimResult([], claims, again, self._busy)

    async def _claim(
        self, queues: list[str], limit: int, lease: Wait, worker: str
    ) -> tuple[list[Claim], Wait | None]:
        if not queues:
            return [], None
        self._context.bell.arm(queues)
        going, ahead = await asyncio.gather(
            self._open_queues(queues), self._reach_ahead(queues[0], limit)
        )
        if await self._end_holds(going):  # somebody was woken since that pull
            self._put_back(ahead)
            ahead = {}
        claims: list[Claim] = []
        looked_at = 0
        for record in going:
            for priority in sorted(record.priorities, reverse=True):
                line = record.name, priority
                found, seen = await self._drain(
                    line, limit - len(claims), lease, worker, ahead.pop(line, None)
                )
                claims += found
                looked_at += seen
                if len(claims) >= limit or looked_at >= MOST_LOOKED_AT:
                    break
        self._put_back(ahead)
        if not looked_at:
            claims = await self._linger(going, limit, lease, worker)
        claims.sort(
            key=lambda claim: (
                queues.index(claim.queue),
                -claim.priority,
                claim.due,
                claim.ref.record.age,
            )
        )
        stopped = looked_at > 0 and time.monotonic() > self._believed_until
        if (0 < limit <= len(claims)) or looked_at >= MOST_LOOKED_AT or stopped:
            return claims, 0
        return claims, await self._again(going, peek=limit <= 0)

    async def _reach_ahead(self, queue: str, limit: int) -> dict[Line, Pulled]:
        """The first pull goes out together with the question whether its queue is paused: it seldom
        is."""
        line = self._top.get(queue)
        if line is None or limit <= 0:
            return {}
        return {line: await pull(self._context, [line], min(limit, SLICE))}

    def _put_back(self, ahead: dict[Line, Pulled]) -> None:
        """It was paused, or its turn did not come."""
        for tickets, _ in ahead.values():
            for ticket in tickets:
                give_back(self._context, ticket, 1)

    async def _open_queues(self, queues: list[str]) -> list[QueueRecord]:
        """Those that are there and not paused, in the order asked."""
        asked = time.monotonic()
        subjects = [self._context.subjects.queue(queue) for queue in queues]
        found = {
            message.subject: message.body
            for message in await self._context.reader.last(subjects, fresh=False)
        }
        records = [
            read_queue(found[subject], subject) for subject in subjects if found.get(subject)
        ]
        records = [
            await mend_queue(self._context, record) if is_guess(record) else record
            for record in records
        ]
        going = [record for record in records if record.paused is None]
        self._believed_until = asked + BELIEVED
        self._top = {
            record.name: (record.name, max(record.priorities))
            for record in going
            if record.priorities
        }
        return going

    async def _drain(
        self, line: Line, limit: int, lease: Wait, worker: str, first: Pulled | None
    ) -> tuple[list[Claim], int]:
        """Claims of one line, and how many tickets were looked at: more while some were not to be
        had and there are more."""
        claims: list[Claim] = []
        looked_at, empty = 0, False
        while len(claims) < limit and not empty and looked_at < MOST_LOOKED_AT:
            found, seen, empty = await self._sweep(line, limit - len(claims), lease, worker, first)
            first = None
            claims += found
            looked_at += seen
        return claims, looked_at

    async def _sweep(
        self, line: Line, limit: int, lease: Wait, worker: str, first: Pulled | None
    ) -> tuple[list[Claim], int, bool]:
        """The same once, and whether the line is empty now. While some are claimed the next are on
        their way, and are claimed as soon as they come; but those with keys one slice after the
        other, for nobody is to overtake at a key."""
        taking: list[asyncio.Future[list[Claim]]] = []
        looked_at, empty = 0, False
        try:
            while looked_at < limit and not empty:
                # this process stood still: the queue may be paused by now
                if time.monotonic() > self._believed_until:
                    return (
                        [claim for claims in await asyncio.gather(*taking) for claim in claims],
                        looked_at,
                        True,
                    )
                want = min(limit - looked_at, SLICE)
                tickets, delivered = first or await pull(self._context, [line], want)
                first = None
                looked_at += delivered
                empty = delivered < want
                if any(ticket.record.resource is not None for ticket in tickets):
                    await asyncio.gather(*taking)
                taking.append(asyncio.ensure_future(self._take(tickets, lease, worker)))
        finally:
            taken = await asyncio.gather(*taking)
        return [claim for claims in taken for claim in claims], looked_at, empty

    async def _linger(
        self, going: list[QueueRecord], limit: int, lease: Wait, worker: str
    ) -> list[Claim]:
        """A consumer hears of a new message a moment after the publisher does, and until then says
        that it has none."""
        lines = [
            (record.name, priority)
            for record in going
            for priority in sorted(record.priorities, reverse=True)
        ]
        if not lines or limit <= 0 or time.monotonic() > self._believed_until:
            return []
        tickets, _ = await pull(self._context, lines, limit, wait=A_MOMENT)
        order = {name: at for at, (name, _) in enumerate(lines)}
        tickets.sort(key=lambda ticket: (order[ticket.record.queue], -ticket.record.priority))
        for ticket in tickets[limit:]:
            give_back(self._context, ticket, 1)
        return await self._take(tickets[:limit], lease, worker)

    async def _take(self, tickets: list[Ticket], lease: Wait, worker: str) -> list[Claim]:
        now = self._context.clock.now()
        early = min((ticket.record.due for ticket in tickets), default=now) - now
        if 0 < early <= WORTH_WAITING:  # or it was made by a clock that is a little ahead of ours
            await asyncio.sleep((early + 1) / 1000)
            now = self._context.clock.now()
        due = self._due(tickets, now)
        return (
            await take(self._context, self._batches, due, now, lease, worker, self._busy)
            if due
            else []
        )

    def _due(self, tickets: list[Ticket], now: Moment) -> list[Ticket]:
        """Those whose time has come; the others are given back to come again then."""
        due = []
        for ticket in tickets:
            if ticket.record.due <= now:
                self._early.pop(ticket.record.id, None)
                due.append(ticket)
            else:
                self._early[ticket.record.id] = ticket.record.due
                self._early_queue[ticket.record.id] = ticket.record.queue
                give_back(
                    self._context,
                    ticket,
                    ticket.record.due * 1_000_000 - self._context.clock.exact(),
                )
        return due

    # ------------------------------------------------------------ holds

    async def _end_holds(self, going: list[QueueRecord]) -> bool:
        now = self._context.clock.now()
        over = [
            record.name for record in going if any(until <= now for until in record.holds.values())
        ]
        for name in over:
            await end_holds(self._context, name)
        return bool(over)

    # ------------------------------------------------------------ when there may be more

    async def _again(self, going: list[QueueRecord], *, peek: bool) -> Wait | None:
        now = self._context.clock.now()
        names = {record.name for record in going}
        if peek and await self._anything_ready(names, now):
            return 0
        moments = [
            moment
            for moment in [*self._early_dues(names, now), *await self._hold_ends(going)]
            if moment
        ]
        if silent := [line for line in self._context.leaderless if line[0] in names]:
            moments.append(now + RETRY)
            for line in silent:
                await schema.restore_line(self._context.wire, self._context.subjects, *line)
        for name in names:
            moment = await self._next(name, now)
            if moment is not None:
                moments.append(moment)
        return max(0, min(moments) - now) if moments else None

    def _early_dues(self, names: set[str], now: Moment) -> list[Moment]:
        over = [id for id, due in self._early.items() if due < now - SECOND]
        for id in over:
            del self._early[id], self._early_queue[id]
        return [due for id, due in self._early.items() if self._early_queue[id] in names]

    async def _hold_ends(self, going: list[QueueRecord]) -> list[Moment]:
        """The ends of holds that somebody waits for."""
        ends = []
        for record in going:
            for key, until in record.holds.items():
                if (await indexes.key_of(Tx(self._context), record.name, key)).waiting:
                    ends.append(until)
        return ends

    async def _next(self, queue: str, now: Moment) -> Moment | None:
        """When the next scheduled job of a queue is due, or sooner: exactly if it has few homes.

        Nobody depends on it: the server rings when it puts a job in the line."""
        believed = self._next_due.get(queue)
        if (
            believed is not None
            and believed[0] > now
            and not self._may_have_changed(queue, believed[0] - now)
        ):
            return now + SOON if believed[1] is not None and believed[1] <= now else believed[1]
        self._context.bell.changed.discard(queue)
        found, left = await self._context.reader.slice(
            self._context.subjects.homes(queue), 1, LOOK_AHEAD
        )
        records = [read_record(message.body, message.subject) for message in found]
        due = min((record.due for record in records if record.state is State.QUEUED), default=None)
        if left:
            due = now + SOON if due is None else min(due, now + SOON)
        self._next_due[queue] = (now + (SAME if left else SOON), due)
        return due

    def _may_have_changed(self, queue: str, believed_for: Wait) -> bool:
        """Of a queue with many homes we only say: soon. To hear that there is one more changes
        nothing."""
        return queue in self._context.bell.changed and believed_for <= SOON

    async def _anything_ready(self, names: set[str], now: Moment) -> bool:
        for name in names:
            async for found in self._context.reader.scan(self._context.subjects.lines(name)):
                ids = [
                    read_record(message.body, message.subject).id
                    for message in found
                    if message.body
                ]
                for place in (await locate(self._context, ids)).values():
                    record = place.record
                    if record is not None and record.state is State.QUEUED and record.due <= now:
                        return True
        return False


async def end_holds(context: Context, queue: str) -> None:
    """Lift the holds that have run out, and wake as many as may run."""

    async def act(tx: Tx) -> None:
        record = await indexes.queue_of(tx, queue)
        over = [key for key, until in record.holds.items() if until <= tx.now]
        if not over:
            return
        left = {key: until for key, until in record.holds.items() if key not in over}
        indexes.put_queue(tx, replace(record, holds=left))
        for key in over:
            await resources.wake(tx, queue, key)

    await transact(context, act)
