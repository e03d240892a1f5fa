"""Control of queues, resource keys and workers: pause, resume, hold, heartbeats."""

from collections.abc import Sequence

import msgspec

from mita.model.gate import StoredLimit
from mita.model.time import Moment, Wait, When
from mita.model.view import WorkerView

from . import resources
from .context import PostgresContext, RoundTrip, RoundTrips, query
from .server.arrays import texts

_pack = msgspec.msgpack.Encoder().encode


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
    answers = yield RoundTrip(
        resources.lock(context, keys),
        query(
            "hold",
            queues=texts([queue for queue, _ in keys]),
            key=key,
            wait=until.wait,
            at=until.at,
        ),
        resources.unhold(keys),  # if `until` has passed
        resources.wake(context, keys, [None] * len(keys)),
        last=True,
    )
    resources.notify_woken(context, answers[-1])
    context.topics.update(queues)  # workers that sleep must wake at another time


def limit(
    context: PostgresContext, queues: Sequence[str], key: str | None, limit: StoredLimit | None
) -> RoundTrips[None]:
    """Set or remove the limit of these queues, or of this key in each of them."""
    if [context.watermarks, *queues, key or limit]:
        raise NotImplementedError  # to be built on this branch
    yield RoundTrip()


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
