"""What every verb works with: the link, the keys, the moment, the queues that are known."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, TypeVar

from mita.model.time import Moment
from mita.ports.clock import Clock
from mita.ports.ids import new_id

from .key_names import Keys
from .link import Doubt, Link

MOST = 1000  # items in one call
T = TypeVar("T")


class Room:
    def __init__(self, link: Link, keys: Keys, clock: Clock | None, cluster: bool) -> None:
        self.link = link
        self.keys = keys
        self.cluster = cluster
        self.known: set[str] = set()
        self._clock = clock
        self._name = new_id()
        self._calls = count(1)

    def now(self) -> Moment | str:
        """For a script: '' lets it ask the server, which has the only clock unless a test brings
        one."""
        return "" if self._clock is None else self._clock.now()

    def number(self) -> tuple[str, int]:
        """Who calls, and a number that no other call of this store has."""
        return self._name, next(self._calls)

    async def moment(self) -> Moment:
        if self._clock is not None:
            return self._clock.now()
        seconds, microseconds = await self.link.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def in_queue(self, name: str, queue: str, *args: Any, again: bool = True) -> Any:
        return await self.link.run(name, [self.keys.queue(queue)], *args, again=again)

    async def in_each(
        self, name: str, queues: Iterable[str], *args: Any, again: bool = True
    ) -> list[Any]:
        """The same in every queue, all on their way at once."""
        return await asyncio.gather(
            *(self.in_queue(name, queue, *args, again=again) for queue in queues)
        )

    async def shared(
        self, name: str, *args: Any, doubt: Doubt | None = None, again: bool = True
    ) -> Any:
        return await self.link.run(name, [self.keys.shared], *args, doubt=doubt, again=again)

    async def queues(self) -> list[str]:
        """All of them, by name."""
        self.known = _names(await self.link.command("SMEMBERS", self.keys.queues))
        return sorted(self.known)

    async def places(self) -> list[str]:
        """All queues, and those that have only been given a hold."""
        names = await self.link.command("SUNION", self.keys.queues, self.keys.places)
        return sorted(_names(names))

    async def register(self, queues: Iterable[str]) -> None:
        """On one server the scripts do this themselves."""
        new = set(queues) - self.known
        if new:
            await self.link.command("SADD", self.keys.queues, *sorted(new))
            self.known |= new

    async def by_id(
        self, name: str, ids: Sequence[str], *args: Any, again: bool = True
    ) -> dict[str, tuple[str, Any]]:
        """Ask every queue about these ids. A job is in one queue only: the id, its queue and what
        that queue said.

        The queues known so far are asked first; only if something is missing does it matter that
        there are new ones."""
        found: dict[str, tuple[str, Any]] = {}
        asked: set[str] = set()
        for queues in (set(self.known), None):
            names = set(await self.queues()) if queues is None else queues
            missing = [id for id in dict.fromkeys(ids) if id not in found]
            if missing and names - asked:
                await self._ask_about(
                    found, name, sorted(names - asked), missing, *args, again=again
                )
            asked |= names
            if len(found) == len(set(ids)):
                break
        return found

    async def _ask_about(
        self,
        found: dict[str, tuple[str, Any]],
        name: str,
        queues: list[str],
        ids: list[str],
        *args: Any,
        again: bool,
    ) -> None:
        for part in parts(ids):
            answers = await self.in_each(name, queues, *args, *part, again=again)
            for queue, said in zip(queues, answers, strict=True):
                for id, one in zip(part, said, strict=True):
                    if one not in (None, 0, b"unknown"):
                        found[id] = (queue, one)


def parts(items: Sequence[T], most: int = MOST) -> list[Sequence[T]]:
    return [items[start : start + most] for start in range(0, len(items), most)]


def _names(found: Iterable[bytes]) -> set[str]:
    """Names of queues, without those that are no text: no job can have been put there."""
    return {name for raw in found if is_name(name := raw.decode("utf-8", "replace"))}


def is_name(text: str) -> bool:
    return "\ufffd" not in text
