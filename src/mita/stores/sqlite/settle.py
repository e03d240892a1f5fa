"""Settling jobs: together where only the job itself changes, one by one where keys are freed or
something was asked while the job ran."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from mita.errors import Rejected
from mita.model.job import Asked, Claim, State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import Moment
from mita.rules.asked import in_time, kind_after, state_after
from mita.rules.durable import signal_name
from mita.rules.gates import keys_of
from mita.rules.states import TERMINAL
from mita.stores.shared.apart import two_halves

from . import once, resources, unique
from .batches import alike
from .batches.alike import EndedRun, SharedEnd
from .context import HasThreads, SqliteContext, as_json
from .limits import queue_states

_read_numbers = msgspec.json.Decoder(list[int]).decode


class _Due(NamedTuple):
    """A due time, and whether a person named it."""

    due: Moment | None
    fixed: bool


async def settle(store: HasThreads, settlements: Sequence[Settlement]) -> list[bool]:
    """Apply verdicts in one transaction. If they are rejected together, in halves."""
    try:
        return await store.writer.call(_settle_alone, (settlements,))
    except Rejected as error:
        return await two_halves(partial(settle, store), settlements, error)


def _settle_alone(context: SqliteContext, settlements: Sequence[Settlement]) -> list[bool]:
    """Apply verdicts without a claim after them."""
    took = settle_batch(context, settlements)
    queue_states.notify_limited(context, queue_states.load(context), settlements, took)
    return took


def settle_batch(context: SqliteContext, settlements: Sequence[Settlement]) -> list[bool]:
    """Apply verdicts. False: the claim is not valid any more, and nothing was changed."""
    if len({settlement.claim.ref for settlement in settlements}) < len(settlements):
        # of two settlements for one job, the first one counts
        return [_settle_one(context, settlement) for settlement in settlements]
    plain, others = _sorted(settlements)
    is_plain = len(plain) == len(settlements) and all(one.verdict.keep for one in plain)
    if is_plain and _succeed(context, plain):
        _free_unique(context, plain)
        _free_keys(context, plain)
        return [True] * len(settlements)
    fresh = _fresh(context, [settlement.claim.ref for settlement in (*plain, *others)])
    plain, others = (
        [one for one in kind if fresh.get(one.claim.ref) == one.claim.token]
        for kind in (plain, others)
    )
    _free_unique(context, plain + others)
    _settle_plain(context, plain)
    if others:
        _settle_others(context, others)
    _free_keys(context, plain + others)
    if len(plain) + len(others) == len(settlements):
        return [True] * len(settlements)
    done = {settlement.claim.ref for settlement in (*plain, *others)}
    return [
        settlement.claim.ref in done or _settle_one(context, settlement)
        for settlement in settlements
    ]


def _sorted(settlements: Sequence[Settlement]) -> tuple[list[Settlement], list[Settlement]]:
    """The settlements that can be written together: plain successes, and others. Runs that ended in
    the same way share their verdict, so it is examined once for all of them."""
    plain: list[Settlement] = []
    others: list[Settlement] = []
    last: Verdict | None = None
    kind: list[Settlement] | None = None
    frees_keys = False
    for settlement in settlements:
        claim, verdict = settlement.claim, settlement.verdict
        if verdict is not last:
            last = verdict
            kind = plain if verdict.is_plain_success else others if _stays(verdict) else None
            frees_keys = _frees_keys(verdict)
        if kind is not None and (frees_keys or (claim.resource is None and not claim.gates)):
            kind.append(settlement)
    return plain, others


def _stays(verdict: Verdict) -> bool:
    return verdict.state not in TERMINAL or verdict.keep > 0


def _frees_keys(verdict: Verdict) -> bool:
    """Whether the run wakes one job at each of its keys, and does nothing else to them."""
    is_blocked = verdict.state is State.BLOCKED
    return verdict.hold is None and not verdict.unstarted and not is_blocked


def _free_unique(context: SqliteContext, settlements: list[Settlement]) -> None:
    """Free the unique keys of the jobs that end, before they are deleted."""
    ended = [
        one.claim.ref
        for one in settlements
        if one.claim.unique is not None and one.verdict.state in TERMINAL
    ]
    if ended:
        unique.free_of_jobs(context, ended)


def _free_keys(context: SqliteContext, settlements: list[Settlement]) -> None:
    """Free the keys of the jobs that do not run any more, and wake the next jobs there."""
    claims = [one.claim for one in settlements if one.claim.resource is not None or one.claim.gates]
    if claims:
        resources.free_many(context, claims)


def _fresh(context: SqliteContext, seqs: list[int]) -> dict[int, int]:
    """The tokens of the jobs that are still claimed and of which nothing was asked."""
    if not seqs:
        return {}
    held, tokens = context.row("settle_fresh", seqs=as_json(seqs))
    return dict(zip(_read_numbers(held), _read_numbers(tokens), strict=True))


def _settle_plain(context: SqliteContext, settlements: list[Settlement]) -> None:
    """One statement for all jobs that are kept, another for all that are deleted."""
    kept = [settlement for settlement in settlements if settlement.verdict.keep]
    if kept:
        _succeed(context, kept)
    if len(kept) < len(settlements):
        delete(context, [one.claim.ref for one in settlements if not one.verdict.keep])


def _succeed(context: SqliteContext, settlements: list[Settlement]) -> bool:
    """Write plain successes whose jobs are kept. Returns False, and nothing is written, if a claim
    is not valid any more, or something was asked while a job ran."""
    now, database, many = context.now, context.connection, len(settlements) > 1
    rows = [
        (one.claim.ref, one.claim.token, one.verdict.result, now + one.verdict.keep)
        for one in settlements
    ]
    if many:
        database.execute("savepoint success")
    is_done = context.run_many("settle_succeed", rows, (now,)) == len(rows)
    if many:
        if not is_done:
            database.execute("rollback to success")
        database.execute("release success")
    return is_done


def _settle_others(context: SqliteContext, settlements: list[Settlement]) -> None:
    """Retries, reschedules, failures: one statement for each step and kind of end."""
    alike.write(context, _ended_runs(context, settlements))
    context.topics |= {one.claim.queue for one in settlements if one.verdict.state is State.QUEUED}
    unstarted = [one.claim for one in settlements if one.verdict.unstarted]
    if unstarted:
        queue_states.give_back(context, unstarted)


def _ended_runs(
    context: SqliteContext, settlements: list[Settlement]
) -> Iterator[tuple[SharedEnd, EndedRun]]:
    last, shared = None, None
    for settlement in settlements:
        verdict, due = settlement.verdict, _due(context, settlement)
        if shared is None or verdict is not last or shared.due_fixed != due.fixed:
            last, shared = verdict, alike.shared_end(verdict, context.now, due_fixed=due.fixed)
        yield shared, EndedRun(settlement.claim.ref, due.due, verdict.note)


def _due(context: SqliteContext, settlement: Settlement) -> _Due:
    """The due time after a run, as its verdict says."""
    when, waits, now = settlement.verdict.when, settlement.verdict.waits, context.now
    if when is None:
        return _Due(None, False)
    job = settlement.claim.ref
    if waits is not None and once.exists(context, job, signal_name(waits)):
        return _Due(now, False)  # the signal came before the wait
    return _Due(when.moment(now), when.is_fixed(now))


def delete(context: SqliteContext, seqs: list[int]) -> None:
    """Delete jobs with everything that belongs to them."""
    them = as_json(seqs)
    first, last = min(seqs), max(seqs)
    timelines, once_values, tags = context.row("delete_any_traces", first=first, last=last)
    if timelines:
        context.run("delete_timelines", seqs=them)
    if once_values:
        context.run("delete_once_values", seqs=them)
    if tags:
        context.run("delete_tags", seqs=them)
    context.run("delete_jobs", seqs=them)


def _settle_one(context: SqliteContext, settlement: Settlement) -> bool:
    claim, verdict = settlement.claim, settlement.verdict
    held = context.row("settle_held", seq=claim.ref, token=claim.token)
    if held is None:
        return False
    word, asked_due, asked_fixed, asked_keep, worker, unique_for = held
    asked = None if word is None else Asked(word)
    state, kind = state_after(asked, verdict), kind_after(asked, verdict)
    if in_time(asked, verdict) is not None:
        due, keep = _Due(asked_due, asked_fixed), asked_keep or 0
    else:
        due, keep = _due(context, settlement), verdict.keep
    if kind:
        context.note(claim.ref, kind, verdict.note, verdict.worker or worker, verdict.failure)
    _write(context, claim, verdict, state, due, keep)
    if state in TERMINAL and claim.unique is not None:
        unique.free(context, claim.queue, claim.unique, claim.id, unique_for)
    if verdict.unstarted:
        queue_states.give_back(context, [claim])
    if claim.gates or (claim.resource is not None and verdict.unstarted):
        resources.free(context, claim, verdict.hold, unstarted=verdict.unstarted)
    elif claim.resource is not None and verdict.hold is not None:
        resources.hold(context, claim.queue, claim.resource, verdict.hold)
    elif claim.resource is not None:
        resources.wake(context, claim.queue, claim.resource, after_run=True)
    if state in TERMINAL and not keep:
        delete(context, [claim.ref])
    if state is State.QUEUED:
        context.topics.add(claim.queue)
    return True


def _write(
    context: SqliteContext, claim: Claim, verdict: Verdict, state: State, due: _Due, keep: int
) -> None:
    ended = state in TERMINAL
    first_key = keys_of(claim.resource, claim.gates)[0] if state is State.BLOCKED else None
    context.run(
        "settle",
        seq=claim.ref,
        token=claim.token,
        state=state.value,
        due=due.due,
        fixed=due.fixed,
        error=verdict.error,
        result=verdict.result if state is State.SUCCEEDED else None,
        counts=verdict.counts.value if verdict.counts else "",
        stranded=verdict.stranded,
        now=context.now,
        finished=context.now if ended else None,
        expires=context.now + keep if ended else None,
        blocked_at=first_key,
        failure_group=verdict.group if state is State.FAILED else None,
    )
