"""What every verb works with: the connection, key names, the clock, and the known queues."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, TypeVar

from mita.model.time import Moment, Wait
from mita.ports.clock import Clock
from mita.ports.ids import new_id

from .connection import RedisConnection
from .scripting.constants import CALL_ITEMS
from .scripting.key_names import KeyNames

T = TypeVar("T")


class RedisContext:
    """What a verb of the Redis store works with. One belongs to each store."""

    def __init__(
        self, connection: RedisConnection, keys: KeyNames, clock: Clock | None, cluster: bool
    ) -> None:
        self.connection = connection
        self.keys = keys
        self.cluster = cluster
        self.job_bytes: int | None = None  # for arguments and result of one job; set by `open`
        self.ageing: Wait | None = None  # see `Store.ageing`
        self.known_queues: set[str] = set()
        self._clock = clock
        self._name = new_id()
        self._calls = count(1)

    def now(self) -> Moment | str:
        """The current time as a script's argument. '' makes the script read the server's clock,
        which decides unless a test passes its own."""
        return "" if self._clock is None else self._clock.now()

    def call_number(self) -> tuple[str, int]:
        """The name of this store, and a number that no other call of it has."""
        return self._name, next(self._calls)

    async def read_clock(self) -> Moment:
        """The current time by the server's clock, or by the test's."""
        if self._clock is not None:
            return self._clock.now()
        seconds, microseconds = await self.connection.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def in_queue(self, name: str, queue: str, *args: Any, repeatable: bool = True) -> Any:
        """Run a script on one queue."""
        roots = [self.keys.queue(queue)]
        return await self.connection.run(name, roots, *args, repeatable=repeatable)

    async def in_each(
        self, name: str, queues: Iterable[str], *args: Any, repeatable: bool = True
    ) -> list[Any]:
        """Run a script on every one of these queues at the same time. Returns one answer each."""
        calls = (self.in_queue(name, queue, *args, repeatable=repeatable) for queue in queues)
        return await asyncio.gather(*calls)

    async def in_namespace(self, name: str, *args: Any, repeatable: bool = True) -> Any:
        """Run a script on the keys that belong to no queue."""
        return await self.connection.run(name, [self.keys.shared], *args, repeatable=repeatable)

    async def queues(self) -> list[str]:
        """The names of all queues, sorted."""
        self.known_queues = _names(await self.connection.command("SMEMBERS", self.keys.queues))
        return sorted(self.known_queues)

    async def queues_and_holds(self) -> list[str]:
        """The names of all queues, sorted. Queues that only ever had a hold are included."""
        keys = self.keys.queues, self.keys.queues_with_holds
        return sorted(_names(await self.connection.command("SUNION", *keys)))

    async def register(self, queues: Iterable[str]) -> None:
        """Add queues to the set of names. On a single server the scripts do this themselves."""
        new = set(queues) - self.known_queues
        if new:
            await self.connection.command("SADD", self.keys.queues, *sorted(new))
            self.known_queues |= new

    async def by_id(
        self, name: str, ids: Sequence[str], *args: Any, repeatable: bool = True
    ) -> dict[str, tuple[str, Any]]:
        """Run a script on every queue for these ids. Returns, by id, the queue that has the job and
        its answer; ids that no queue has are missing.

        The queues known so far are asked first. The list of queues is read again only if an id is
        still missing: the job may be in a new queue."""
        found: dict[str, tuple[str, Any]] = {}
        asked: set[str] = set()
        for known in (set(self.known_queues), None):
            names = set(await self.queues()) if known is None else known
            missing = [id for id in dict.fromkeys(ids) if id not in found]
            queues = sorted(names - asked)
            if missing and queues:
                found |= await self._by_id_in(queues, name, missing, *args, repeatable=repeatable)
            asked |= names
            if len(found) == len(set(ids)):
                break
        return found

    async def _by_id_in(
        self, queues: list[str], name: str, ids: list[str], *args: Any, repeatable: bool
    ) -> dict[str, tuple[str, Any]]:
        found = {}
        for part in parts(ids):
            answers = await self.in_each(name, queues, *args, *part, repeatable=repeatable)
            for queue, of_queue in zip(queues, answers, strict=True):
                for id, answer in zip(part, of_queue, strict=True):
                    if answer not in (None, 0, b"unknown"):
                        found[id] = (queue, answer)
        return found


def parts(items: Sequence[T], size: int = CALL_ITEMS) -> list[Sequence[T]]:
    """The items in parts of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def _names(found: Iterable[bytes]) -> set[str]:
    """The names that are valid text. No job can be in a queue whose name is not."""
    names = (raw.decode("utf-8", "replace") for raw in found)
    return {name for name in names if "\ufffd" not in name}
