"""Views of resource keys and workers, made from what a store has, readable or not."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from mita.errors import StoreError
from mita.model.gate import Gate, StoredLimit
from mita.model.time import LATEST, Moment
from mita.model.view import Holder, ResourceView, WorkerView
from mita.rules.gates import next_token_at
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


class KeyRecord(Struct, frozen=True):
    """What a store keeps of a key with a rate or a stored limit, as `ResourceView` shows it."""

    limit: StoredLimit | None = None
    interval_us: int = 0
    burst: int = 1
    next_start: Moment | None = None


_NO_RECORD = KeyRecord()


def next_start(rate: Gate | StoredLimit | None, tat_us: int, now: Moment) -> Moment | None:
    """When this rate allows its next start; None: now."""
    if rate is None or not rate.interval_us:
        return None
    moment = next_token_at(rate, tat_us, now)
    return moment if moment > now else None


def resource_views(
    holders: Mapping[QueueKey, Sequence[Holder]],
    waiting: Mapping[QueueKey, int],
    held: Mapping[QueueKey, Moment],
    records: Mapping[QueueKey, KeyRecord] = {},
) -> list[ResourceView]:
    """A view of each key that a running job has, that a job waits for, that is on hold or
    limited."""
    limited = [key for key, record in records.items() if record.limit is not None]
    return [
        ResourceView(
            queue=found[0],
            key=found[1],
            holders=tuple(holders.get(found, ())),
            waiting=waiting.get(found, 0),
            held_until=held.get(found),
            limit=(record := records.get(found, _NO_RECORD)).limit,
            interval_us=record.interval_us,
            burst=record.burst,
            next_start=record.next_start,
        )
        for found in sorted({*holders, *waiting, *held, *limited})
    ]
