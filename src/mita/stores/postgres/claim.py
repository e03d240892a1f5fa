"""Claiming jobs.

A claim is one statement for all queues (`claim.sql`). It takes jobs without a resource key at once.
Jobs with a key are only shown; `resources.admit` then decides which of them may run. When holds
have ended, the jobs that waited for them are woken first and the claim is made again."""

import time
from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import Wait

from . import codec, resources
from .codec import Rows
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .server.arrays import numbers, texts
from .settle import SettleBatch, after_a_lost_answer, settle
from .throughput.watermarks import queue_priorities

# Jobs looked at in one call at most: the thousands that wait for one busy key are blocked in parts.
CLAIM_SCAN_JOBS = 1000


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

    @property
    def room(self) -> int:
        """How many jobs the next statement may take or show."""
        return min(self.limit - len(self.claims), CLAIM_SCAN_JOBS)

    def queries(self, *, synced: bool) -> list[Query]:
        """The claim, and from time to time a read of the first waiting jobs for the watermarks."""
        self._room = self.room
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
        gets, so it can settle nothing. Jobs with a resource key are taken by `resources.admit`,
        with a synced commit: undone, their key would be free while they run."""
        return RoundTrip(*self.queries(synced=False), last=True)

    def _claim(self, limit: int, *, synced: bool) -> Query:
        watermarks = self._context.watermarks
        return query(
            "claim",
            **self._where,
            watermarks=numbers(watermarks.of(self.queues)),
            behind=watermarks.behind,
            holds_first=not self._woke,
            limit=limit,
            lease=self.lease,
            worker=self.worker,
            unsynced=not synced,
        )

    def any_due(self) -> Query:
        """Whether any job is due."""
        return query("claim_any_due", **self._where)

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
        if self.header.ended_holds and not self._woke:
            self._woke = True
            [ended] = yield RoundTrip(query("key_ended_holds", queues=self._where["names"]))
            yield from resources.wake_all(self._context, ended)
            return True
        found_all = len(rows) < self._room
        shown = codec.claims(rows, first=1)  # after the header
        if keyed := [claim for claim in shown if claim.resource is not None]:
            shown = yield from self._admit(shown, keyed)
        self.claims += shown
        if found_all or self.room <= 0 or self.cut_short:
            return False
        self.cut_short = self.looked_at >= CLAIM_SCAN_JOBS
        return not self.cut_short

    def _admit(self, shown: list[Claim], keyed: list[Claim]) -> RoundTrips[list[Claim]]:
        """Returns the shown jobs that are claimed, in their order."""
        admitted, busy = yield from resources.admit(self._context, keyed, self.lease, self.worker)
        self.busy += busy
        self.cut_short = self.cut_short or len(admitted) + len(busy) < len(keyed)
        taken = {claim.id for claim in admitted}
        # A claim of no job, for its header: a job that was blocked just now may wait for a hold.
        [[(header, *_)]] = yield RoundTrip(self._claim(0, synced=False), last=True)
        self.header = codec.claim_header(header)
        return [claim for claim in shown if claim.resource is None or claim.id in taken]

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
    """Settle, then claim. In one round trip unless resource keys are involved."""
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
    took = (yield from settle(context, settlements)) if settlements else []
    claimed = yield from claim(context, queues, limit, lease, worker)
    return replace(claimed, took=took)


def claim(
    context: PostgresContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> RoundTrips[ClaimResult]:
    """Claim the next due jobs of these queues. With a limit of 0 it only tells when to claim."""
    search = ClaimSearch(context, queues, limit, lease, worker)
    if not search.queues:
        return ClaimResult([], [], None)
    yield from _search(search, search.read((yield search.look())))
    if not limit:
        [[(due,)]] = yield RoundTrip(search.any_due(), last=True)
        search.cut_short = due
    return search.result([])


def _search(search: ClaimSearch, rows: Rows) -> RoundTrips[None]:
    while (yield from search.go_on(rows)):
        rows = search.read((yield search.look()))
