"""Claiming jobs.

A claim is one statement for all queues: `claim.sql`, or `claim_limited.sql` if one of them has
holds or ever had limits. It takes jobs without keys at once. Jobs with keys are only shown;
`limits.admit` then decides which of them may run. When the clock has opened keys (a hold has
ended, a rate has tokens again), the jobs that waited there are woken first and the claim is made
again. Queues with a limit or with fair groups are claimed one by one (`limits.queue_claim`)."""

import time
from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import Moment, Wait

from . import codec, resources
from .codec import Rows
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .limits import admit
from .limits.bounds import CLAIM_SCAN_JOBS
from .limits.due_keys import ClaimOrder, DueKeys
from .limits.hints import CLAIM_STATEMENTS
from .limits.queue_claim import QueueClaim
from .server.arrays import numbers, texts
from .settle import SettleBatch, after_a_lost_answer, settle_part
from .throughput.watermarks import queue_priorities


class ClaimSearch:
    """One claim on its way through the queues."""

    def __init__(
        self, context: PostgresContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> None:
        self._context = context
        self.queues = list(dict.fromkeys(queues))
        self.limit, self.lease, self.worker = limit, lease, worker
        names, priorities = queue_priorities(self.queues)
        self._where = {
            "queues": texts(names),
            "priorities": numbers(priorities),
            "names": texts(self.queues),
        }
        self.claims: list[Claim] = []
        self.busy: list[Busy] = []
        self.looked_at = 0
        self.cut_short = False
        self._woke = False
        self._due: DueKeys | None = None

    @property
    def room(self) -> int:
        """How many jobs the next statement may take or show."""
        return min(self.limit - len(self.claims), CLAIM_SCAN_JOBS)

    def queries(self, *, synced: bool, besides: int = 0) -> list[Query]:
        """The claim, and from time to time a read of the first waiting jobs for the watermarks.
        `besides` jobs are taken beside it."""
        self._room = self.room - besides
        self._read_from = self._context.watermarks.read_from(self.queues)
        self._started_s = time.monotonic()
        queries = [self._claim(self._room, synced=synced)]
        if self._read_from is not None:
            read_from = numbers(self._read_from)
            queries.append(query("claim_watermarks", **self._where, watermarks=read_from))
        return queries

    def look(self) -> RoundTrip:
        """A claim by itself. Its commit does not wait for the disk. If a crash of the server undoes
        it, the job waits as before and runs again; the first run has a token that no other run
        gets, so it can settle nothing. Jobs with keys are taken by `limits.admit`, with a synced
        commit: undone, their keys would be free while they run."""
        return RoundTrip(*self.queries(synced=False), first=True, last=True)

    def _claim(self, limit: int, *, synced: bool) -> Query:
        watermarks, hints = self._context.watermarks, self._context.hints
        self._is_mixed, self._is_limited = hints.mixed, hints.are_limited(self.queues)
        return query(
            CLAIM_STATEMENTS[self._is_limited, self._is_mixed],
            **self._where,
            watermarks=numbers(watermarks.of(self.queues)),
            behind=watermarks.behind,
            ageing=hints.ageing,
            keys_first=not self._woke,
            limit=limit,
            lease=self.lease,
            worker=self.worker,
            unsynced=not synced,
        )

    def any_due(self) -> Query:
        """Whether any job is due, of the queues that need no care."""
        names, priorities = queue_priorities(
            [queue for queue in self.queues if queue not in self._context.hints.careful]
        )
        return query("claim_any_due", queues=texts(names), priorities=numbers(priorities))

    def read(self, answers: list[Rows]) -> Rows:
        """Read the answers to `queries`. Returns the rows of the jobs taken or shown."""
        rows = answers[0]
        self.header = header = codec.claim_header(rows.pop(0)[0])
        watermarks = self._context.watermarks
        hold = watermarks.still_hold(header.now, header.behind, len(rows))
        if hold and self._read_from is not None:
            firsts = [due for _, due in answers[1]]
            took_s = time.monotonic() - self._started_s
            watermarks.move(self.queues, header.now, firsts, self._read_from, took_s)
        self.looked_at += len(rows)
        return rows

    def go_on(self, rows: Rows) -> RoundTrips[bool]:
        """Deal with the jobs that a claim has shown. Returns whether to claim again."""
        hints = self._context.hints
        if (self.header.ended_holds or self.header.due_keys) and not self._woke:
            if (again := (yield from self._wake())) is None:
                return True
            rows = again
        header = self.header
        if self._is_limited or header.is_limited:
            hints.saw(self.queues, is_limited=header.is_limited, careful=header.careful)
            if not self._is_limited:
                return True
        if header.careful:
            yield from self._leave_woken()
            yield from self._queue_by_queue(header.careful)
            return False
        hints.mixed = header.mixed
        if header.mixed and not self._is_mixed:
            yield from self._leave_woken()
            return True
        found_all = len(rows) < self._room and not header.is_short
        self.claims += yield from self._limited(rows) if self._is_limited else self._plain(rows)
        if found_all or self.room <= 0 or self.cut_short:
            return False
        self.cut_short = self.looked_at >= CLAIM_SCAN_JOBS or not rows
        return not self.cut_short

    def _wake(self) -> RoundTrips[Rows | None]:
        """Wake the jobs that wait at keys which the clock has opened. Returns the rows of the claim
        that follows in the same transaction; None: there was none."""
        self._woke = True
        if self.header.ended_holds:
            [ended] = yield RoundTrip(query("key_ended_holds", queues=self._where["names"]))
            yield from resources.wake_all(self._context, ended)
        if not self.header.due_keys:
            return None
        due = DueKeys(self._context, self.header.due_keys)
        yield from due.lock()
        if self.header.careful or not 0 < due.count < self.room:
            yield RoundTrip(*due.release(), last=True)
            return None
        return (yield from self._claim_with(due))

    def _claim_with(self, due: DueKeys) -> RoundTrips[Rows]:
        """Claim in the transaction that wakes these jobs."""
        self._due = due
        show = [one for one in due.show() if one is not None]
        answers = yield RoundTrip(*show, *self.queries(synced=True, besides=due.count))
        due.rows = answers[0]
        return self.read(answers[len(show) :])

    def begin(self) -> RoundTrips[Rows]:
        """The first claim. It begins with keys whose waiting jobs the clock wakes now, as far as
        this store remembers."""
        hints = self._context.hints
        if self.limit > 1 and not hints.careful and (keys := hints.due_keys(self.queues)):
            due = DueKeys(self._context, keys)
            yield from due.lock()
            if 0 < due.count < self.room:
                self._woke = True
                return (yield from self._claim_with(due))
            if due.count:
                yield RoundTrip(*due.release(), last=True)
        return self.read((yield self.look()))

    def _leave_woken(self) -> RoundTrips[None]:
        """The jobs that were woken stay in the queue."""
        if self._due is not None:
            self._due = None
            self._context.topics.update(self.queues)
            yield RoundTrip(query("key_behind"), last=True)

    def _plain(self, rows: Rows) -> RoundTrips[list[Claim]]:
        """The jobs that are claimed from queues without limits."""
        shown = codec.plain_claims(rows)
        if keyed := [claim for claim in shown if claim.resource is not None]:
            admitted = yield from admit.admit(self._context, keyed, self.lease, self.worker)
            yield from self._read_admitted(admitted, len(keyed))
            taken = {claim.id for claim in admitted.claims}
            return [claim for claim in shown if claim.resource is None or claim.id in taken]
        return shown

    def _limited(self, rows: Rows) -> RoundTrips[list[Claim]]:
        """The jobs that are claimed, in their order."""
        shown, unreadable = codec.shown_claims(rows, first=1)  # after the header
        due, self._due = self._due, None
        leaves = False
        if due is not None:
            is_full = len(rows) == self._room
            order = ClaimOrder(self.queues, self._context.hints.ageing)
            shown, leaves = due.joined(shown, unreadable, order, is_full=is_full)
        keyed = [one for one in shown if one.claim.resource is not None or one.claim.gates]
        locked = None
        if due is not None:
            candidates = [(one.claim.id, one.limit, one.when_busy) for one in keyed]
            locked = admit.LockedJobs(due.states, candidates, leaves)
        claims = [one.claim for one in shown]
        if not keyed and not unreadable and locked is None:
            return claims
        admitted = yield from admit.admit(
            self._context,
            [one.claim for one in keyed],
            self.lease,
            self.worker,
            locked,
            resources.aside(unreadable),
        )
        yield from self._read_admitted(admitted, len(keyed))
        started = {claim.id: claim for claim in admitted.claims}
        left = {one.claim.id for one in keyed}.difference(started)
        return [started.get(claim.id, claim) for claim in claims if claim.id not in left]

    def _read_admitted(self, admitted: admit.Admitted, shown: int) -> RoundTrips[None]:
        self.busy += admitted.busy
        decided = len(admitted.claims) + len(admitted.busy)
        self.cut_short = self.cut_short or decided < shown
        if admitted.busy or admitted.has_other_wakes:
            yield from self._read_header()

    def _read_header(self) -> RoundTrips[None]:
        """A claim of no job, for its header: a job that was blocked just now may wait for the
        clock."""
        [[(header, *_)]] = yield RoundTrip(self._claim(0, synced=False), last=True)
        self.header = codec.claim_header(header)

    def _queue_by_queue(self, careful: list[str]) -> RoundTrips[None]:
        """Claim from the queues in their order: with care from those that need it, and from the
        others together."""
        context = self._context
        moments: list[Moment | None] = []
        for queue in self.queues:
            if self.cut_short or (self.limit and self.room <= 0):
                break
            if queue in careful:
                part = QueueClaim(context, queue, self.room, self.lease, self.worker)
                yield from part.run()
                self.claims += part.claims
                self.busy += part.busy
                self.cut_short = part.cut_short
                moments.append(part.next_start)
            else:
                found = yield from claim(context, [queue], self.room, self.lease, self.worker)
                self.claims += found.claims
                self.busy += found.busy
                self.cut_short = found.again == 0
        yield from self._read_header()
        due = [moment for moment in (self.header.next_due, *moments) if moment is not None]
        self.header = replace(self.header, next_due=min(due, default=None))

    def result(self, took: list[bool]) -> ClaimResult:
        """What was claimed, and when to claim again."""
        if self.cut_short or (self.limit and len(self.claims) >= self.limit):
            return ClaimResult(took, self.claims, 0, self.busy)
        now, next_due = self.header.now, self.header.next_due
        wait = None if next_due is None else max(0, next_due - now)
        return ClaimResult(took, self.claims, wait, self.busy)


def settle_and_claim(
    context: PostgresContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> RoundTrips[ClaimResult]:
    """Settle, then claim. In one round trip unless keys or limits are involved."""
    search = ClaimSearch(context, queues, limit, lease, worker)
    batch = SettleBatch(settlements)
    if batch.is_simple and limit and search.queues:
        [part] = batch.rounds
        queries = part.queries()
        answers = yield RoundTrip(*queries, *search.queries(synced=True), last=True)
        part.read(context, answers[: len(queries)])
        rows = search.read(answers[len(queries) :])
        yield from part.second_look(context, last=True)
        yield from _search(search, rows)
        took = (yield from after_a_lost_answer(batch)) if context.maybe_done else batch.answer()
        return search.result(took)
    took = (yield from settle_part(context, settlements, last=False)) if settlements else []
    claimed = yield from claim(context, queues, limit, lease, worker)
    return replace(claimed, took=took)


def claim(
    context: PostgresContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> RoundTrips[ClaimResult]:
    """Claim the next due jobs of these queues. With a limit of 0 it only tells when to claim."""
    search = ClaimSearch(context, queues, limit, lease, worker)
    if not search.queues:
        return ClaimResult([], [], None)
    yield from _search(search, (yield from search.begin()))
    if not limit:
        [[(due,)]] = yield RoundTrip(search.any_due(), last=True)
        search.cut_short = due
    return search.result([])


def _search(search: ClaimSearch, rows: Rows) -> RoundTrips[None]:
    while (yield from search.go_on(rows)):
        rows = search.read((yield search.look()))
