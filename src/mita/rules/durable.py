"""Durable handlers: under which names a job keeps its steps, sleeps and signals.

They are values of `job.once`, so every store keeps them with the job, across runs and retries. All
of these names begin with `RESERVED`, which handlers may not use for names of their own.

- A step keeps its result, and when it ended.
- A sleep keeps the time at which it ends.
- A wait keeps its time-out, so that a signal knows that the job waits for it.
- An arrival keeps how another job of the flow has ended (`Arrival`).
- A signal keeps its value. A store writes it, without a claim (`SignalJob`). A wait that has timed
  out keeps an empty value in its place: a signal that comes later is refused.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from mita.model.time import Moment

RESERVED = "mita:"
STEP = f"{RESERVED}step:"
SLEEP = f"{RESERVED}sleep:"
WAIT = f"{RESERVED}wait:"
SIGNAL = f"{RESERVED}signal:"
NEVER: Moment = 0  # as the time-out of a wait: it has none
TIMED_OUT = b""  # in place of the value of a signal; a packed value is never empty


class StoredStep(Struct, frozen=True, array_like=True):
    """A step that is done: when it ended, how many seconds it took, and its result (packed)."""

    ended: Moment
    seconds: float
    value: bytes


class PendingWait(Struct, frozen=True):
    """A signal that a handler has asked for and that has not come. `end` is when the wait times
    out; None: never, or it cannot be read."""

    name: str
    end: Moment | None


pack_durable: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode
read_step = msgspec.msgpack.Decoder(StoredStep).decode
read_moment = msgspec.msgpack.Decoder(Moment).decode
ARRIVAL = f"{RESERVED}arrival:"


def step_name(name: str) -> str:
    """The name under which a job keeps the result of this step."""
    return STEP + name


def sleep_name(name: str) -> str:
    """The name under which a job keeps the end of this sleep."""
    return SLEEP + name


def wait_name(name: str) -> str:
    """The name under which a job keeps until when it waits for this signal."""
    return WAIT + name


def signal_name(name: str) -> str:
    """The name under which a job keeps the value of this signal."""
    return SIGNAL + name


def described(key: str) -> str:
    """A name under which a job keeps a value, in words: `step 'charge'`. For error messages."""
    for prefix, what in ((STEP, "step"), (SLEEP, "sleep"), (WAIT, "wait"), (SIGNAL, "signal")):
        if key.startswith(prefix):
            return f"{what} {key.removeprefix(prefix)!r}"
    return f"`once` value {key!r}"


def pending_waits(values: Mapping[str, bytes]) -> list[PendingWait]:
    """The signals that a job waits for: the wait is stored, and no signal. `values` are the once
    values of the job."""
    names = [key.removeprefix(WAIT) for key in values if key.startswith(WAIT)]
    return [
        PendingWait(name, moment_or_none(values[wait_name(name)]))
        for name in sorted(names)
        if signal_name(name) not in values
    ]


def moment_or_none(packed: bytes) -> Moment | None:
    """A stored point in time; None for `NEVER`, and for bytes that are none."""
    try:
        return read_moment(packed) or None
    except (msgspec.MsgspecError, ValueError):
        return None


def arrival_name(sender: str) -> str:
    """The name under which a job keeps how this job has ended."""
    return ARRIVAL + sender


def arrivals(values: Iterable[str]) -> int:
    """How many of these names of values are those of arrivals."""
    return sum(name.startswith(ARRIVAL) for name in values)
