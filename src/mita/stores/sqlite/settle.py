"""Putting jobs down: together where nothing but the job itself is touched, one by one where keys or
wishes are about."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from mita.model.job import Claim, State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import Moment
from mita.rules.states import TERMINAL

from . import resources
from .context import Tx, as_json
from .timeline import fold, note

_from_json = msgspec.json.Decoder(list[int]).decode


class _When(NamedTuple):
    """A due time, and whether somebody named it."""

    due: Moment
    fixed: bool


def settle(tx: Tx, settlements: Sequence[Settlement]) -> list[bool]:
    if len({settlement.claim.ref for settlement in settlements}) < len(settlements):
        # of two for one job, the first one counts
        return [_settle_one(tx, settlement) for settlement in settlements]
    plain, others = _sorted(settlements)
    fresh = _fresh(tx, [settlement.claim.ref for settlement in (*plain, *others)])
    plain = [
        settlement
        for settlement in plain
        if fresh.get(settlement.claim.ref) == settlement.claim.token
    ]
    others = [
        settlement
        for settlement in others
        if fresh.get(settlement.claim.ref) == settlement.claim.token
    ]
    _settle_plain(tx, plain)
    _settle_others(tx, others)
    if len(plain) + len(others) == len(settlements):
        return [True] * len(settlements)
    done = {settlement.claim.ref for settlement in (*plain, *others)}
    return [
        settlement.claim.ref in done or _settle_one(tx, settlement) for settlement in settlements
    ]


def _sorted(settlements: Sequence[Settlement]) -> tuple[list[Settlement], list[Settlement]]:
    """Those of jobs without a key that can be written together: plain successes, and others. Runs
    that ended alike share their verdict, so it is looked at once for all of them."""
    plain: list[Settlement] = []
    others: list[Settlement] = []
    last: Verdict | None = None
    kind: list[Settlement] | None = None
    for settlement in settlements:
        claim, verdict = settlement.claim, settlement.verdict
        if verdict is not last:
            last = verdict
            kind = plain if verdict.is_plain_success else others if _stays(verdict) else None
        if kind is not None and claim.resource is None and claim.unique is None:
            kind.append(settlement)
    return plain, others


def _stays(verdict: Verdict) -> bool:
    return verdict.state not in TERMINAL or verdict.keep > 0


def _fresh(tx: Tx, seqs: list[int]) -> dict[int, int]:
    """Of these, the jobs whose claim still holds and of which nothing was asked, with its token."""
    if not seqs:
        return {}
    held, tokens = tx.row("fresh", seqs=as_json(seqs))
    return dict(zip(_from_json(held), _from_json(tokens), strict=True))


def _settle_plain(tx: Tx, settlements: list[Settlement]) -> None:
    """All that are kept with one statement, all that are not with another."""
    kept, forgotten = [], []
    for settlement in settlements:
        seq, verdict = settlement.claim.ref, settlement.verdict
        if verdict.keep:
            kept.append((seq, verdict.result, tx.now, tx.now + verdict.keep))
        else:
            forgotten.append(seq)
    tx.run_over("succeed", kept)
    if forgotten:
        forget(tx, forgotten)


def _settle_others(tx: Tx, settlements: list[Settlement]) -> None:
    """Retries, moves, failures: a statement for each step, for all of them together."""
    noted = [
        (settlement.claim.ref, tx.now, verdict.event, verdict.note, verdict.failure, verdict.worker)
        for settlement in settlements
        if (verdict := settlement.verdict).event
    ]
    if noted:
        tx.run_over("note_many", noted)
        fold(tx, (seq for seq, *_ in noted))
    tx.run_over("settle_many", [_others_row(tx, settlement) for settlement in settlements])
    tx.topics |= {
        settlement.claim.queue
        for settlement in settlements
        if settlement.verdict.state is State.QUEUED
    }


def _others_row(tx: Tx, settlement: Settlement) -> tuple[Any, ...]:
    verdict = settlement.verdict
    ended = verdict.state in TERMINAL
    return (
        settlement.claim.ref,
        verdict.state.value,
        None if verdict.when is None else verdict.when.moment(tx.now),
        verdict.error,
        verdict.result if verdict.state is State.SUCCEEDED else None,
        verdict.counts.value if verdict.counts else "",
        tx.now if verdict.stranded else None,
        tx.now if ended else None,
        tx.now + verdict.keep if ended else None,
        verdict.when is not None and verdict.when.is_fixed(tx.now),
    )


def forget(tx: Tx, seqs: list[int]) -> None:
    """Leave nothing of these jobs."""
    them = as_json(seqs)
    told, remembered = tx.row("traces", first=min(seqs), last=max(seqs))
    if told:
        tx.run("forget_events", seqs=them)
    if remembered:
        tx.run("forget_memos", seqs=them)
    tx.run("forget_jobs", seqs=them)


def _settle_one(tx: Tx, settlement: Settlement) -> bool:
    claim, verdict = settlement.claim, settlement.verdict
    held = tx.row("held", seq=claim.ref, token=claim.token)
    if held is None:
        return False
    asked, asked_due, asked_fixed, asked_keep, worker, unique_for = held
    when = None if asked_due is None else _When(asked_due, asked_fixed)
    state, due, keep = _asked_first(tx, verdict, asked, when, asked_keep)
    event = verdict.event or (verdict.state.value if asked else "")
    if event:
        note(tx, claim.ref, event, verdict.note, verdict.worker or worker, verdict.failure)
    _write(tx, claim, verdict, state, due, keep)
    if state in TERMINAL and claim.unique is not None:
        tx.run(
            "unique_free",
            queue=claim.queue,
            key=claim.unique,
            id=claim.id,
            until=tx.now + unique_for,
        )
    if claim.resource is not None:
        _free_key(tx, claim.queue, claim.resource, verdict)
    if state in TERMINAL and not keep:
        forget(tx, [claim.ref])
    if state is State.QUEUED:
        tx.topics.add(claim.queue)
    return True


def _asked_first(
    tx: Tx, verdict: Verdict, asked: str | None, asked_when: _When | None, asked_keep: int | None
) -> tuple[State, _When | None, int]:
    """State, due time and retention: what was asked while the job ran comes before what the run
    came to."""
    if asked == "cancel":
        return State.CANCELLED, None, asked_keep or 0
    if asked == "reschedule":
        return State.QUEUED, asked_when, 0
    when = verdict.when
    return (
        verdict.state,
        None if when is None else _When(when.moment(tx.now), when.is_fixed(tx.now)),
        verdict.keep,
    )


def _write(
    tx: Tx, claim: Claim, verdict: Verdict, state: State, due: _When | None, keep: int
) -> None:
    ended = state in TERMINAL
    values: dict[str, Any] = {
        "seq": claim.ref,
        "token": claim.token,
        "state": state.value,
        "due": None if due is None else due.due,
        "fixed": due is not None and due.fixed,
        "error": verdict.error,
        "result": verdict.result if state is State.SUCCEEDED else None,
        "counts": verdict.counts.value if verdict.counts else "",
        "stranded": verdict.stranded,
        "now": tx.now,
        "finished": tx.now if ended else None,
        "expires": tx.now + keep if ended else None,
    }
    tx.run("settle", **values)


def _free_key(tx: Tx, queue: str, key: str, verdict: Verdict) -> None:
    if verdict.hold is not None:
        resources.hold(tx, queue, key, verdict.hold)
    else:
        resources.wake(tx, queue, key, 1)
