"""The message of an `assert_enqueued` that failed: what was enqueued, and the nearest miss."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .enqueued import MISSING, EnqueuedJob, WantedJob

MOST_ROWS = 20  # of the table
MOST_CHARACTERS = 60  # of one value


def report(wanted: WantedJob, count: int | None, found: int, jobs: Sequence[EnqueuedJob]) -> str:
    """Say what was expected and what was enqueued instead. `found` jobs match."""
    lines = [_headline(wanted, count, found)]
    if not jobs:
        return f"{lines[0]}\n\nNothing was enqueued in this lab."
    lines += ["", f"{'1 job was' if len(jobs) == 1 else f'{len(jobs)} jobs were'} enqueued:"]
    lines += table(jobs[-MOST_ROWS:])
    if len(jobs) > MOST_ROWS:
        lines.append(f"  (the last {MOST_ROWS} of them)")
    if found == 0:
        lines += _nearest(wanted, jobs)
    return "\n".join(lines)


def _headline(wanted: WantedJob, count: int | None, found: int) -> str:
    named = [f"{name}={_value(value)}" for name, value in wanted.arguments.items()]
    told = [
        f"{name}={_value(value)}"
        for name in ("queue", "after", "at", "state", "tags")
        if (value := getattr(wanted, name)) not in (None, ())
    ]
    what = f"{wanted.task}({', '.join([*named, '…'] if named else ['…'])})"
    with_options = f" with {', '.join(told)}" if told else ""
    if count is None:
        return f"no job {what}{with_options} was enqueued"
    jobs = "job" if count == 1 else "jobs"
    return f"expected {count} {jobs} {what}{with_options}, but {found} were enqueued"


def table(jobs: Sequence[EnqueuedJob]) -> list[str]:
    """A line for each job, in columns."""
    rows = [
        (_call(job), f"queue={job.queue}", f"after={_seconds(job.after)}", str(job.state))
        for job in jobs
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _nearest(wanted: WantedJob, jobs: Sequence[EnqueuedJob]) -> list[str]:
    """How the job that is most like the wanted one differs from it."""
    of_task = [job for job in jobs if job.task == wanted.task]
    if not of_task:
        return ["", f"No job of {wanted.task} is among them."]
    nearest = min(reversed(of_task), key=lambda job: len(wanted.differences(job)))
    lines = ["", f"The nearest is {_call(nearest)}:"]
    for name, (expected, actual) in wanted.differences(nearest).items():
        was = "is not among its arguments" if actual is MISSING else f"was {_value(actual)}"
        lines.append(f"  {name}: expected {_value(expected)}, {was}{_kinds(expected, actual)}")
    return lines


def _kinds(expected: Any, actual: Any) -> str:
    """The types of two values that look the same."""
    if actual is MISSING or _value(expected) != _value(actual):
        return ""
    return f" ({type(expected).__qualname__} and {type(actual).__qualname__})"


def _call(job: EnqueuedJob) -> str:
    return f"{job.task}({', '.join(f'{k}={_value(v)}' for k, v in job.arguments.items())})"


def _value(value: Any) -> str:
    if isinstance(value, timedelta):
        return _seconds(value)
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - the repr of a user's class may raise
        text = f"<{type(value).__qualname__}: its repr raised {type(error).__name__}>"
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():g}"
