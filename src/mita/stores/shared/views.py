"""Views of resource keys and workers, made from what a store has, readable or not."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from mita.errors import StoreError
from mita.model.time import LATEST, Moment
from mita.model.view import Holder, ResourceView, WorkerView
from mita.rules.readable import BAD, UNKNOWN

QueueKey: TypeAlias = tuple[str, str]  # the name of a queue, and a resource key in it

_read_worker = msgspec.msgpack.Decoder(WorkerView).decode


def as_name(found: Any) -> str:
    """A name to show, also for a value that is no readable text."""
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
    """A point in time to show: 0 for a value that is none, the latest for one beyond it."""
    return max(0, min(found, LATEST)) if isinstance(found, int) else 0


def as_worker(packed: Any) -> WorkerView | None:
    """The worker as it described itself; None if that cannot be read."""
    try:
        return _read_worker(packed)
    except BAD:
        return None


def as_once_value(name: str, found: Any) -> bytes:
    """A stored value of `job.once`. Raises `StoreError` if it cannot be read: otherwise
    its side effect would happen twice."""
    if not isinstance(found, bytes):
        raise StoreError(f"the stored value of job.once {name!r} cannot be read", transient=False)
    return found


def resource_views(
    holders: Mapping[QueueKey, Sequence[Holder]],
    waiting: Mapping[QueueKey, int],
    held: Mapping[QueueKey, Moment],
) -> list[ResourceView]:
    """A view of each key that a running job has, that a job waits for, or that is on hold."""
    return [
        ResourceView(
            queue=found[0],
            key=found[1],
            holders=tuple(holders.get(found, ())),
            waiting=waiting.get(found, 0),
            held_until=held.get(found),
        )
        for found in sorted({*holders, *waiting, *held})
    ]
