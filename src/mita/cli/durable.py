"""What `mita show` says of a durable handler: its steps, sleeps, signals and waits."""

from datetime import datetime
from typing import Any

from mita.model.record import WITHHELD, DisplayState, JobRecord
from mita.model.time import SECOND
from mita.rules.display import span
from mita.rules.words import clock, relative

from .table import Column, Table


def due_text(job: JobRecord, now: datetime) -> str:
    """When the job is due."""
    if job.state is not DisplayState.WAITING:
        return clock(job.due, now)
    return "when its signal comes" if job.waits_for else "when the jobs it waits for have ended"


def durable_parts(job: JobRecord, now: datetime) -> list[str | Table]:
    """A table of what the handler has behind it and what it waits for; nothing for other jobs."""
    rows = [*_steps(job, now), *_sleeps(job, now), *_signals(job), *_waits(job, now)]
    columns = (
        "kind",
        "name",
        "when",
        Column("took", drop_order=2),
        Column("value", drop_order=1),
    )
    return ["", Table(columns, rows)] if rows else []


def _steps(job: JobRecord, now: datetime) -> list[tuple[str, ...]]:
    return [
        (
            "step",
            step.name,
            relative(step.ended, now),
            "" if step.seconds is None else span(round(step.seconds * SECOND)),
            _value(job, step.value),
        )
        for step in job.steps
    ]


def _sleeps(job: JobRecord, now: datetime) -> list[tuple[str, ...]]:
    return [
        (
            "sleep",
            sleep.name,
            "" if sleep.until is None else f"until {clock(sleep.until, now)}",
            "",
            "",
        )
        for sleep in job.sleeps
    ]


def _signals(job: JobRecord) -> list[tuple[str, ...]]:
    return [
        ("signal", signal.name, "timed out", "", "")
        if signal.timed_out
        else ("signal", signal.name, "came", "", _value(job, signal.value))
        for signal in job.signals
    ]


def _waits(job: JobRecord, now: datetime) -> list[tuple[str, ...]]:
    return [
        (
            "waits for",
            wait.name,
            "no time-out" if wait.until is None else f"until {clock(wait.until, now)}",
            "",
            "",
        )
        for wait in job.waits_for
    ]


def _value(job: JobRecord, value: Any) -> str:
    return WITHHELD if job.secret else repr(value)
