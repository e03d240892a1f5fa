"""What an operator changes while jobs run, and the heartbeats of workers."""

from collections.abc import Sequence

import msgspec

from mita.model.gate import StoredLimit
from mita.model.time import Moment, Wait, When
from mita.model.view import WorkerView

from . import resources
from .context import SqliteContext, as_json

_pack = msgspec.msgpack.Encoder().encode


def pause(context: SqliteContext, queues: Sequence[str]) -> None:
    """Claim no more jobs of these queues."""
    context.run_many("queues_add", [(queue,) for queue in queues])
    context.run("pause", names=as_json(queues), now=context.now)


def resume(context: SqliteContext, queues: Sequence[str]) -> None:
    """Claim jobs of these queues again."""
    context.run("resume", names=as_json(queues))
    context.topics.update(queues)


def hold(context: SqliteContext, queues: Sequence[str], key: str, until: When) -> None:
    """Start no job with this resource key in these queues before `until`."""
    for queue in queues:
        resources.hold(context, queue, key, until)


def limit(
    context: SqliteContext, queues: Sequence[str], key: str | None, limit: StoredLimit | None
) -> None:
    """Set or remove the limit of these queues, or of this key in each of them."""
    context.run_many("queues_add", [(queue,) for queue in queues])
    for queue in queues:
        if key is None:
            resources.limit_queue(context, queue, limit)
        else:
            resources.limit_key(context, queue, key, limit)


def beat(context: SqliteContext, worker: WorkerView, keep: Wait) -> Moment:
    """Store the heartbeat of a worker. Returns the store's clock."""
    now = context.now
    seen = msgspec.structs.replace(worker, seen=now)
    context.run("beat", id=worker.id, view=_pack(seen), seen=now, until=now + keep)
    context.run("beat_expire", now=now)
    return now


def leave(context: SqliteContext, worker: str) -> None:
    """Delete a worker that has stopped."""
    context.run("leave", id=worker)
