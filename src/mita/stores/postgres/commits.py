"""Notifying of what was done in a transaction of the user's, as soon as that is committed.

A NOTIFY inside the transaction would be delivered at its commit. But PostgreSQL lets transactions
that notify commit one after the other, each after the disk has answered the one before: with 64
writers that made their commits ten times slower (docs/inside/postgres.md). So we ask the server, on
a connection of our own, whether the transaction has ended. We ask often at first and less often the
longer it takes, for all transactions together. The user's commit has no part in it."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from mita.errors import StoreError

from .arrays import texts
from .line import Line
from .steps import Act, Step, Steps, ask

SOONEST, LATEST = 0.002, 0.2  # seconds between two looks at a transaction
LONGEST = 60.0  # seconds after which a transaction is left to the workers' poll
PATIENCE = 2.0  # seconds that a last look may take


class Open:
    """A transaction that may still be open: whom to wake when it is committed, since when it is
    known, when to look."""

    def __init__(self, topics: set[str], now: float) -> None:
        self.topics = topics
        self.since = now
        self.next = now + SOONEST

    def put_off(self, now: float) -> None:
        """The wait grows with the transaction's age, so that a job waits at most half as long again
        as the commit took."""
        self.next = now + min(max((now - self.since) / 2, SOONEST), LATEST)


class Commits:
    """The transactions of one store's users. On the store's loop, except for `watch`."""

    def __init__(self, line: Line, ring: Callable[[set[str]], None]) -> None:
        self._line, self._ring = line, ring
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, Open] = {}
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    def watch(self, transaction: str, topics: set[str]) -> None:
        """On any thread. `transaction` is its number on the server."""
        with suppress(RuntimeError):  # the store's loop has ended
            self._loop.call_soon_threadsafe(self._watch, transaction, topics)

    def _watch(self, transaction: str, topics: set[str]) -> None:
        known = self._open.setdefault(transaction, Open(set(), self._loop.time()))
        known.topics |= topics
        if self._looking is None and not self._closed:
            self._looking = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._open:
                await asyncio.sleep(
                    min(each.next for each in self._open.values()) - self._loop.time()
                )
                await self._look()
        finally:
            self._looking = None

    async def _look(self) -> None:
        numbers = list(self._open)
        try:
            ended = await self._line.do(lambda act: _ended(act, numbers), again=True)
        except StoreError:
            self._open.clear()  # the workers find the jobs at their next poll
            return
        for number, committed in ended:
            topics = self._open.pop(number).topics
            if committed:
                self._ring(topics)
        now = self._loop.time()
        for number in numbers:
            if (each := self._open.get(number)) is not None:
                each.put_off(now)
                if now - each.since > LONGEST:
                    del self._open[number]

    async def close(self) -> None:
        """A last look: a program that ends has committed by now."""
        self._closed = True
        await asyncio.sleep(0)  # what was just watched from another thread
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._look()


def _ended(_: Act, numbers: Iterable[str]) -> Steps[list[tuple[str, bool]]]:
    [rows] = yield Step(ask("ended_transactions", numbers=texts(list(numbers))), last=True)
    return [(number, committed) for number, committed in rows]
