"""What callers do is reported as well: to whoever watches in this process, and through the store to
those who listen."""

import asyncio

from msgspec.structs import replace

from mita.ports.store import Store

from .bus import EventBus
from .publisher import EventPublisher
from .signals import Amended, Signal, asked


class ClientEvents:
    """One herald for each store, on that store's loop."""

    def __init__(self, watch: EventBus) -> None:
        self._watch = watch
        self._heralds: dict[Store, EventPublisher] = {}

    def emit(self, store: Store, note: Signal) -> None:
        """On the store's own loop."""
        publisher = self._heralds.get(store)
        if publisher is None:
            self._drop_closed_loops()
            publisher = self._heralds[store] = EventPublisher(store, self._watch)
        publisher.emit(note)

    def emit_here(self, note: Signal) -> None:
        """On any thread; what is done in another's transaction may be undone, and nobody elsewhere
        should hear of it."""
        self._watch.emit(note)

    async def amended(self, store: Store, note: Amended) -> None:
        """An amend knows only the id: whoever watches here gets the task and the queue as well, at
        the price of a look."""
        if asked(note) is None:
            return
        if self._watch.sinks and not note.queue:
            [job] = await store.find([note.id])
            note = note if job is None else replace(note, task=job.task, queue=job.queue)
        self.emit(store, note)

    async def close(self) -> None:
        """Pass on what is left, of the running loop."""
        for store, herald in list(self._heralds.items()):
            if herald.loop is asyncio.get_running_loop():
                del self._heralds[store]
                await herald.close()

    def _drop_closed_loops(self) -> None:
        """A loop that ended without a word has closed its store; nothing of it is to be kept."""
        for store in [store for store, herald in self._heralds.items() if herald.loop.is_closed()]:
            del self._heralds[store]
