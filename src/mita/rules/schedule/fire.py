"""When a repeat fires, and which jobs one firing makes."""

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice, takewhile
from operator import attrgetter

from msgspec.structs import replace

from mita.model.job import NewJob
from mita.model.pattern import CATCH_UP_JOBS, All, Cron, Every, JobTemplate, Pattern, RepeatSpec
from mita.model.repeat import FIRING_JOBS, Firing, Repeat, RepeatState
from mita.model.time import MINUTE, SECOND, Moment, When

from . import cron
from .dropped import count, with_note, without_note

TEMPLATE_FIELDS = JobTemplate.__struct_fields__  # each is a field of `NewJob` too
_template_values = attrgetter(*TEMPLATE_FIELDS)
MOST_FIRING_BYTES = 8_000_000  # of the jobs of one firing
JOB_BYTES = 1000  # of a job beside its arguments
# The reason of a repeat that has missed windows to go. Its number is read again when the next of
# them are planned, so that a catch-up that takes several acts, of several schedulers, makes no more
# than one that takes a single one.
CATCHING_UP = "it catches up, with at most %d missed windows to go"


def check(spec: RepeatSpec) -> None:
    """Raise a `UsageError` for a pattern that cannot be computed."""
    if isinstance(spec.pattern, Cron):
        cron.check(spec.pattern)


def fires(spec: RepeatSpec, after: Moment, origin: Moment) -> Iterator[Moment]:
    """Yields the nominal fire times later than `after`. Intervals are counted from `origin`, which
    is one of them."""
    times = _times(spec, max(after, (spec.start_after or 0) - 1), origin)
    return (
        times
        if spec.end_before is None
        else takewhile(lambda time: time < (spec.end_before or 0), times)
    )


