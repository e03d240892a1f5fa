"""Putting jobs down: a short way for those that simply ended well, a careful one for all others."""

from collections.abc import Sequence

from mita.model.job import Claim, State
from mita.model.outcome import Settlement
from mita.model.time import When

from . import resources
from .arrays import blobs, flags, numbers, texts
from .steps import Act, Ask, Rows, Step, Steps, ask
from .watermarks import Key


class Round:
    """Settlements that do not bear on each other: no job and no resource key occurs twice."""

    def __init__(self) -> None:
        self.kept: list[Settlement] = []
        self.forgotten: list[Settlement] = []
        self.careful: list[Settlement] = []
        self.took: set[str] = set()
        self._met: set[str | Key | None] = set()

    def takes(self, settlement: Settlement) -> bool:
        claim = settlement.claim
        key = key_of(claim)
        if claim.id in self._met or (key is not None and key in self._met):
            return False
        self._met |= {claim.id, key}
        if not is_plain(settlement):
            self.careful.append(settlement)
        elif settlement.verdict.keep:
            self.kept.append(settlement)
        else:
            self.forgotten.append(settlement)
        return True

    def asks(self) -> list[Ask]:
        asks = []
        if self.kept:
            asks.append(_succeed(self.kept))
        if self.forgotten:
            asks.append(ask("forget", **_claims(self.forgotten)))
        if self.careful:
            asks.append(_settle(self.careful))
        return asks

    def hear(self, act: Act, answers: Sequence[Rows]) -> None:
        for rows in answers:
            for id, state, queue, _ in rows:
                self.took.add(id)
                if state in (State.QUEUED, State.BLOCKED):
                    act.topics.add(queue)

    def second_look(self, act: Act, *, last: bool) -> Steps[None]:
        """Plain ones that did not take are stale; or something was asked of them that very moment,
        and then the careful way still finds them held."""
        left = [
            settlement
            for settlement in (*self.kept, *self.forgotten)
            if settlement.claim.id not in self.took
        ]
        if left:
            self.hear(act, (yield Step(_settle(left), last=last)))

    def freed(self) -> list[tuple[Key, When | None]]:
        """The keys that were let go, and the holds that came with it."""
        return [
            (key, settlement.verdict.hold)
            for settlement in self.careful
            if (key := key_of(settlement.claim)) is not None and settlement.claim.id in self.took
        ]


def key_of(claim: Claim) -> Key | None:
    return None if claim.resource is None else (claim.queue, claim.resource)


class Batch:
    """Settlements in as many rounds as it takes, nearly always one."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self.settlements = settlements
        self.rounds: list[Round] = []
        self._where: list[Round] = []
        for settlement in settlements:
            self._where.append(self._round_for(settlement))
        self.keys = sorted(
            {key for settlement in settlements if (key := key_of(settlement.claim)) is not None}
        )

    def _round_for(self, settlement: Settlement) -> Round:
        for round in self.rounds:
            if round.takes(settlement):
                return round
        self.rounds.append(Round())
        self.rounds[-1].takes(settlement)
        return self.rounds[-1]

    @property
    def is_simple(self) -> bool:
        """One step does it: nothing has to be looked at in between."""
        return len(self.rounds) == 1 and not self.keys

    def answer(self) -> list[bool]:
        return [
            settlement.claim.id in round.took
            for settlement, round in zip(self.settlements, self._where, strict=True)
        ]


def settle(act: Act, settlements: Sequence[Settlement], *, last: bool = True) -> Steps[list[bool]]:
    batch = Batch(settlements)
    if batch.is_simple:
        [round] = batch.rounds
        round.hear(act, (yield Step(*round.asks(), last=last)))
        yield from round.second_look(act, last=last)
    else:
        yield from _with_care(act, batch)
        if last:
            yield Step(last=True)
    return (yield from after_a_lost_answer(batch)) if act.tried else batch.answer()


def _with_care(act: Act, batch: Batch) -> Steps[None]:
    lock = resources.lock(act, batch.keys)
    for round in batch.rounds:
        answers = yield Step(lock, *round.asks())
        round.hear(act, answers[1:] if lock else answers)
        lock = None
        yield from round.second_look(act, last=False)
        if freed := round.freed():
            places = [key for key, _ in freed]
            # A hold that is over as soon as it is set is gone, and then all may go on; without one,
            # the first may.
            over = [key for key, hold in freed if hold is not None]
            answers = yield Step(
                resources.unhold(over) if over else None,
                resources.wake(act, places, [1 if hold is None else None for _, hold in freed]),
            )
            resources.note_woken(act, answers[-1])


def after_a_lost_answer(batch: Batch) -> Steps[list[bool]]:
    """The connection broke on an earlier try, which may have been done: then what looks stale now
    is what we did then."""
    took = batch.answer()
    unsure = [
        settlement for settlement, yes in zip(batch.settlements, took, strict=True) if not yes
    ]
    if not unsure:
        return took
    [rows] = yield Step(ask("settled_before", **_claims(unsure)), last=True)
    done = {id for (id,) in rows}
    return [
        yes or settlement.claim.id in done
        for settlement, yes in zip(batch.settlements, took, strict=True)
    ]


# ---------------------------------------------------------------- the statements


def is_plain(settlement: Settlement) -> bool:
    """Whether the job succeeded, with nothing but a result to write, and has no keys."""
    claim, verdict = settlement.claim, settlement.verdict
    return verdict.is_plain_success and claim.resource is None and claim.unique is None


def _claims(settlements: list[Settlement]) -> dict[str, str]:
    """Sorted by id, as everywhere: whoever locks several rows locks them in one order."""
    settlements.sort(key=_id_of)
    return {
        "ids": texts([settlement.claim.id for settlement in settlements]),
        "tokens": numbers([settlement.claim.token for settlement in settlements]),
    }


def _id_of(settlement: Settlement) -> str:
    return settlement.claim.id


def _succeed(settlements: list[Settlement]) -> Ask:
    return ask(
        "succeed",
        **_claims(settlements),
        results=blobs([settlement.verdict.result for settlement in settlements]),
        keeps=numbers([settlement.verdict.keep for settlement in settlements]),
    )


def _settle(settlements: list[Settlement]) -> Ask:
    claims = _claims(settlements)
    verdicts = [settlement.verdict for settlement in settlements]
    whens = [verdict.when for verdict in verdicts]
    holds = [verdict.hold for verdict in verdicts]
    return ask(
        "settle",
        **claims,
        states=texts([verdict.state.value for verdict in verdicts]),
        waits=numbers([None if when is None else when.wait for when in whens]),
        ats=numbers([None if when is None else when.at for when in whens]),
        counts=texts([verdict.counts.value if verdict.counts else "" for verdict in verdicts]),
        results=blobs([verdict.result for verdict in verdicts]),
        errors=texts([verdict.error for verdict in verdicts]),
        keeps=numbers([verdict.keep for verdict in verdicts]),
        stranded=flags([verdict.stranded for verdict in verdicts]),
        events=texts([verdict.event for verdict in verdicts]),
        notes=texts([verdict.note for verdict in verdicts]),
        failures=texts([verdict.failure for verdict in verdicts]),
        workers=texts([verdict.worker for verdict in verdicts]),
        hold_waits=numbers([None if hold is None else hold.wait for hold in holds]),
        hold_ats=numbers([None if hold is None else hold.at for hold in holds]),
    )
