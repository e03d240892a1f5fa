"""Calls to a store about many jobs: what jobs tell others, and what they were told."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from mita.errors import Rejected
from mita.model.flow import Arrival
from mita.model.outcome import Answer
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS

CALL_BYTES = 16_000_000  # of what is told in one call to a store
PARALLEL_CALLS = 50  # to a store that cannot do them in one

Tell: TypeAlias = Callable[[Sequence[Arrival]], Awaitable[list[Answer]]]


async def arrive(store: Store, arrivals: Sequence[Arrival]) -> list[Answer]:
    """Tell all of these, as many in a call as a store takes. What was told before stays. Returns an
    answer for each: `done`, or `taken` if it was told before."""
    answers: list[Answer] = []
    while len(answers) < len(arrivals):
        start = end = len(answers)
        size = 0
        while end < min(len(arrivals), start + CALL_JOBS) and (end == start or size <= CALL_BYTES):
            size += len(arrivals[end].value)
            end += 1
        answers += await store.arrive(arrivals[start:end])
    return answers


async def read_values(store: Store, ids: Sequence[str]) -> list[dict[str, bytes]]:
    """The once values of these jobs, in their order; none for one that is gone."""
    found: list[dict[str, bytes]] = []
    for at in range(0, len(ids), PARALLEL_CALLS):
        calls = [store.once_values(id) for id in ids[at : at + PARALLEL_CALLS]]
        found += await asyncio.gather(*calls)
    return found


class ArrivalCollector:
    """Tells for many callers at once. One call to the store is under way at a time, and what comes
    meanwhile goes with the next: the gathering jobs of a large group end at about the same time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Sequence[Arrival], asyncio.Future[list[Answer]]]] = []
        self._telling: asyncio.Task[None] | None = None

    async def tell(self, arrivals: Sequence[Arrival]) -> list[Answer]:
        """`arrive`, together with what other callers tell. Raises what the store raises. `Rejected`
        is raised only for the caller whose arrivals were rejected."""
        answers: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((arrivals, answers))
        if self._telling is None:
            self._telling = asyncio.ensure_future(self._tell())
        return await answers

    async def _tell(self) -> None:
        try:
            while self._waiting:
                some, self._waiting = self._waiting, []
                await self._tell_some(some)
        finally:
            self._telling = None

    async def _tell_some(
        self, some: list[tuple[Sequence[Arrival], asyncio.Future[list[Answer]]]]
    ) -> None:
        try:
            found = iter(await arrive(self._store, [one for told, _ in some for one in told]))
        except Exception as error:  # noqa: BLE001 - the callers get it
            if isinstance(error, Rejected) and len(some) > 1:
                for one in some:
                    await self._tell_some([one])
                return
            for _, answers in some:
                if not answers.done():
                    answers.set_exception(error)
            return
        for told, answers in some:
            mine = [next(found) for _ in told]
            if not answers.done():  # a caller that was cancelled has told all the same
                answers.set_result(mine)
