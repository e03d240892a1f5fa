"""Claiming, keeping and inheriting jobs."""

import time
from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Held, Settlement
from mita.model.time import Wait

from . import aside, resources
from .arrays import numbers, texts
from .connection import LONGEST, OURS
from .settle import Batch, after_a_lost_answer, settle
from .statements import Statements
from .steps import Act, Ask, Row, Rows, Step, Steps, ask
from .watermarks import Marks, lines

# jobs looked at in one call at most: a hot key's thousands are blocked a slice at a time
SCAN = 1000


class Search:
    """One claim on its way through the queues."""

    def __init__(
        self, act: Act, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> None:
        self._act = act
        self.queues = list(dict.fromkeys(queues))
        self.limit, self.lease, self.worker = limit, lease, worker
        names, priorities = lines(self.queues)
        self._lines = {
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
        return min(self.limit - len(self.claims), SCAN)

    def asks(self, *, synced: bool) -> list[Ask]:
        """The claim, and now and then a look at where each line begins."""
        marks = self._act.marks
        self._room = self.room
        self._looked = marks.wanted(self.queues)
        self._started = time.monotonic()
        asks = [self._claim(marks, self._room, synced=synced)]
        if self._looked is not None:
            asks.append(ask("marks", **self._lines, marks=numbers(self._looked)))
        return asks

    def look(self) -> Step:
        """A claim by itself does not wait for the disk. A crash of the server may undo it: then the
        job waits again, as before anybody had it, and is run again; who ran it has a token that no
        other run is given, and settles nothing. Not so for jobs with a resource key, which
        `keys.admit` takes: undone, their key would be free while they run."""
        return Step(*self.asks(synced=False), last=True)

    def _claim(self, marks: Marks, limit: int, *, synced: bool) -> Ask:
        return ask(
            "claim",
            **self._lines,
            marks=numbers(marks.of(self.queues)),
            behind=marks.behind,
            holds_first=not self._woke,
            limit=limit,
            lease=self.lease,
            worker=self.worker,
            unsynced=not synced,
        )

    def any_due(self) -> Ask:
        return ask("any_due", **self._lines)

    def hear(self, answers: list[Rows]) -> Rows:
        """What the statements said; gives the rows that were claimed or shown."""
        rows = answers[0]
        behind = self._hear_of_all(rows.pop(0))
        marks = self._act.marks
        if marks.heard(self.now, behind, len(rows)) and self._looked is not None:
            firsts = [due for _, due in answers[1]]
            marks.found(
                self.queues, self.now, firsts, self._looked, time.monotonic() - self._started
            )
        self.looked_at += len(rows)
        return rows

    def _hear_of_all(self, row: Row) -> int:
        """Of the row that comes before those of the jobs. Gives what the sequence says."""
        _, self.next, self.now, _, _, _, _, _, _, behind, _, self._over, *_ = row
        return int(behind)

    def go_on(self, rows: Rows) -> Steps[bool]:
        """Deal with what a look has shown. True: look again."""
        if self._over and not self._woke:
            self._woke = True
            [over] = yield Step(ask("ended_holds", queues=self._lines["names"]))
            yield from resources.wake_all(self._act, over)
            return True
        found_all = len(rows) < self._room
        shown = [Claim(*row) for row in rows]
        keyed = [claim for claim in shown if claim.resource is not None]
        if keyed:
            admitted, busy = yield from resources.admit(self._act, keyed, self.lease, self.worker)
            self.busy += busy
            self.cut_short = self.cut_short or len(admitted) + len(busy) < len(keyed)
            may_run = {claim.id for claim in admitted}
            shown = [claim for claim in shown if claim.resource is None or claim.id in may_run]
            # Nothing is claimed by this one: somebody may wait for a hold by now.
            [[row]] = yield Step(self._claim(self._act.marks, 0, synced=False), last=True)
            self._hear_of_all(row)
        self.claims += shown
        if found_all or self.room <= 0 or self.cut_short:
            return False
        self.cut_short = self.looked_at >= SCAN
        return not self.cut_short

    def settle_and_claim(self, took: list[bool]) -> ClaimResult:
        if self.cut_short or (self.limit and len(self.claims) >= self.limit):
            return ClaimResult(took, self.claims, 0, self.busy)
        return ClaimResult(
            took,
            self.claims,
            None if self.next is None else max(0, self.next - self.now),
            self.busy,
        )


def settle_and_claim(
    act: Act,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> Steps[ClaimResult]:
    """Settle, then claim; in one round trip unless resource keys are about."""
    search = Search(act, queues, limit, lease, worker)
    batch = Batch(settlements)
    if batch.is_simple and limit and search.queues:
        [round] = batch.rounds
        asks = round.asks()
        answers = yield Step(*asks, *search.asks(synced=True), last=True)
        round.hear(act, answers[: len(asks)])
        rows = search.hear(answers[len(asks) :])
        yield from round.second_look(act, last=True)
        yield from _search(search, rows)
        took = (yield from after_a_lost_answer(batch)) if act.tried else batch.answer()
        return search.settle_and_claim(took)
    took = (yield from settle(act, settlements)) if settlements else []
    claimed = yield from claim(act, queues, limit, lease, worker)
    return replace(claimed, took=took)


def claim(
    act: Act, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> Steps[ClaimResult]:
    search = Search(act, queues, limit, lease, worker)
    if not search.queues:
        return ClaimResult([], [], None)
    yield from _search(search, search.hear((yield search.look())))
    if not limit:
        [[(due,)]] = yield Step(search.any_due(), last=True)
        search.cut_short = due
    return search.settle_and_claim([])


def _search(search: Search, rows: Rows) -> Steps[None]:
    while (yield from search.go_on(rows)):
        rows = search.hear((yield search.look()))


# ---------------------------------------------------------------- leases


def extend(_: Act, claims: Sequence[Claim], lease: Wait) -> Steps[list[Held]]:
    """Synced, though the fence does not need it: an extension that is undone lets the lease end
    before its holder thinks so, and a late verdict is refused all the same. But that is a second
    run beside the first, and nobody waits for this."""
    ordered = sorted({(claim.id, claim.token) for claim in claims})
    [rows] = yield Step(ask("extend", **_held(ordered), lease=lease), last=True)
    holding = {(id, token): asked for id, token, asked in rows}
    return [_answer(holding, claim) for claim in claims]


def _held(ordered: list[tuple[str, int]]) -> dict[str, str]:
    return {
        "ids": texts([id for id, _ in ordered]),
        "tokens": numbers([token for _, token in ordered]),
    }


def _answer(holding: dict[tuple[str, int], str | None], claim: Claim) -> Held:
    asked = holding.get((claim.id, claim.token), Held.LOST)
    if asked is Held.LOST:
        return Held.LOST
    return Held.CANCEL if asked == "cancel" else Held.HELD


def reap(
    act: Act, statements: Statements, limit: int, lease: Wait, worker: str
) -> Steps[list[Claim]]:
    _, over, [(unmet,)] = yield Step(
        ask("end_stopped", ours=OURS, seconds=LONGEST),
        ask("ended_holds", queues=None),
        ask("any_unmet"),
    )
    yield from resources.wake_all(act, over)
    if unmet:
        yield from aside.set_aside(act, statements)
    [free] = yield Step(ask("waited_keys"))
    yield from resources.wake_all(act, free)
    mark = act.marks.lease
    rows, [(now, first)] = yield Step(
        ask("reap", mark=mark, limit=limit, lease=lease, worker=worker),
        ask("first_lease", mark=mark),
        last=True,
    )
    act.marks.found_lease(now, first)
    return [Claim(*row) for row in rows]
