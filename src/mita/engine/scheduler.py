"""Fires repeats. Any number may run: each fire is one compare-and-set in the store, so none is made twice."""

import asyncio
import logging

from mita.errors import StoreError, UsageError
from mita.model.repeat import Firing, Repeat, RepeatState
from mita.model.time import SECOND, Moment, Wait
from mita.ports.store import Store
from mita.rules.fire import plan
from mita.rules.spec import unpack

from .patience import Patience

log = logging.getLogger("mita.scheduler")

BATCH = 100


async def fire_due(store: Store) -> tuple[int, Wait | None]:
    """Fire what is due, one batch; how many were won, and the wait until the next (0: there is more now; None: never)."""
    due = await store.due_repeats(BATCH)
    firings = [firing_of(repeat, due.now) for repeat in due.repeats]
    won = await store.fire(firings) if firings else []
    if len(due.repeats) == BATCH:
        return sum(won), 0
    ahead = [moment for moment in (due.next, *(firing.next for firing in firings)) if moment is not None]
    return sum(won), max(0, min(ahead) - due.now) if ahead else None


def firing_of(repeat: Repeat, now: Moment) -> Firing:
    """What this repeat does now. One that cannot be read or computed is parked with its reason, and shown."""
    assert repeat.cursor is not None  # noqa: S101
    try:
        return plan(repeat, unpack(repeat.spec), now)
    except (UsageError, ValueError, OverflowError) as error:
        log.error("repeat %s cannot be computed and is parked: %s", repeat.key, error)
        return Firing(
            key=repeat.key,
            cursor=repeat.cursor,
            revision=repeat.revision,
            next=None,
            fired=0,
            last=None,
            jobs=(),
            state=RepeatState.PARKED,
            reason=str(error),
        )


class Scheduler:
    """Sleeps to the next fire, but looks every `poll` seconds for repeats that somebody added."""

    def __init__(self, store: Store, poll: float) -> None:
        self._store, self._poll = store, poll

    async def run(self) -> None:
        patience = Patience("fire repeats")
        while True:
            try:
                _, wait = await fire_due(self._store)
                patience.reset()
            except StoreError as error:
                await patience.after(error)
                continue
            await asyncio.sleep(self._poll if wait is None else min(wait / SECOND, self._poll))
