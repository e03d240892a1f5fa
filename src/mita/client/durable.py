"""What a durable handler has stored, as people see it: its steps, sleeps, signals and waits."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.errors import StoreError
from mita.model.record import (
    DisplayState,
    JobRecord,
    SignalRecord,
    SleepRecord,
    StepRecord,
    WaitRecord,
)
from mita.model.time import Moment
from mita.ports.store import Store
from mita.rules.display import as_datetime
from mita.rules.durable import (
    RESERVED,
    SIGNAL,
    SLEEP,
    STEP,
    TIMED_OUT,
    moment_or_none,
    pending_waits,
    read_step,
)
from mita.rules.flow import CHILD, read_child
from mita.tasks.stored import plain

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


async def values_of(store: Store, id: str) -> dict[str, bytes]:
    """Return the once values of a job; none if one of them cannot be read: the rest of the job is
    still shown."""
    try:
        return await store.once_values(id)
    except StoreError as error:
        if error.transient:
            raise
        return {}


def with_durable(record: JobRecord, values: Mapping[str, bytes]) -> JobRecord:
    """Return the record with what its handler has stored. `values` are the once values of the job.
    For a secret task there are names and times, and no values."""
    if not values:
        return record
    names = sorted(values)
    steps = [_once(name, values[name], record) for name in names if not name.startswith(RESERVED)]
    steps += sorted(
        (_step(name, values[name], record) for name in names if name.startswith(STEP)), key=_ended
    )
    sleeps = [
        SleepRecord(name.removeprefix(SLEEP), _datetime(moment_or_none(values[name])))
        for name in names
        if name.startswith(SLEEP)
    ]
    signals = [_signal(name, values[name], record) for name in names if name.startswith(SIGNAL)]
    is_parked = record.state in (DisplayState.WAITING, DisplayState.SCHEDULED)
    waits = [
        WaitRecord(wait.name, _datetime(wait.end)) for wait in pending_waits(values) if is_parked
    ]
    return replace(
        record,
        steps=tuple(steps),
        sleeps=tuple(sorted(sleeps, key=_until)),
        signals=tuple(signals),
        waits_for=tuple(waits),
    )


def _once(name: str, packed: bytes, record: JobRecord) -> StepRecord:
    return StepRecord(name, value=_value(packed, record))


def _step(name: str, packed: bytes, record: JobRecord) -> StepRecord:
    shown = name.removeprefix(STEP)
    try:
        step = read_step(packed)
    except _UNREADABLE:
        return StepRecord(shown)
    return StepRecord(shown, as_datetime(step.ended), step.seconds, _value(step.value, record))


def _signal(name: str, packed: bytes, record: JobRecord) -> SignalRecord:
    shown = name.removeprefix(SIGNAL)
    if packed == TIMED_OUT:
        return SignalRecord(shown, timed_out=True)
    if shown.startswith(CHILD):
        return SignalRecord(shown, _child(packed))
    return SignalRecord(shown, _value(packed, record))


def _child(packed: bytes) -> str | None:
    """How a child ended. Its result is shown with the child itself, whose task may be secret."""
    try:
        outcome = read_child(packed)
    except _UNREADABLE:
        return None
    return f"{outcome.state.value}: {outcome.error}" if outcome.error else outcome.state.value


def _value(packed: bytes, record: JobRecord) -> Any:
    try:
        return None if record.secret else plain(packed)
    except _UNREADABLE:
        return None


def _ended(step: StepRecord) -> float:
    return 0.0 if step.ended is None else step.ended.timestamp()


def _until(sleep: SleepRecord) -> float:
    return 0.0 if sleep.until is None else sleep.until.timestamp()


def _datetime(moment: Moment | None) -> Any:
    return None if moment is None else as_datetime(moment)
