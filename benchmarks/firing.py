"""Many repeats on one scheduler: how late their jobs are enqueued."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from mita import Every, Mita
from mita.client.repeat_spec import repeat_spec
from mita.engine.scheduler import Scheduler
from mita.model.repeat import DueRepeats, Firing, Repeat
from mita.model.time import SECOND, Moment
from mita.ports.store import Store
from mita.rules.schedule import spec
from mita.tasks import Call

_CALLS_AT_ONCE = 100  # while the repeats are put
_PUT_ONE_MS = 1  # how long putting one repeat may take


class Watched:
    """A store that measures how late `fire` is called. `late` is in ms, on the store's clock; fires
    that were due before `began` are not counted."""

    def __init__(self, store: Store, began: Moment) -> None:
        self._store, self._began = store, began
        self._now: Moment = 0
        self._looked = 0.0
        self.late: list[float] = []
        self.passed_over = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def due_repeats(self, limit: int) -> DueRepeats:
        due = await self._store.due_repeats(limit)
        self._now, self._looked = due.now, asyncio.get_running_loop().time()
        return due

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        won = await self._store.fire(firings)
        now = self._now + (asyncio.get_running_loop().time() - self._looked) * SECOND
        counted = [firing for firing in firings if firing.cursor >= self._began]
        self.late += [now - firing.cursor for firing in counted]
        self.passed_over += sum(1 for firing in counted if firing.last != firing.cursor)
        return won


async def fire_many(
    app: Mita, call: Call[Any], repeats: int, seconds: float, seed: int
) -> dict[str, Any]:
    """`most` repeats of one second, evenly spread over the second; one scheduler fires them all."""
    store = await app.open_store()
    try:
        first = await _put(
            store, spec.pack(repeat_spec(call, Every(1), {})), repeats, random.Random(seed)
        )
        return await _fire(store, first, seconds)
    finally:
        await store.close()


async def _put(store: Store, packed: bytes, repeats: int, chance: random.Random) -> Moment:
    """Returns the time of the first fire; all repeats are stored by then."""
    first = await store.now() + 2 * SECOND + repeats * _PUT_ONE_MS
    for start in range(0, repeats, _CALLS_AT_ONCE):
        some = range(start, min(start + _CALLS_AT_ONCE, repeats))
        put = [
            Repeat(key=f"bench-{n}", spec=packed, cursor=first + chance.randrange(SECOND))
            for n in some
        ]
        await asyncio.gather(*(store.put_repeat(repeat) for repeat in put))
    return first


async def _fire(store: Store, first: Moment, seconds: float) -> dict[str, Any]:
    now = await store.now()
    # storing them took longer than that: the scheduler catches up first
    began = first if now < first else now + SECOND
    watched: Any = Watched(store, began)
    scheduler = asyncio.create_task(Scheduler(watched, 1.0, 3.0, "bench").run())
    await asyncio.sleep((began - await store.now()) / SECOND + seconds)
    scheduler.cancel()
    await asyncio.gather(scheduler, return_exceptions=True)
    late = sorted(watched.late)
    return {
        "fires": len(late),
        "late": late[:: len(late) // 9999 or 1],
        "passed_over": watched.passed_over,
    }
