"""What people see of queues, keys and workers, from what a store has of them, readable or not."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from mita.errors import StoreError
from mita.model.time import LATEST, Moment
from mita.model.view import Holder, ResourceView, WorkerView
from mita.rules.readable import BAD, UNKNOWN

Place: TypeAlias = tuple[str, str]  # a queue, and a key in it

_read_worker = msgspec.msgpack.Decoder(WorkerView).decode


def as_name(found: Any) -> str:
    """A name to show, whatever stands there."""
    if isinstance(found, bytes):
        return found.decode("utf-8", "backslashreplace")
    if not isinstance(found, str):
        return UNKNOWN
    return (
        found
        if found.isascii()
        else found.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


def as_moment(found: Any) -> Moment:
    """A moment to show: 0 for what is none, the last one for what lies beyond it."""
    return max(0, min(found, LATEST)) if isinstance(found, int) else 0


def as_worker(packed: Any) -> WorkerView | None:
    """How a worker described itself; None when that cannot be read."""
    try:
        return _read_worker(packed)
    except BAD:
        return None


def as_memo(name: str, found: Any) -> bytes:
    """What was remembered. One that cannot be read is not taken for one that is not there: its
    effect would happen twice."""
    if not isinstance(found, bytes):
        raise StoreError(f"what was remembered under {name!r} cannot be read", transient=False)
    return found


def resource_views(
    holders: Mapping[Place, Sequence[Holder]],
    waiting: Mapping[Place, int],
    held: Mapping[Place, Moment],
) -> list[ResourceView]:
    """One for each key that somebody has or waits for, or that is on hold."""
    return [
        ResourceView(
            queue=place[0],
            key=place[1],
            holders=tuple(holders.get(place, ())),
            waiting=waiting.get(place, 0),
            held_until=held.get(place),
        )
        for place in sorted({*holders, *waiting, *held})
    ]
