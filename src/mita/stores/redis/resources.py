"""Keys as people see them. `lua/include/resource_keys.lua` decides which jobs may start."""

from typing import Any

from mita.model.view import Holder, ResourceView
from mita.stores.shared.views import as_moment, as_name

from .codec import as_limit
from .context import RedisContext


async def resources(
    context: RedisContext, queue: str | None = None, key: str | None = None
) -> list[ResourceView]:
    """The keys that a job has or waits for, or that are on hold or limited; of one queue, and one
    key, if given."""
    names = [queue] if queue is not None else await context.queues_and_holds()
    answers = await context.in_each("resources", names, context.now(), key or "")
    views = [_view(name, row) for name, rows in zip(names, answers, strict=True) for row in rows]
    return sorted(views, key=lambda view: (view.queue, view.key))


def _view(queue: str, row: list[Any]) -> ResourceView:
    key, waiting, until, rows, limit, rate = row
    interval_us, burst, next_start = (0, 1, None) if rate is None else rate
    holders = [Holder(as_name(id), _worker(worker), since) for id, worker, since in rows]
    holders.sort(key=lambda holder: holder.since or 0)
    return ResourceView(
        queue=queue,
        key=as_name(key),
        holders=tuple(holders),
        waiting=waiting,
        held_until=None if until is None else as_moment(until),
        limit=as_limit(limit),
        interval_us=interval_us,
        burst=burst,
        next_start=next_start,
    )


def _worker(found: Any) -> str | None:
    return as_name(found) if isinstance(found, bytes) else None
