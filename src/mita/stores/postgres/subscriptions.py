"""Those who listen to what happens, each with a bell of his own that tells when to look."""

import asyncio
from contextlib import suppress

from mita.errors import StoreError
from mita.ports.ids import new_id
from mita.ports.pubsub import EVERY, PolledFeed, Subscription, poll_into, stop
from mita.stores.shared.wakeups import ANY

from . import pubsub
from .line import Line, Place
from .notify import Notifier


class Ears:
    """Of one store. `side` says who listens, `read` reads what was told."""

    def __init__(self, place: Place, side: Line, read: Line) -> None:
        self._place, self._side, self._read = place, side, read
        self._open: set[Subscription] = set()

    async def subscribe(self, queue: str | None) -> Subscription:
        id, named = new_id(), EVERY if queue is None else queue
        bell = Notifier(self._place)
        await bell.wait((), 0.0)  # begins to hear
        follower = pubsub.Follower(
            await self._side.do(lambda act: pubsub.subscribe(act, id, named), again=True)
        )

        async def renew() -> None:
            if follower.starts_anew(
                await self._side.do(lambda act: pubsub.subscribe(act, id, named), again=True)
            ):
                ear.cut()

        async def close(ear: Subscription) -> None:
            self._open.discard(ear)
            await stop(following)
            await bell.close()
            with suppress(StoreError):
                await self._side.do(lambda act: pubsub.unsubscribe(act, id), again=True)

        async def nap(seconds: float) -> bool:
            return ANY in await bell.wait((), seconds)

        ear = Subscription(queue, close)
        trail = PolledFeed(renew, lambda: self._read.do(follower.news, again=True), nap)
        following = asyncio.get_running_loop().create_task(poll_into(ear, trail))
        self._open.add(ear)
        return ear

    async def close(self) -> None:
        for ear in list(self._open):
            await ear.close()
