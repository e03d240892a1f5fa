"""The page of one repeat: its fires to come, its jobs, pause, trigger and backfill."""

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.responses import Response

from mita.errors import UsageError
from mita.model.record import BackfillResult, JobRecord, RepeatRecord
from mita.rules.words import counted
from mita.web.clock_changes import Fire, fires_around, fires_in, next_change, zone_of
from mita.web.fields import time_field
from mita.web.roles import Role
from mita.web.visit import Form, NotHere, Visit

from .repeats import zone_name

_SHOWN_FIRES = 10
_MOST_FIRES = 100
_HISTORY_JOBS = 20
_SHOWN_WINDOWS = 12


async def show(visit: Visit) -> Response:
    """Show a repeat. With a range in the address it also shows what a backfill would make; nothing
    is made."""
    key = visit.part("key")
    repeat = await visit.app.repeats.get(key)
    if repeat is None:
        raise NotHere("There is no such repeat: it never was, or it was removed.")
    plan, error = await _plan(visit, key)
    change, around = _clock_change(visit, repeat)
    return visit.render(
        "repeat.html",
        repeat=repeat,
        zone=zone_name(repeat),
        fires=await _fires(visit, repeat),
        most_fires=_MOST_FIRES,
        change=change,
        around=around,
        jobs=await visit.site.aged.get(("repeat", key), partial(_history, visit, key)),
        plan=plan,
        windows=_shown(plan, repeat),
        error=error,
        start=visit.query("start") or "",
        end=visit.query("end") or "",
    )


async def _history(visit: Visit, key: str) -> tuple[JobRecord, ...]:
    return (await visit.app.jobs(repeat=key, limit=_HISTORY_JOBS)).jobs


async def _fires(visit: Visit, repeat: RepeatRecord) -> list[Fire]:
    if repeat.pattern is None:
        return []
    n = visit.number("fires", _SHOWN_FIRES, _MOST_FIRES)
    return fires_in(await visit.app.repeats.preview(repeat.key, n), zone_of(repeat.pattern))


def _clock_change(visit: Visit, repeat: RepeatRecord) -> tuple[object, list[Fire]]:
    """The next change of clocks in the zone of a repeat, and its fires around it."""
    if repeat.pattern is None or repeat.next is None:
        return None, []
    change = next_change(zone_of(repeat.pattern), visit.now)
    return change, [] if change is None else fires_around(repeat.pattern, change)


async def _plan(visit: Visit, key: str) -> tuple[BackfillResult | None, str]:
    """What a backfill of the range in the address would make; or why it cannot be made."""
    start, end = visit.query("start"), visit.query("end")
    if start is None or end is None:
        return None, "" if start is end else "Give both the start and the end of the range."
    try:
        return await visit.app.repeats.backfill(
            key, start=time_field(start, "start"), end=time_field(end, "end"), dry_run=True
        ), ""
    except UsageError as error:
        return None, str(error)


def _shown(plan: BackfillResult | None, repeat: RepeatRecord) -> list[Fire]:
    """The first and the last fire times of a plan."""
    if plan is None:
        return []
    found = fires_in(plan.windows, zone_of(repeat.pattern))
    half = _SHOWN_WINDOWS // 2
    return found if len(found) <= _SHOWN_WINDOWS else [*found[:half], *found[-half:]]


# ---------------------------------------------------------------- acts


async def act(visit: Visit) -> Response:
    """Pause, resume, trigger, backfill or remove a repeat."""
    sent = await visit.form()
    key, verb = sent.get("key"), sent.get("act")
    run = _ACTS.get(verb)
    if run is None:
        raise UsageError(f"act={verb!r}: use one of {', '.join(_ACTS)}")
    if verb in _ADMIN_ACTS and not visit.may(Role.ADMIN):
        raise UsageError(f"{verb} needs the role {Role.ADMIN.label!r}")
    with visit.acting(sent.get("reason")):
        return await run(visit, key, sent)


async def _pause(visit: Visit, key: str, _: Form) -> Response:
    done = await visit.app.repeats.pause(key)
    return visit.done(f"Repeat {key} is paused." if done else f"Repeat {key} was not active.")


async def _resume(visit: Visit, key: str, _: Form) -> Response:
    done = await visit.app.repeats.resume(key)
    return visit.done(f"Repeat {key} fires again." if done else f"Repeat {key} was not paused.")


async def _trigger(visit: Visit, key: str, _: Form) -> Response:
    handle = await visit.app.repeats.trigger(key)
    if not handle.created:
        return visit.done(f"Repeat {key}: job {handle.id} was there already.")
    return visit.done(f"Repeat {key} made job {handle.id}; its schedule is as before.")


async def _remove(visit: Visit, key: str, _: Form) -> Response:
    done = await visit.app.repeats.remove(key)
    said = f"Repeat {key} is removed; its jobs stay." if done else f"Repeat {key} was gone already."
    return visit.done(said, visit.url("/repeats"))


async def _backfill(visit: Visit, key: str, sent: Form) -> Response:
    start, end = (time_field(sent.get(name), name) for name in ("start", "end"))
    result = await visit.app.repeats.backfill(key, start=start, end=end)
    there = len(result.windows) - result.enqueued
    more = f", {there:,} were there already" if there else ""
    said = f"Repeat {key}: {counted(result.enqueued, 'job')} enqueued{more}."
    return visit.done(said, visit.url(f"/repeats/{key}"))


_ACTS: dict[str, Callable[[Visit, str, Form], Awaitable[Response]]] = {
    "pause": _pause,
    "resume": _resume,
    "trigger": _trigger,
    "remove": _remove,
    "backfill": _backfill,
}
_ADMIN_ACTS = ("remove", "backfill")
