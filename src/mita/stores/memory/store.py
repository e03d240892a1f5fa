"""The memory store: open, close, and a table of contents.

Every verb of the contract is one line of the table: `enqueue = atomic(enqueue.enqueue)`. The verb
itself is a plain function in the file of its name. It takes a context and then the arguments of the
contract. `atomic` makes a method of it, and keeps the names and types of the arguments, so mypy
proves that this class fulfils the contract `mita.ports.store.Store`.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from mita.errors import StoreMissing
from mita.model.time import Wait
from mita.ports.clock import Clock, SystemClock
from mita.ports.pubsub import Subscription
from mita.ports.store import SILENCE_S, Can

from . import (
    amend,
    audit,
    claim,
    control,
    doctor,
    enqueue,
    history,
    inspect,
    leases,
    maintenance,
    once,
    pubsub,
    repeats,
    settle,
)
from .context import MemoryContext, transaction
from .notify import MemoryNotifier
from .state.memory_state import MemoryState

P = ParamSpec("P")
T = TypeVar("T")


def atomic(
    verb: Callable[Concatenate[MemoryContext, P], T],
) -> Callable[Concatenate["MemoryStore", P], Coroutine[Any, Any, T]]:
    """A method that calls `verb` while no other store changes the state. It gives other tasks of
    the event loop a turn first, as a call to any other store does."""

    async def method(self: "MemoryStore", /, *args: P.args, **named: P.kwargs) -> T:
        await asyncio.sleep(0)
        with transaction(self.state, self.clock, self.room, self.ageing) as context:
            return verb(context, *args, **named)

    update_wrapper(method, verb)
    return method


class MemoryStore:
    """Stores that share a `state` are to each other as processes that share a database. `room`
    bounds the bytes of a job as other stores do, for tests."""

    can = (
        Can.OBEY_A_FAKE_CLOCK
        | Can.KEEP_EXACT_ORDER
        | Can.SHARE_EXACTLY
        | Can.TELL_AT_ONCE
        | Can.TELL_WITH_SETTLE
    )
    silence = SILENCE_S  # there is no connection that could fall silent
    ageing: Wait | None = None

    def __init__(
        self, state: MemoryState | None = None, clock: Clock | None = None, room: int | None = None
    ) -> None:
        self.room = room
        self.state = state or MemoryState()
        self.clock = clock or SystemClock()
        self._notifier = MemoryNotifier(self.state.lock)
        self._subscriptions: set[Subscription] = set()

    async def open(self, *, create: bool = True) -> None:
        """Receive notifications from now on. Without `create`, an empty state is an error."""
        state = self.state
        with state.lock:
            if not create and not (state.queues or state.repeats or state.workers):
                raise StoreMissing(
                    "memory:// holds no jobs: they live in the process that enqueued them, and "
                    "no other process sees them"
                )
            state.notifiers.add(self._notifier.notify)

    async def close(self) -> None:
        """Close the subscriptions, and receive no more notifications."""
        for subscription in list(self._subscriptions):
            await subscription.close()
        with self.state.lock:
            self.state.notifiers.discard(self._notifier.notify)

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a notification of this or another store with the same state."""
        return await self._notifier.wait(queues, timeout)

    async def subscribe(self, queue: str | None) -> Subscription:
        """Receive the events of a queue, or of all queues (None)."""
        subscription = Subscription(queue, self._unsubscribe)
        await self._add_subscription(subscription, asyncio.get_running_loop())
        self._subscriptions.add(subscription)
        return subscription

    async def _unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        await self._remove_subscription(subscription)

    settle_and_claim = atomic(claim.settle_and_claim)
    enqueue = atomic(enqueue.enqueue)
    claim = atomic(claim.claim)
    settle = atomic(settle.settle)
    extend = atomic(leases.extend)
    reap = atomic(leases.reap)
    arrive = atomic(amend.arrive)
    amend = atomic(amend.amend)
    progress = atomic(once.progress)
    load_once = atomic(once.load_once)
    store_once = atomic(once.store_once)
    once_values = atomic(once.once_values)

    put_repeat = atomic(repeats.put_repeat)
    remove_repeats = atomic(repeats.remove_repeats)
    pause_repeats = atomic(repeats.pause_repeats)
    resume_repeats = atomic(repeats.resume_repeats)
    report_repeat = atomic(repeats.report_repeat)
    due_repeats = atomic(repeats.due_repeats)
    fire = atomic(repeats.fire)
    list_repeats = atomic(repeats.list_repeats)
    find_repeats = atomic(repeats.find_repeats)
    lock = atomic(repeats.lock)
    unlock = atomic(repeats.unlock)

    now = atomic(inspect.now)
    queue_names = atomic(inspect.queue_names)
    queues = atomic(inspect.queues)
    page = atomic(inspect.page)
    dead_groups = atomic(inspect.dead_groups)
    find = atomic(inspect.find)
    raw = atomic(inspect.raw)
    timeline = atomic(inspect.timeline)
    ahead = atomic(inspect.ahead)
    resources = atomic(inspect.resources)

    pause = atomic(control.pause)
    resume = atomic(control.resume)
    hold = atomic(control.hold)
    limit = atomic(control.limit)
    beat = atomic(control.beat)
    leave = atomic(control.leave)
    record_audit = atomic(audit.record_audit)
    audit_page = atomic(audit.audit_page)
    workers = atomic(inspect.workers)

    prune = atomic(maintenance.prune)
    migrate = atomic(maintenance.migrate)
    doctor = atomic(doctor.doctor)

    publish = atomic(pubsub.publish)
    subscribed_queues = atomic(pubsub.subscribed_queues)
    _add_subscription = atomic(pubsub.add)
    _remove_subscription = atomic(pubsub.remove)

    count_runs = atomic(history.count_runs)
    run_history = atomic(history.run_history)
