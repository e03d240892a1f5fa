"""Settling runs: short statements for runs that simply succeeded and for jobs that return to the
queue, a full one for all others."""

from collections.abc import Sequence

from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.rules.states import WAITING

from . import resources
from .codec import Rows
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .limits.further_keys import free_further, further_keys
from .limits.settled_keys import give_back, keys_of_claim, may_name
from .throughput.settle_statements import (
    claims_of,
    is_return,
    return_jobs,
    settle_fully,
    succeed,
)
from .throughput.watermarks import ResourceKey


class SettleRound:
    """Settlements that do not depend on each other: no job occurs twice, and no key that one of
    them puts on hold."""

    def __init__(self) -> None:
        self.kept: list[Settlement] = []  # plain successes whose job is kept
        self.told: list[Settlement] = []  # the same, and the jobs that wait for them know of it
        self.deleted: list[Settlement] = []  # plain successes whose job is deleted at once
        self.returned: list[Settlement] = []  # jobs without keys that return to the queue
        self.full: list[Settlement] = []  # all others
        self.took: set[str] = set()
        self._jobs: set[str] = set()
        self._keys: set[ResourceKey] = set()
        self._held: set[ResourceKey] = set()

    def add(self, settlement: Settlement, keys: Sequence[ResourceKey]) -> bool:
        """Add a settlement of a job with these keys. Returns False if it depends on one that is
        already here."""
        claim = settlement.claim
        if claim.id in self._jobs or (keys and not self._add_keys(settlement, keys)):
            return False
        self._jobs.add(claim.id)
        if not keys and is_return(settlement.verdict):
            self.returned.append(settlement)
        elif keys or claim.unique is not None or not settlement.verdict.is_plain_success:
            self.full.append(settlement)
        elif settlement.verdict.told:
            (self.told if settlement.verdict.keep else self.full).append(settlement)
        elif settlement.verdict.keep:
            self.kept.append(settlement)
        else:
            self.deleted.append(settlement)
        return True

    def _add_keys(self, settlement: Settlement, keys: Sequence[ResourceKey]) -> bool:
        holds = settlement.verdict.hold is not None
        if not (self._keys if holds else self._held).isdisjoint(keys):
            return False
        self._keys.update(keys)
        if holds:
            self._held.update(keys)
        return True

    def _short(self) -> list[Settlement]:
        return [*self.kept, *self.told, *self.deleted, *self.returned]

    def queries(self) -> list[Query]:
        """One statement for each kind of settlement."""
        queries = []
        if self.kept:
            queries.append(succeed("settle_succeed", self.kept))
        if self.told:
            queries.append(succeed("settle_told", self.told))
        if self.deleted:
            queries.append(query("settle_forget", **claims_of(self.deleted)))
        if self.returned:
            queries.append(return_jobs(self.returned))
        if self.full:
            queries.append(settle_fully(self.full))
        return queries

    def after(self) -> list[Query]:
        """What follows `queries` for jobs with several keys."""
        free = free_further(further_keys(settlement.claim for settlement in self.full))
        return [] if free is None else [free]

    def read(self, context: PostgresContext, answers: Sequence[Rows]) -> None:
        """Read the answers to `queries`: which settlements took, and which queues got jobs back
        or have a place again."""
        for rows in answers:
            for id, state, queue, *_ in rows:
                self.took.add(id)
                if state in WAITING:
                    context.topics.add(queue)
        if self.full:
            context.topics.update(queue for _, _, queue, is_limited, _ in answers[-1] if is_limited)
        if limited := context.hints.careful:
            context.topics.update(limited.intersection(one.claim.queue for one in self._short()))

    def second_look(self, context: PostgresContext, *, last: bool) -> RoundTrips[None]:
        """Settle again, in full, what did not take. Either the token is stale, or a cancel or a
        reschedule was asked at that very moment."""
        left = [settlement for settlement in self._short() if settlement.claim.id not in self.took]
        if left:
            again = SettleRound()
            again.full = left
            again.read(context, (yield RoundTrip(settle_fully(left), last=last)))
            self.took |= again.took

    def freed(self) -> dict[ResourceKey, int | None]:
        """The keys that were freed, each with how many jobs it wakes at most: one for each run that
        ended. None, for as many as may run: a verdict has put the key on hold (its job's first
        key), and the hold may have ended already."""
        mosts: dict[ResourceKey, int | None] = {}
        for settlement in self.full:
            if settlement.claim.id in self.took:
                holds = settlement.verdict.hold is not None
                for at, key in enumerate(keys_of_claim(settlement.claim)):
                    mosts[key] = None if holds and not at else (mosts.get(key) or 0) + 1
        return mosts

    def unstarted(self) -> list[Claim]:
        """The claims with keys that did not start after all, of the settlements that took."""
        return [
            settlement.claim
            for settlement in self.full
            if settlement.verdict.unstarted
            and settlement.claim.id in self.took
            and keys_of_claim(settlement.claim)
        ]