def following(spec: RepeatSpec, after: Moment, origin: Moment) -> Moment | None:
    """Returns the first fire later than `after`. Thousands of repeats are planned in a second: for
    an interval it is a sum, without a generator."""
    if not isinstance(spec.pattern, Every):
        return next(fires(spec, after, origin), None)
    interval = spec.pattern.interval
    if spec.start_after is not None:
        after = max(after, spec.start_after - 1)
    time = origin + interval * max(0, (after - origin) // interval + 1)
    return None if spec.end_before is not None and time >= spec.end_before else time


def _times(spec: RepeatSpec, after: Moment, origin: Moment) -> Iterator[Moment]:
    match spec.pattern:
        case Cron() as line:
            yield from cron.after(line, after)
        case Every() as every:
            turns = max(0, (after - origin) // every.interval + 1)  # computed, not walked
            while True:
                yield origin + turns * every.interval
                turns += 1


def first(spec: RepeatSpec, now: Moment) -> Moment | None:
    """Returns the first fire of a new repeat: an interval begins at its start, or one interval from
    now."""
    origin = now
    if isinstance(spec.pattern, Every):
        origin = spec.start_after if spec.start_after is not None else now + spec.pattern.interval
    return following(spec, now - 1 if spec.start_after == now else now, origin)


def preview(spec: RepeatSpec, cursor: Moment | None, n: int) -> list[Moment]:
    """Returns the next `n` fires from the cursor on."""
    return [] if cursor is None or n < 1 else [cursor, *islice(fires(spec, cursor, cursor), n - 1)]


def plan(repeat: Repeat, spec: RepeatSpec, now: Moment) -> Firing:
    """Returns what a repeat whose cursor is due does now."""
    assert repeat.cursor is not None, "a repeat without a cursor is never due"  # noqa: S101
    future = following(spec, repeat.cursor, repeat.cursor)
    due, left, dropped = [repeat.cursor], 0, 0
    # a fire is merely late, not missed, until its next window is over
    if future is not None and future < now:
        # a window that begins this very moment is on time: it is the next one, whatever was missed
        before = now - 1
        due, left = _missed(spec, repeat, before)
        future = following(spec, due[-1] if left else before, repeat.cursor)
        dropped = 0 if left else _dropped(spec, repeat.cursor, due, before)
    if spec.limit is not None:
        due = due[: max(0, spec.limit - repeat.count)]
    ended = _ending(spec, repeat.count + len(due), future)
    return Firing(
        key=repeat.key,
        cursor=repeat.cursor,
        revision=repeat.revision,
        next=None if ended else future,
        fired=len(due),
        last=due[-1] if due else None,
        jobs=tuple(job(repeat.key, spec, time) for time in due),
        state=RepeatState.FINISHED if ended else RepeatState.ACTIVE,
        reason=with_note(
            ended or (CATCHING_UP % left if left else ""), repeat.reason, dropped, now
        ),
        missed="all" if isinstance(spec.missed, All) else spec.missed,
        dropped=dropped,
    )


def _dropped(spec: RepeatSpec, cursor: Moment, due: list[Moment], now: Moment) -> int:
    """Returns how many due windows make no job: with `skip` those before the one that does, else
    those after."""
    if spec.missed == "skip":
        return count(spec, cursor, due[0] - 1, fires) + 1 if due[0] > cursor else 0
    return count(spec, due[-1], now, fires)


def _missed(spec: RepeatSpec, repeat: Repeat, now: Moment) -> tuple[list[Moment], int]:
    """Decide about windows that passed without a scheduler, as `missed=` says. Returns the fire
    times to make jobs for now, and how many more jobs this catch-up may make in later calls."""
    cursor = repeat.cursor or 0
    match spec.missed:
        case "skip":
            return [_latest(spec, cursor, now)], 0
        case "once":
            return [cursor], 0
        case All(most):
            allowed = _left(without_note(repeat.reason)) or min(most, CATCH_UP_JOBS)
            come = takewhile(lambda time: time <= now, fires(spec, cursor, cursor))
            portion = min(allowed, _together(spec))
            due = [cursor, *islice(come, portion - 1)]
            return due, allowed - portion if next(come, None) is not None else 0


def half(firing: Firing) -> Firing:
    """Returns the first half of a firing whose jobs are too many for its store; the others are due
    at once and planned again."""
    jobs, rest = firing.jobs[: len(firing.jobs) // 2], firing.jobs[len(firing.jobs) // 2 :]
    return replace(
        firing,
        next=rest[0].fire_time,
        fired=len(jobs),
        last=jobs[-1].fire_time,
        jobs=jobs,
        state=RepeatState.ACTIVE,
        reason=with_note(
            CATCHING_UP % (_left(without_note(firing.reason)) + len(rest)),
            firing.reason,
            -firing.dropped,
            0,
        ),
        dropped=0,
    )


def _together(spec: RepeatSpec) -> int:
    """Returns how many jobs of this repeat are made in one call: no more than every store can write
    at once."""
    return max(1, min(FIRING_JOBS, MOST_FIRING_BYTES // (len(spec.job.payload) + JOB_BYTES)))


def _left(reason: str) -> int:
    """Returns how many windows a catch-up that has begun may still make up for; 0 if none has
    begun."""
    head, tail = CATCHING_UP.split("%d")
    number = reason.removeprefix(head).removesuffix(tail)
    return int(number) if number != reason and number.isdigit() else 0


def _latest(spec: RepeatSpec, cursor: Moment, now: Moment) -> Moment:
    """Returns the last due window. The search begins near now, so that a long outage is not walked
    through."""
    if isinstance(spec.pattern, Every) and spec.end_before is None:
        return now - (now - cursor) % spec.pattern.interval
    span = MINUTE
    while True:
        after = max(cursor, now - span)
        come = takewhile(lambda time: time <= now, fires(spec, after, cursor))
        latest = max(come, default=cursor)
        if latest > cursor or after == cursor:
            return latest
        span *= 4


def _ending(spec: RepeatSpec, count: int, future: Moment | None) -> str:
    if spec.limit is not None and count >= spec.limit:
        return f"it has fired {count} times, its limit"
    if future is None:
        return (
            "no fire is left before its end"
            if spec.end_before is not None
            else "the pattern has no further match"
        )
    return ""


def job(key: str, spec: RepeatSpec, time: Moment, id: str | None = None) -> NewJob:
    """Returns the job of one fire. Its id follows from repeat and fire time, so making it twice
    makes one job."""
    template = dict(zip(TEMPLATE_FIELDS, _template_values(spec.job), strict=True))
    if spec.overlap == "skip":
        template["unique"] = f"repeat:{key}"
    return NewJob(
        id=id or fire_id(key, time), when=When(at=time), repeat=key, fire_time=time, **template
    )


def fire_id(key: str, time: Moment) -> str:
    """Returns an id of the same form as every job id: the time first, so that ids sort by it."""
    digest = sha256(f"{key}\0{time}".encode()).hexdigest()
    return f"{time:012x}7{digest[:3]}8{digest[3:18]}"


def in_words(spec: RepeatSpec) -> str:
    """Returns the pattern in words."""
    return pattern_in_words(spec.pattern)


def pattern_in_words(pattern: Pattern) -> str:
    """Returns a pattern in words."""
    match pattern:
        case Cron() as line:
            return cron.in_words(line)
        case Every() as every:
            return f"every {every.interval / SECOND:.15g} s"
