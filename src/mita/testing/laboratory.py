"""Your tasks on a store in memory, with a clock that you move."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from mita.app import Mita
from mita.engine.inline import Inline
from mita.engine.shared_values import SharedValues
from mita.errors import UsageError
from mita.model.outcome import Answer
from mita.model.time import Moment
from mita.rules.when import when

from .clock import FakeClock

MOST_RUNS = 100_000  # jobs that lead to new jobs for ever must not hang a test


class Lab:
    """Runs jobs one after the other, in the order in which a worker would start them."""

    def __init__(self, app: Mita, inline: Inline, clock: FakeClock) -> None:
        self._app = app
        self._inline = inline
        self.clock = clock

    @property
    def now(self) -> datetime:
        """The time on the lab's clock."""
        return self.clock.time

    async def run_due(self) -> int:
        """Run all jobs that are due now, including jobs that become due as a result. Returns the
        number of runs."""
        return await self._run(self.clock.now())

    async def run_until(
        self, *, at: datetime | None = None, after: float | timedelta | None = None
    ) -> int:
        """Move the clock from due time to due time until then, and run all jobs on the way. Returns
        the number of runs."""
        end = when(at=at, after=after).moment(self.clock.now())
        runs = await self._run(end)
        self.clock.move_ms(max(0, end - self.clock.now()))
        return runs

    async def signal(self, id: str, name: str, value: Any = None) -> Answer:
        """Signal a job, as `app.signal` does. Its handler goes on at the next `run_due`."""
        return await self._app.signal(id, name, value)

    def override(self, provider: Callable[..., Any], value: Any) -> None:
        """Give this value to the runs of this lab instead of what the provider (or lifespan)
        makes, which is not called. For a class, give the object."""
        self._inline.shared.override(provider, value)

    async def _run(self, end: Moment) -> int:
        await self._inline.shared.start()
        runs = 0
        while True:
            claims, ran, wait = await self._inline.step()
            runs += ran
            if runs > MOST_RUNS:
                raise UsageError(
                    f"{MOST_RUNS:,} runs and no end: does each run lead to another one at once?"
                )
            if claims:
                continue
            if wait is None or self.clock.now() + wait > end:
                return runs
            self.clock.move_ms(wait)


@asynccontextmanager
async def lab(app: Mita, *, start: datetime | None = None, roll: float = 1.0) -> AsyncIterator[Lab]:
    """Until the end of the block the app's jobs are kept in memory, and run only when you say so:

        async with lab(app) as it:
            await greet.after(60).enqueue("Ada")
            assert await it.run_until(after=61) == 1

    `roll` stands for chance in the backoff of retries: 1 gives the longest waits, 0 none at all.
    """
    clock = FakeClock(start) if start is not None else FakeClock()
    async with app.using("memory://", clock=clock):
        store = await app.open_store()
        try:
            await app.repeats.put_declared()
            registry = app._registry  # noqa: SLF001
            registry.check()
            shared = SharedValues(registry.wiring)
            try:
                yield Lab(app, Inline(store, registry.known, app.kept, roll, shared), clock)
            finally:
                await shared.close()
        finally:
            await store.close()
