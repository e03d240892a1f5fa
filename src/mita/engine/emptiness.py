"""Whether a worker with `until_empty` has nothing left to do."""

from collections.abc import Callable

from mita.ports.store import Store


async def is_empty(store: Store, serves: Callable[[str], bool]) -> bool:
    """Whether nothing in these queues is ready or running, on any worker. Scheduled jobs, retries
    that wait for their time, jobs whose key is held and jobs in paused queues do not count."""
    for queue in await store.queues():
        if not serves(queue.name):
            continue
        if queue.running:
            return False
        if queue.paused is None and (
            queue.ready or (queue.blocked and await _wakes_now(store, queue.name))
        ):
            return False
    return True


async def _wakes_now(store: Store, queue: str) -> bool:
    """Whether a blocked job waits for a key that is free: it is ready in a moment."""
    now = await store.now()
    keys = await store.resources(queue)
    return any(key.waiting and (key.held_until is None or key.held_until <= now) for key in keys)
