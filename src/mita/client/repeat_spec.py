"""From what a person says about a repeat to its spec, and from a stored repeat to its record."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, TypedDict

from msgspec.structs import replace

from mita.errors import UsageError, did_you_mean
from mita.model.pattern import All, Cron, Every, JobTemplate, Overlap, Pattern, RepeatSpec
from mita.model.record import RepeatRecord
from mita.model.repeat import Repeat, RepeatState
from mita.model.time import SECOND, Moment
from mita.rules.display import as_datetime
from mita.rules.names import check_name
from mita.rules.options import with_pause_after
from mita.rules.schedule import spec, times
from mita.rules.schedule.dropped import dropped
from mita.rules.when import moment, wait
from mita.tasks import Call

from .calls import template

_NO_JOB = JobTemplate(task="", queue="", payload=b"")


class RepeatChoices(TypedDict, total=False):
    """The options of a repeat."""

    start_after: datetime | None
    end_before: datetime | None
    limit: int | None
    missed: Literal["skip", "once"] | All
    overlap: Overlap
    jitter: float | timedelta
    pause_after: int | None


def repeat_key(given: str | None, task: str, pattern: Pattern) -> str:
    """Return the key of a repeat. If none is given, it is made from task and pattern, so the same
    task with the same pattern is the same repeat."""
    _check_pattern(pattern)
    if given is not None:
        return check_name("repeat", given)
    match pattern:
        case Every():
            return check_name("repeat", f"{task}:every-{pattern.interval}ms")
        case Cron(expression, tz):
            return check_name(
                "repeat", f"{task}:cron-{sha256(f'{expression}|{tz}'.encode()).hexdigest()[:10]}"
            )


def repeat_spec(call: Call[Any], pattern: Pattern, choices: Mapping[str, Any]) -> RepeatSpec:
    """Check the choices and make the spec of a repeat. Raises `UsageError` for choices that
    contradict each other."""
    known = RepeatChoices.__annotations__
    for name in choices:
        if name not in known:
            meant = did_you_mean(name, known) or ":"
            raise UsageError(
                f"unknown option {name!r}{meant} a repeat takes {', '.join(known)}; job options "
                "go on the call"
            )
    moments = {name: _moment(choices, name) for name in ("start_after", "end_before")}
    jitter = wait("jitter", choices.get("jitter", 0))
    job = template(call)
    wanted = RepeatSpec(pattern=pattern, job=job, **{**choices, **moments, "jitter": jitter})
    times.check(wanted)
    if wanted.pause_after is None:
        return wanted
    return replace(
        wanted, job=replace(job, options=with_pause_after(job.options, wanted.pause_after))
    )


def fires_from(pattern: Pattern, now: Moment) -> Iterator[Moment]:
    """Yield the fire times of a pattern that starts now."""
    _check_pattern(pattern)
    return times.fires(RepeatSpec(pattern=pattern, job=_NO_JOB), now, now)


def repeat_record(repeat: Repeat) -> RepeatRecord:
    """Make the record of a stored repeat."""
    try:
        wanted = spec.unpack(repeat.spec)
    except UsageError as error:
        reason = repeat.reason or str(error)
        return RepeatRecord(
            key=repeat.key, state=RepeatState.PARKED, reason=reason, count=repeat.count
        )
    return RepeatRecord(
        key=repeat.key,
        state=repeat.state,
        reason="; ".join(text for text in (repeat.pause_reason, repeat.reason) if text),
        task=wanted.job.task,
        queue=wanted.job.queue,
        pattern=wanted.pattern,
        words=times.in_words(wanted),
        next=_shown(repeat.cursor),
        last=_shown(repeat.last),
        count=repeat.count,
        limit=wanted.limit,
        start_after=_shown(wanted.start_after),
        end_before=_shown(wanted.end_before),
        missed=f"all, at most {wanted.missed.max_catchup}"
        if isinstance(wanted.missed, All)
        else wanted.missed,
        overlap=wanted.overlap,
        dropped=dropped(repeat.reason),
        jitter=wanted.jitter / SECOND,
        pause_after=wanted.pause_after,
        failures=repeat.failures,
    )


def _shown(moment: Moment | None) -> datetime | None:
    return None if moment is None else as_datetime(moment)


def _check_pattern(pattern: Pattern) -> None:
    if not isinstance(pattern, Every | Cron):
        raise UsageError(
            f"pattern {pattern!r}: give Every(seconds) or Cron('0 9 * * *', tz='Europe/Madrid')"
        )


def _moment(choices: Mapping[str, Any], name: str) -> Moment | None:
    at = choices.get(name)
    return None if at is None else moment(at, name)
