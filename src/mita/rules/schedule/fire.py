"""What a repeat that is due does now: which jobs it makes, and which windows it drops."""

from itertools import islice, takewhile

from msgspec.structs import replace

from mita.model.pattern import CATCH_UP_JOBS, All, RepeatSpec
from mita.model.repeat import FIRING_JOBS, Firing, Repeat, RepeatState
from mita.model.time import Moment

from .dropped import count, with_note, without_note
from .jobs import fire_id, job
from .times import before, fires, following, latest

MOST_FIRING_BYTES = 8_000_000  # of the jobs of one firing
JOB_BYTES = 1000  # of a job beside its arguments
# The reason of a repeat that has missed windows to go. Its number is read again when the next of
# them are planned, so that a catch-up that takes several acts, of several schedulers, makes no more
# than one that takes a single one.
CATCHING_UP = "it catches up, with at most %d missed windows to go"


def plan(repeat: Repeat, spec: RepeatSpec, now: Moment) -> Firing:
    """Returns what a repeat whose cursor is due does now."""
    assert repeat.cursor is not None, "a repeat without a cursor is never due"  # noqa: S101
    future = following(spec, repeat.cursor, repeat.cursor)
    due, left, dropped = [repeat.cursor], 0, 0
    # a fire is merely late, not missed, until its next window is over
    if future is not None and future < now:
        # a window that begins this very moment is on time: it is the next one, whatever was missed
        past = now - 1
        due, left = _missed(spec, repeat, past)
        future = following(spec, due[-1] if left else past, repeat.cursor)
        dropped = 0 if left else _dropped(spec, repeat.cursor, due, past)
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
        cancels=_older(repeat, spec) if spec.overlap == "cancel" and due else (),
    )


def _older(repeat: Repeat, spec: RepeatSpec) -> tuple[str, ...]:
    """Returns the ids of older jobs that may not have ended: the job of the last fire, and of the
    one before, in case a scheduler died before it cancelled that."""
    if repeat.last is None:
        return ()
    return fire_id(repeat.key, repeat.last), fire_id(repeat.key, before(spec, repeat.last))


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
            return [latest(spec, cursor, now)], 0
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
