"""Claiming jobs.

A claim is one statement for all queues (`throughput.claim_statement`). It takes jobs without keys
at once. Jobs with keys are only shown; `limits.admit` then decides which of them may run. When the
clock has opened keys (a hold has ended, a rate has tokens again), the jobs that waited there are
woken first and the claim is made again. Queues with a limit or with fair groups are claimed one by
one (`limits.queue_claim`)."""

from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import Moment, Wait

from . import codec, resources
from .codec import Rows
from .context import PostgresContext, RoundTrip, RoundTrips, query
from .limits import admit
from .limits.bounds import CLAIM_SCAN_JOBS, WOKEN_KEYS
from .limits.due_keys import ClaimOrder, DueKeys
from .limits.queue_claim import QueueClaim
from .settle import SettleBatch, after_a_lost_answer, settle_part
from .throughput.claim_statement import ClaimStatement


class ClaimSearch:
    """One claim on its way through the queues."""

    def __init__(
        self, context: PostgresContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> None:
        self._context = context
        self.queues = list(dict.fromkeys(queues))
        self.limit, self.lease, self.worker = limit, lease, worker
        self.statement = ClaimStatement(context, self.queues, lease, worker)
        self.claims: list[Claim] = []
        self.busy: list[Busy] = []
        self.looked_at = 0
        self.cut_short = False
        self._woke = False
        self._is_header_old = False
        self._due: DueKeys | None = None

    @property
    def room(self) -> int:
        """How many jobs the next statement may take or show."""
        return min(self.limit - len(self.claims), CLAIM_SCAN_JOBS)

    @property
    def _is_full(self) -> bool:
        """Whether to claim again at once, whatever the header says."""
        return self.cut_short or (self.limit > 0 and len(self.claims) >= self.limit)

    def look(self) -> RoundTrip:
        """A claim by itself. Its commit does not wait for the disk. If a crash of the server undoes
        it, the job waits as before and runs again; the first run has a token that no other run
        gets, so it can settle nothing. Jobs with keys are taken by `limits.admit`, with a synced
        commit: undone, their keys would be free while they run."""
        keys_first = not self._woke
        queries = self.statement.queries(self.room, synced=False, keys_first=keys_first)
        return RoundTrip(*queries, first=True, last=True)

    def read(self, answers: list[Rows]) -> Rows:
        """Read the answers to a claim. Returns the rows of the jobs taken or shown."""
        rows = self.statement.read(answers)
        self.header, self._is_header_old = self.statement.header, False
        self.looked_at += len(rows)
        return rows

    def go_on(self, rows: Rows) -> RoundTrips[bool]:
        """Deal with the jobs that a claim has shown. Returns whether to claim again."""
        statement, header = self.statement, self.header
        is_right = statement.was_right()
        if is_right and not self._woke and (header.has_due_keys or header.has_ended_holds):
            if (again := (yield from self._wake())) is None:
                return True
            rows, header = again, self.header
            is_right = statement.was_right()
        if not is_right:
            yield from self._leave_woken()
            return True
        if header.careful:
            yield from self._leave_woken()
            yield from self._queue_by_queue(header.careful)
            return False
        if not statement.was_in_order():
            yield from self._leave_woken()
            return True
        found_all = len(rows) < statement.limit and not header.is_short
        self.claims += yield from self._plain(rows) if statement.is_plain else self._limited(rows)
        if found_all or self.room <= 0 or self.cut_short:
            return False
        self.cut_short = self.looked_at >= CLAIM_SCAN_JOBS or not rows
        return not self.cut_short

    def _wake(self) -> RoundTrips[Rows | None]:
        """Wake the jobs that wait at keys which the clock has opened. Returns the rows of the claim
        that follows in the same transaction; None: there was none."""
        self._woke = True
        names = self.statement.names
        if self.header.has_ended_holds:
            [ended] = yield RoundTrip(query("key_ended_holds", queues=names))
            yield from resources.wake_all(self._context, ended)
        if not self.header.has_due_keys:
            return None
        most = min(WOKEN_KEYS, max(1, self.room - 1))  # each wakes a job or more
        [keys] = yield RoundTrip(query("key_due", queues=names, limit=most), last=True)
        due = DueKeys(self._context, keys)
        yield from due.lock()
        if self.header.careful or not 0 < due.count < self.room:
            yield RoundTrip(*due.release(), last=True)
            return None
        return (yield from self._claim_with(due))

    def _claim_with(self, due: DueKeys) -> RoundTrips[Rows]:
        """Claim in the transaction that wakes these jobs."""
        self._due = due
        show = [one for one in due.show() if one is not None]
        room = self.room - due.count
        claim = self.statement.queries(room, synced=True, keys_first=False)
        answers = yield RoundTrip(*show, *claim)
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
            self._read_admitted(admitted, len(keyed))
            taken = {claim.id for claim in admitted.claims}
            return [claim for claim in shown if claim.resource is None or claim.id in taken]
        return shown

    def _limited(self, rows: Rows) -> RoundTrips[list[Claim]]:
        """The jobs that are claimed, in their order."""
        due, self._due = self._due, None
        leaves = False
        if due is not None:
            is_full = len(rows) == self.statement.limit
            order = ClaimOrder(self.queues, self._context.hints.ageing)
            rows, leaves = due.joined(rows, order, is_full=is_full)
        claims, keyed, candidates, unreadable = codec.shown_claims(rows)
        locked = None if due is None else admit.LockedJobs(due.states, candidates, leaves)
        if not keyed and not unreadable and locked is None:
            return claims
        aside = resources.aside(unreadable)
        admitted = yield from admit.admit(
            self._context, keyed, self.lease, self.worker, locked, aside
        )
        self._read_admitted(admitted, len(keyed))
        started = {claim.id: claim for claim in admitted.claims}
        left = {claim.id for claim in keyed}.difference(started)
        return [started.get(claim.id, claim) for claim in claims if claim.id not in left]

    def _read_admitted(self, admitted: admit.Admitted, shown: int) -> None:
        self.busy += admitted.busy
        decided = len(admitted.claims) + len(admitted.busy)
        self.cut_short = self.cut_short or decided < shown
        self._is_header_old = bool(admitted.busy) or admitted.has_other_wakes

    def renew_header(self) -> RoundTrips[None]:
        """Read the header again if it is needed and no longer right: a job that was blocked just
        now may wait for the clock."""
        if self._is_header_old and not self._is_full:
            yield from self._read_header()

    def _read_header(self) -> RoundTrips[None]:
        """A claim of no job, for its header."""
        is_known = False
        while not is_known:
            claim = self.statement.claim(0, synced=False, keys_first=False)
            [[(header, *_)]] = yield RoundTrip(claim, last=True)
            self.header = codec.claim_header(header)
            is_known = self.statement.knew_priorities(self.header)

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
        if self._is_full:
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
        look = search.statement.queries(search.room, synced=True, keys_first=True)
        answers = yield RoundTrip(*queries, *look, last=True)
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
        [[(due,)]] = yield RoundTrip(search.statement.any_due(), last=True)
        search.cut_short = due
    return search.result([])


def _search(search: ClaimSearch, rows: Rows) -> RoundTrips[None]:
    while (yield from search.go_on(rows)):
        rows = search.read((yield search.look()))
    yield from search.renew_header()
