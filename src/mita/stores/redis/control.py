"""Pausing queues, holding and limiting keys, and the heartbeats of workers."""

from collections.abc import Sequence

import msgspec

from mita.model.gate import StoredLimit
from mita.model.time import Moment, Wait, When
from mita.model.view import WorkerView

from .codec import when_args
from .context import RedisContext

_pack = msgspec.msgpack.Encoder().encode


async def pause(context: RedisContext, queues: Sequence[str]) -> None:
    """Stop handing out jobs of these queues."""
    if queues:
        await context.connection.command("SADD", context.keys.queues, *queues)
        await context.in_each("pause", queues, context.now())


async def resume(context: RedisContext, queues: Sequence[str]) -> None:
    """Hand out jobs of these queues again."""
    await context.in_each("resume", queues, context.keys.notify_channel)


async def hold(context: RedisContext, queues: Sequence[str], key: str, until: When) -> None:
    """Start no job with this resource key in these queues until then. `NOW` ends a hold."""
    if queues:
        await context.connection.command("SADD", context.keys.queues_with_holds, *queues)
    args = (context.now(), context.keys.notify_channel, key, *when_args(until))
    await context.in_each("hold", queues, *args)


async def limit(
    context: RedisContext, queues: Sequence[str], key: str | None, limit: StoredLimit | None
) -> None:
    """Set or remove the limit of these queues, or of this key in each of them."""
    if queues:
        await context.connection.command("SADD", context.keys.queues, *queues)
    args = ("" if key is None else f"+{key}", b"" if limit is None else _pack(limit))
    await context.in_each("limit", queues, context.now(), context.keys.notify_channel, *args)


async def beat(context: RedisContext, worker: WorkerView, keep: Wait) -> Moment:
    """Store a worker's description; it counts as alive for `keep`. Returns the store's time."""
    args = (context.now(), worker.id, _pack(worker), keep)
    return int(await context.in_namespace("beat", *args))


async def leave(context: RedisContext, worker: str) -> None:
    """Delete a worker's description."""
    await context.in_namespace("leave", worker)
