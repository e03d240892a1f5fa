"""What can be done to a job: the buttons of its page, and of the page of jobs."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from mita.app import Mita
from mita.errors import UsageError
from mita.model.outcome import Answer
from mita.model.record import DisplayState
from mita.rules.priority import PRIORITY_RANGE
from mita.web.json_field import json_field
from mita.web.roles import Role
from mita.web.visit import Form, Visit

_ALIVE = frozenset(
    {
        DisplayState.WAITING,
        DisplayState.SCHEDULED,
        DisplayState.READY,
        DisplayState.BLOCKED,
        DisplayState.RUNNING,
    }
)
_DEAD = frozenset({DisplayState.FAILED, DisplayState.CANCELLED})
_ENDED = _DEAD | {DisplayState.SUCCEEDED}

ANSWERS = {
    Answer.DONE: "done",
    Answer.ASKED: "asked: it takes effect when the run ends",
    Answer.TOO_LATE: "too late: the state of the job does not allow it any more",
    Answer.TAKEN: "not done: another job has its unique key",
    Answer.UNREADABLE: "not done: its record cannot be read",
    Answer.UNKNOWN: "not done: there is no such job",
}


class JobAct(Struct, frozen=True):
    """An act: its name in forms, its label on buttons, the states that allow it, what it does, and
    the role that it needs. `is_dangerous`: it is asked for twice."""

    name: str
    label: str
    states: frozenset[DisplayState]
    run: Callable[[Mita, str, Form], Awaitable[Answer]]
    role: Role = Role.OPERATE
    is_dangerous: bool = False
    is_for_many: bool = True


async def _retry(app: Mita, id: str, form: Form) -> Answer:
    return await app.retry(id, reason=form.get("reason"))


async def _cancel(app: Mita, id: str, form: Form) -> Answer:
    return await app.cancel(id, form.get("reason"))


async def _run_now(app: Mita, id: str, form: Form) -> Answer:
    return await app.reschedule(id, after=0, reason=form.get("reason"))


async def _reschedule(app: Mita, id: str, form: Form) -> Answer:
    seconds = form.get("after")
    try:
        after = float(seconds)
    except ValueError:
        raise UsageError(f"after={seconds!r}: give a number of seconds") from None
    return await app.reschedule(id, after=after, reason=form.get("reason"))


async def _prioritise(app: Mita, id: str, form: Form) -> Answer:
    given = form.get("priority")
    try:
        priority = int(given)
    except ValueError:
        raise UsageError(f"priority={given!r}: give a whole number from {PRIORITY_RANGE}") from None
    return await app.prioritise(id, priority)


async def _signal(app: Mita, id: str, form: Form) -> Answer:
    return await app.signal(id, form.get("name"), json_field(form, "value"))


async def _amend(app: Mita, id: str, form: Form) -> Answer:
    arguments = json_field(form, "arguments")
    if not isinstance(arguments, dict):
        raise UsageError('give the arguments as a JSON object, for example {"to": "ada"}')
    return await app.amend(id, arguments=arguments, reason=form.get("reason"))


async def _delete(app: Mita, id: str, form: Form) -> Answer:
    del form
    return await app.delete(id)


ACTS = {
    act.name: act
    for act in (
        JobAct("retry", "Retry", _DEAD, _retry),
        JobAct(
            "run-now",
            "Run now",
            frozenset({DisplayState.SCHEDULED}),
            _run_now,
        ),
        JobAct("cancel", "Cancel", _ALIVE, _cancel, is_dangerous=True),
        JobAct("delete", "Delete", _ENDED, _delete, Role.ADMIN, is_dangerous=True),
        JobAct("reschedule", "Reschedule", _ALIVE | _DEAD, _reschedule, is_for_many=False),
        JobAct("prioritise", "Change priority", _ALIVE, _prioritise, is_for_many=False),
        JobAct(
            "amend",
            "Change arguments",
            (_ALIVE - {DisplayState.RUNNING}) | _DEAD,
            _amend,
            Role.ADMIN,
            is_for_many=False,
        ),
        JobAct("signal", "Signal", _ALIVE, _signal, is_for_many=False),
    )
}


async def change_job(visit: Visit, id: str, verb: str, form: Form) -> Answer:
    """Do one act to one job. Raises `UsageError` for an act that does not exist, or that needs
    another role."""
    act = ACTS.get(verb)
    if act is None:
        raise UsageError(f"act={verb!r}: use one of {', '.join(ACTS)}")
    if not visit.may(act.role):
        raise UsageError(f"{act.label} needs the role {act.role.label!r}")
    return await act.run(visit.app, id, form)