class SettleBatch:
    """Settlements, divided into rounds. The settlements of one round are independent: no two have
    the same job or a key that is put on hold. Nearly always one round is enough."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self.settlements = settlements
        self.rounds = [SettleRound()]
        self.keys: list[ResourceKey] = []
        self._round_of: list[SettleRound] = []
        for settlement in settlements:
            if keys := keys_of_claim(settlement.claim):
                self.keys += keys
            for part in self.rounds:
                if part.add(settlement, keys):
                    break
            else:
                part = SettleRound()
                part.add(settlement, keys)
                self.rounds.append(part)
            self._round_of.append(part)

    @property
    def is_simple(self) -> bool:
        """Whether there is something to settle, and one round trip is enough: there are no keys to
        lock."""
        return bool(self.settlements) and len(self.rounds) == 1 and not self.keys

    def answer(self) -> list[bool]:
        """For each settlement, whether it took."""
        return [
            settlement.claim.id in part.took
            for settlement, part in zip(self.settlements, self._round_of, strict=True)
        ]


def settle(context: PostgresContext, settlements: Sequence[Settlement]) -> RoundTrips[list[bool]]:
    """Apply the verdicts of runs. Returns for each whether it took; a stale token does not."""
    return (yield from settle_part(context, settlements, last=True))


def settle_part(
    context: PostgresContext, settlements: Sequence[Settlement], *, last: bool
) -> RoundTrips[list[bool]]:
    """The same; without `last` the transaction may go on."""
    if not settlements:
        return []
    batch = SettleBatch(settlements)
    if batch.is_simple:
        [part] = batch.rounds
        part.read(context, (yield RoundTrip(*part.queries(), last=True)))
        yield from part.second_look(context, last=True)
    else:
        yield from _with_keys(context, batch, last=last)
    return (yield from after_a_lost_answer(batch)) if context.maybe_done else batch.answer()


def _with_keys(context: PostgresContext, batch: SettleBatch, *, last: bool) -> RoundTrips[None]:
    lock = resources.lock(context, batch.keys)
    for part in batch.rounds:
        ends = last and part is batch.rounds[-1]
        queries = part.queries()
        answers = yield RoundTrip(lock, *queries, *part.after())
        answers = answers[1:] if lock else answers
        part.read(context, answers[: len(queries)])
        lock = None
        yield from part.second_look(context, last=False)
        given_back = yield from give_back(context, part.unstarted())
        freed = part.freed()
        held = [key for key, most in freed.items() if most is None]
        unhold = resources.unhold(held) if held else None
        early = ends and not may_name(context, part.full, freed)
        if freed:
            yield from resources.wake(context, freed, given_back, unhold, last=early)
        if ends and not (freed and early):
            yield RoundTrip(last=True)


def after_a_lost_answer(batch: SettleBatch) -> RoundTrips[list[bool]]:
    """The answer after an earlier attempt whose answer was lost: what looks stale now may have been
    settled by that attempt."""
    took = batch.answer()
    unsure = [
        settlement for settlement, yes in zip(batch.settlements, took, strict=True) if not yes
    ]
    if not unsure:
        return took
    [rows] = yield RoundTrip(query("settle_already", **claims_of(unsure)), last=True)
    done = {id for (id,) in rows}
    return [
        yes or settlement.claim.id in done
        for settlement, yes in zip(batch.settlements, took, strict=True)
    ]
