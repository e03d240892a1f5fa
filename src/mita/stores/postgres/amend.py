"""What people ask of jobs from outside, in whatever state they are."""

from collections.abc import Sequence
from typing import Any

from mita.model.job import State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
)
from mita.model.time import When
from mita.ports.store import ASKED
from mita.rules.states import DEAD, allowed
from mita.stores.shared.ids import without_repeats

from . import aside
from .arrays import storable, texts
from .statements import Statements
from .steps import Act, Ask, Row, Step, Steps, ask


def amend(
    act: Act, statements: Statements, ids: Sequence[str], change: Change
) -> Steps[list[Answer]]:
    match change:
        case RetryJob():
            answers = yield from _revive_readable(act, statements, ids, change)
        case RescheduleJob(when, note):
            answers = yield from _amend(act, ids, change)
            dead = [id for id, answer in zip(ids, answers, strict=True) if answer is None]
            revived = iter(
                (yield from _revive_readable(act, statements, dead, RetryJob(when, note)))
            )
            answers = [next(revived) if answer is None else answer for answer in answers]
        case DeleteJob():
            answers = yield from _delete(act, statements, ids, change)
        case _:
            answers = yield from _amend(act, ids, change)
    yield Step(last=True)
    return [answer or Answer.TOO_LATE for answer in answers]


def _revive_readable(
    act: Act, statements: Statements, ids: Sequence[str], change: RetryJob
) -> Steps[list[Answer | None]]:
    if not ids:
        return []
    [rows] = yield Step(aside.whole_rows(statements, list(ids)))
    lost = aside.stay_unreadable(rows)
    changed = iter((yield from _amend(act, [id for id in ids if id not in lost], change)))
    return [Answer.UNREADABLE if id in lost else next(changed) for id in ids]


def _delete(
    act: Act, statements: Statements, ids: Sequence[str], change: DeleteJob
) -> Steps[list[Answer | None]]:
    """A job that cannot be read is shown as failed, also before it is set aside: then it is set
    aside first."""
    answers = yield from _amend(act, ids, change)
    late = [id for id, answer in zip(ids, answers, strict=True) if answer is Answer.TOO_LATE]
    if not late or not (yield from aside.set_aside(act, statements)):
        return answers
    again = iter((yield from _amend(act, late, change)))
    return [next(again) if answer is Answer.TOO_LATE else answer for answer in answers]


def _amend(act: Act, ids: Sequence[str], change: Change) -> Steps[list[Answer | None]]:
    """None for a dead job that was to be moved: it has to be revived."""
    answers: list[Answer | None] = []
    for some in without_repeats(ids):
        asks = (
            [_revive(id, change) for id in some]
            if isinstance(change, RetryJob)
            else [_ask(sorted(some), change)]
        )
        found = {row[0]: row for rows in (yield Step(*asks)) for row in rows}
        answers += [_answer(act, found.get(id), change) for id in some]
    return answers


def _ask(ids: list[str], change: RescheduleJob | CancelJob | PrioritiseJob | DeleteJob) -> Ask:
    match change:
        case RescheduleJob(when, note):
            return ask("amend_reschedule", ids=texts(ids), note=storable(note), **_moment(when))
        case CancelJob(keep, reason):
            return ask("cancel", ids=texts(ids), keep=keep, reason=storable(reason))
        case PrioritiseJob(priority):
            return ask("amend_prioritise", ids=texts(ids), priority=priority)
        case DeleteJob():
            return ask("delete", ids=texts(ids))


def _revive(id: str, change: RetryJob) -> Ask:
    return ask("amend_retry", id=storable(id), note=storable(change.note), **_moment(change.when))


def _moment(when: When) -> dict[str, Any]:
    return {"wait": when.wait, "at": when.at}


def _answer(act: Act, found: Row | None, change: Change) -> Answer | None:
    """By the state in which the statement found the job, and whether it has another wish already
    (or was revived)."""
    if found is None:
        return Answer.UNKNOWN
    _, queue, state, more = found[:4]
    if State(state) not in allowed(change):
        return Answer.TOO_LATE
    if isinstance(change, RescheduleJob) and State(state) in DEAD:
        return None
    if isinstance(change, RescheduleJob) and state == State.RUNNING and more == "cancel":
        return Answer.TOO_LATE
    if isinstance(change, RetryJob) and not more:
        return Answer.TAKEN
    if state == State.RUNNING and not isinstance(change, PrioritiseJob):
        if isinstance(change, CancelJob):
            act.topics.add(ASKED)
        return Answer.ASKED
    act.topics.add(queue)
    return Answer.DONE
