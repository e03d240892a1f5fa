"""A small load for the tests of faults: one store enqueues, one runs the jobs, and both note what
the server acknowledged."""

import asyncio
from collections import Counter
from typing import Any

from mita.errors import StoreError
from mita.model.job import NewJob
from mita.model.outcome import Settlement
from mita.ports.ids import new_ids
from mita.rules.judge import success
from mita.stores.redis import RedisStore

QUEUE = "mail"
LEASE = 500
DONE = success(b"\xc0", 0)


def jobs(n: int, **more: Any) -> list[NewJob]:
    fields: dict[str, Any] = {"task": "send", "queue": QUEUE, "payload": b"\x90", **more}
    return [NewJob(id=id, **fields) for id in new_ids(n)]


class Load:
    def __init__(self, producer: RedisStore, worker: RedisStore, batches: int, size: int) -> None:
        self._producer = producer
        self._worker = worker
        self._batches = batches
        self._size = size
        self._over = False
        self.acknowledged: set[str] = set()
        self.settled: Counter[str] = Counter()
        self.troubles = 0

    async def run(self) -> None:
        """Enqueue and run until every job is settled."""
        await asyncio.gather(self._produce(), self._work(), self._sweep())

    async def _produce(self) -> None:
        for _ in range(self._batches):
            batch = jobs(self._size)
            while True:
                try:
                    receipts = await self._producer.enqueue(batch)
                    break
                except StoreError as error:
                    await self._wait_after(error)
            assert {receipt.id for receipt in receipts} == {job.id for job in batch}
            self.acknowledged.update(job.id for job in batch)
            await asyncio.sleep(0.002)

    async def _work(self) -> None:
        settlements: list[Settlement] = []
        while not self._done():
            try:
                turn = await self._worker.settle_and_claim(settlements, [QUEUE], 50, LEASE, "w1")
            except StoreError as error:
                await self._wait_after(error)
                continue
            self._note_settled(settlements, turn.took)
            settlements = [Settlement(claim, DONE) for claim in turn.claims]
            if not settlements:
                await asyncio.sleep(0.01)
        self._over = True

    async def _sweep(self) -> None:
        """Reap: a claim whose answer was lost is taken over when its lease is over."""
        while not self._over:
            await asyncio.sleep(LEASE / 2000)
            try:
                lost = [
                    Settlement(claim, DONE) for claim in await self._worker.reap(100, LEASE, "heir")
                ]
                self._note_settled(lost, await self._worker.settle(lost))
            except StoreError as error:
                await self._wait_after(error)

    def _note_settled(self, settlements: list[Settlement], took: list[bool]) -> None:
        self.settled.update(
            one.claim.id for one, held in zip(settlements, took, strict=True) if held
        )

    def _done(self) -> bool:
        return (
            len(self.acknowledged) == self._batches * self._size
            and self.acknowledged <= self.settled.keys()
        )

    async def _wait_after(self, error: StoreError) -> None:
        assert error.transient, error
        self.troubles += 1
        await asyncio.sleep(0.02)
