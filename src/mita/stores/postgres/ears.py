"""Those who listen to what happens, each with a bell of his own that tells when to look."""

import asyncio
from contextlib import suppress

from mita.errors import StoreError
from mita.ports.ear import EVERY, Ear, Trail, follow, stop
from mita.ports.ids import new_id
from mita.stores.shared.hearing import ANY

from . import telling
from .bell import Bell
from .line import Line, Place


class Ears:
    """Of one store. `side` says who listens, `read` reads what was told."""

    def __init__(self, place: Place, side: Line, read: Line) -> None:
        self._place, self._side, self._read = place, side, read
        self._open: set[Ear] = set()

    async def listen(self, queue: str | None) -> Ear:
        id, named = new_id(), EVERY if queue is None else queue
        bell = Bell(self._place)
        await bell.wait((), 0.0)  # begins to hear
        follower = telling.Follower(await self._side.do(lambda act: telling.listen(act, id, named), again=True))

        async def renew() -> None:
            if follower.starts_anew(await self._side.do(lambda act: telling.listen(act, id, named), again=True)):
                ear.cut()

        async def close(ear: Ear) -> None:
            self._open.discard(ear)
            await stop(following)
            await bell.close()
            with suppress(StoreError):
                await self._side.do(lambda act: telling.deafen(act, id), again=True)

        async def nap(seconds: float) -> bool:
            return ANY in await bell.wait((), seconds)

        ear = Ear(queue, close)
        trail = Trail(renew, lambda: self._read.do(follower.news, again=True), nap)
        following = asyncio.get_running_loop().create_task(follow(ear, trail))
        self._open.add(ear)
        return ear

    async def close(self) -> None:
        for ear in list(self._open):
            await ear.close()
