"""Putting a job down after its run."""

from collections.abc import Sequence
from typing import Any

from mita.model.job import Job, State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import Moment, Wait
from mita.rules.asked import kind_after, state_after
from mita.rules.states import TERMINAL
from mita.stores.shared.apart import named

from .context import Act, Record
from .index import place
from .resources import free_unique, hold, wake


def settle_all(act: Act, settlements: Sequence[Settlement], room: int | None) -> list[bool]:
    """Those that fit; the others are named."""
    took: list[bool] = []
    rejected: dict[int, str] = {}
    for at, settlement in enumerate(settlements):
        size = size_of(settlement)
        if room is not None and size > room and act.held_by(settlement.claim) is not None:
            rejected[at] = (
                f"a job of {size:,} bytes is more than this store has room for ({room:,})"
            )
        took.append(at not in rejected and settle(act, settlement))
    if rejected:
        raise named(took, rejected)
    return took


def size_of(settlement: Settlement) -> int:
    """What is bounded of a job: its arguments and its result."""
    return len(settlement.claim.payload) + len(settlement.verdict.result or b"")


def settle(act: Act, settlement: Settlement) -> bool:
    record, verdict = act.held_by(settlement.claim), settlement.verdict
    if record is None:
        return False
    where = place(record.job)
    _note(act, record, verdict)
    _put_down(act, record, verdict, _written(act, record.job, verdict))
    if where and verdict.hold is not None:
        hold(act, where, verdict.hold.moment(act.now))
    elif where:
        wake(act, where, most=1)
    return True


def finish(act: Act, record: Record, state: State, keep: Wait, **more: Any) -> None:
    """Bring a job to its end."""
    job = act.change(
        record,
        state=state,
        finished=act.now,
        expires=act.now + keep,
        lease_until=None,
        asked=None,
        **more,
    )
    free_unique(act, job)
    if keep == 0:
        act.forget(record)


def _note(act: Act, record: Record, verdict: Verdict) -> None:
    kind = kind_after(record.job.asked, verdict)
    if kind:
        act.note(record, kind, verdict.note, verdict.worker or record.job.worker, verdict.failure)


def _written(act: Act, job: Job, verdict: Verdict) -> dict[str, Any]:
    """What a verdict says of the run, wherever the job goes from here."""
    written: dict[str, Any] = {"stranded": _stranded(act, job) if verdict.stranded else None}
    if verdict.counts is not None:
        written[verdict.counts.value] = getattr(job, verdict.counts.value) + 1
    if verdict.error is not None:
        written["error"] = verdict.error
    return written


def _stranded(act: Act, job: Job) -> Moment:
    return act.now if job.stranded is None else job.stranded


def _put_down(act: Act, record: Record, verdict: Verdict, written: dict[str, Any]) -> None:
    job = record.job
    state = state_after(job.asked, verdict)
    if state in TERMINAL:
        result = verdict.result if state is State.SUCCEEDED else None
        keep = record.asked_keep if job.asked else verdict.keep
        finish(act, record, state, keep, result=result, **written)
    elif job.asked:
        _back(act, record, state, due=record.asked_due, **written)
    else:
        due = job.due if verdict.when is None else verdict.when.moment(act.now)
        _back(act, record, state, due=due, **written)


def _back(act: Act, record: Record, state: State, **written: Any) -> None:
    act.change(record, state=state, lease_until=None, worker=None, asked=None, **written)
    act.rings.add(record.job.queue)
