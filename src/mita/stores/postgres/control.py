"""Control of queues, resource keys and workers: pause, resume, hold, heartbeats."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mita.model.gate import StoredLimit
from mita.model.time import Moment, Wait, When
from mita.model.view import WorkerView
from mita.rules.gates import bounded_level

from . import resources
from .context import PostgresContext, RoundTrip, RoundTrips, query
from .limits.bounds import QUEUE_LOCK
from .server.arrays import texts

_pack = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode


def pause(_: PostgresContext, queues: Sequence[str]) -> RoundTrips[None]:
    """Pause these queues: no job of theirs starts until they are resumed."""
    yield RoundTrip(query("pause", names=texts(sorted(set(queues)))), last=True)


def resume(context: PostgresContext, queues: Sequence[str]) -> RoundTrips[None]:
    """Resume these queues and notify the workers."""
    [rows] = yield RoundTrip(query("resume", names=texts(sorted(set(queues)))), last=True)
    context.topics.update(name for (name,) in rows)


def hold(
    context: PostgresContext, queues: Sequence[str], key: str, until: When
) -> RoundTrips[None]:
    """Start no job with this key in these queues until then. A point in time that has passed ends
    an earlier hold."""
    keys = [(queue, key) for queue in sorted(set(queues))]
    hold = query(
        "hold",
        queues=texts([queue for queue, _ in keys]),
        key=key,
        wait=until.wait,
        at=until.at,
    )
    ended = resources.unhold(keys)  # if `until` has passed
    lock = resources.lock(context, keys)
    yield from resources.wake(context, dict.fromkeys(keys), lock, hold, ended)
    yield RoundTrip(last=True)
    context.topics.update(queues)  # workers that sleep must wake at another time


def limit(
    context: PostgresContext, queues: Sequence[str], key: str | None, limit: StoredLimit | None
) -> RoundTrips[None]:
    """Set or remove the limit of these queues, or of this key in each of them."""
    names = sorted(set(queues))
    if not names:
        return
    stored = {"queues": texts(names), "limit": None if limit is None else _json(limit).decode()}
    if key is None:
        yield from _limit_queues(context, names, limit, stored)
    else:
        keys = [(queue, key) for queue in names]
        limited = query("limit_key", key=key, **stored)
        lock = resources.lock(context, keys)
        yield from resources.wake(context, dict.fromkeys(keys), lock, limited)
        yield RoundTrip(last=True)
    context.topics.update(names)


def _limit_queues(
    context: PostgresContext, queues: list[str], limit: StoredLimit | None, stored: dict[str, Any]
) -> RoundTrips[None]:
    """Claims of a limited queue hold its lock, so none of them counts its places meanwhile."""
    locks = resources.lock(context, [(queue, QUEUE_LOCK) for queue in queues])
    _, rows = yield RoundTrip(locks, query("limit_queue", **stored))
    levels = [
        query("claim_tokens", queue=queue, tat_us=_level(limit, tat_us, now))
        for queue, tat_us, now in rows
    ]
    yield RoundTrip(*levels, last=True)


def _level(limit: StoredLimit | None, tat_us: int, now: Moment) -> int:
    """The number of a queue's rate under its new limit."""
    if limit is None or not limit.interval_us:
        return 0
    return bounded_level(limit, tat_us, now)


def beat(_: PostgresContext, worker: WorkerView, keep: Wait) -> RoundTrips[Moment]:
    """Store a worker's heartbeat and return the store's clock. The commit is not synced: a
    heartbeat that a crash undoes is followed by the next soon."""
    [[(now,)]] = yield RoundTrip(query("now"), last=True)
    view = _pack(msgspec.structs.replace(worker, seen=now))
    yield RoundTrip(
        query("beat", id=worker.id, view=view, keep=keep),
        query("beat_prune"),
        last=True,
        synced=False,
    )
    return int(now)


def leave(_: PostgresContext, worker: str) -> RoundTrips[None]:
    """Remove a worker that ends."""
    yield RoundTrip(query("leave", id=worker), last=True)
