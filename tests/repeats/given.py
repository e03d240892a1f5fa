"""Helpers for tests of repeats."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from mita import Cron, Every, Mita
from mita.client.repeat_spec import repeat_spec
from mita.engine.scheduler import fire_due
from mita.model.job import Job
from mita.model.repeat import Repeat
from mita.model.time import Moment
from mita.model.view import JobFilter
from mita.ports.store import Store
from mita.rules.schedule import spec

KEY = "digest"


class Scene:
    """An app with one task, `digest`, and its store; `another` opens the store as another
    process would."""

    def __init__(
        self, app: Mita, store: Store, made: Callable[[], Store], stack: AsyncExitStack
    ) -> None:
        self.app, self.store = app, store
        self._made, self._stack = made, stack

        @app.task(queue="mail")
        async def digest(day: str = "today") -> None: ...

        self.digest = digest

    async def another(self) -> Store:
        store = self._made()
        await store.open()
        self._stack.push_async_callback(store.close)
        return store

    async def stands(
        self, pattern: Every | Cron, cursor: Moment, key: str = KEY, **choices: Any
    ) -> Repeat:
        """Store a repeat whose next fire time is this one, however long ago: as if no scheduler
        had run since. It repeats `digest`, or the `call` that is given."""
        call = choices.pop("call", None) or self.digest.call()
        wanted = repeat_spec(call, pattern, choices)
        return await self.store.put_repeat(Repeat(key=key, spec=spec.pack(wanted), cursor=cursor))

    async def repeat(self, key: str = KEY) -> Repeat:
        [found] = [repeat for repeat in await self.store.list_repeats() if repeat.key == key]
        return found

    async def jobs(self, key: str = KEY) -> list[Job]:
        found: list[Job] = []
        after: str | None = None
        while True:
            page = await self.store.page(JobFilter(repeat=key), after, 1000)
            found += page.jobs
            if (after := page.after) is None:
                return sorted(found, key=lambda job: job.fire_time or 0)

    async def fired(self, key: str = KEY) -> list[Moment]:
        """The fire times of all its jobs."""
        return [job.fire_time or 0 for job in await self.jobs(key)]

    async def fire(self) -> int:
        """Fire all repeats that are due now. Returns how many fires were won."""
        total, wait = 0, 0
        while wait == 0:
            won, again = await fire_due(self.store)
            total, wait = total + won, 1 if again is None else again
        return total
