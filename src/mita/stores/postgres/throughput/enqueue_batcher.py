"""Enqueues that arrive while another is under way share the next statement: one round trip and one
sync to disk for all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from mita.errors import MitaError
from mita.model.job import NewJob, Receipt

BATCH_JOBS = 1000  # jobs in one statement at most, unless one caller brings more
Enqueue: TypeAlias = Callable[[Sequence[NewJob]], Awaitable[list[Receipt]]]
WaitingCall: TypeAlias = tuple[Sequence[NewJob], "asyncio.Future[list[Receipt]]"]


class EnqueueBatcher:
    """Enqueues for many callers at once. If a batch is rejected, each caller is served alone, so
    that only the caller with the bad job fails."""

    def __init__(self, enqueue: Enqueue) -> None:
        self._enqueue = enqueue
        self._waiting: list[WaitingCall] = []
        self._server: asyncio.Task[None] | None = None

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Returns the receipts when the batch with these jobs is committed."""
        answer: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()
        self._waiting.append((jobs, answer))
        if self._server is None or self._server.done():
            self._server = asyncio.get_running_loop().create_task(self._serve())
        return await answer

    async def _serve(self) -> None:
        while self._waiting:
            await self._enqueue_together(self._next_batch())

    def _next_batch(self) -> list[WaitingCall]:
        count, size = 1, len(self._waiting[0][0])
        while count < len(self._waiting) and size + len(self._waiting[count][0]) <= BATCH_JOBS:
            size += len(self._waiting[count][0])
            count += 1
        calls, self._waiting = self._waiting[:count], self._waiting[count:]
        return calls

    async def _enqueue_together(self, calls: list[WaitingCall]) -> None:
        try:
            receipts = await self._enqueue([job for jobs, _ in calls for job in jobs])
        except MitaError as error:
            if len(calls) == 1 or getattr(error, "transient", False):
                _fail(calls, error)
                return
            for call in calls:
                await self._enqueue_together([call])
        except BaseException as error:
            _fail(calls, error)
            raise
        else:
            for jobs, answer in calls:
                mine, receipts = receipts[: len(jobs)], receipts[len(jobs) :]
                if not answer.done():  # else its caller was cancelled; the jobs stay enqueued
                    answer.set_result(mine)


def _fail(calls: list[WaitingCall], error: BaseException) -> None:
    for _, answer in calls:
        if not answer.done():
            answer.set_exception(error)
