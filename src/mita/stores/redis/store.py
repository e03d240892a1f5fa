"""The Redis store: open, close, and a table of contents.

Every verb of the contract is one line of the table: `pause = verb(control.pause)`. The verb itself
is a plain function in the file of its name. It takes a `RedisContext` and then the arguments of the
contract. `verb` makes a method of it that keeps the names and types of the arguments, so mypy
proves that this class fulfils the contract `mita.ports.store.Store`.
"""

from collections.abc import Callable, Collection
from functools import update_wrapper
from typing import Concatenate, ParamSpec, TypeVar

from redis.asyncio.connection import AbstractConnection

from mita.errors import StoreMissing
from mita.model.time import Wait
from mita.ports.clock import Clock
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
    resources,
    settle,
)
from .client.address import read_address
from .connection import RedisConnection
from .context import RedisContext
from .notify import RedisNotifier
from .scripting.key_names import KeyNames

# Bytes of a call that are reserved for everything but the arguments or the result of a job.
CALL_RESERVE_BYTES = 16_384
P = ParamSpec("P")
T = TypeVar("T")


def verb(
    function: Callable[Concatenate[RedisContext, P], T],
) -> Callable[Concatenate["RedisStore", P], T]:
    """A method that calls `function` with the store's context."""

    def method(self: "RedisStore", /, *args: P.args, **named: P.kwargs) -> T:
        return function(self.context, *args, **named)

    update_wrapper(method, function)
    return method


class RedisStore:
    """`url` is `redis://`, `rediss://`, `unix://` or `redis+cluster://`. The server's clock decides
    unless a test passes its own. A store belongs to the event loop that opened it; a process may
    have several open stores."""

    can = Can.OBEY_A_FAKE_CLOCK | Can.KEEP_EXACT_ORDER | Can.SHARE_EXACTLY | Can.TELL_AT_ONCE
    silence = SILENCE_S

    def __init__(self, url: str, *, namespace: str = "mita", clock: Clock | None = None) -> None:
        self._address = read_address(url, namespace)
        keys = KeyNames(self._address.namespace)
        connection = RedisConnection(self._address)
        self.context = RedisContext(connection, keys, clock, self._address.cluster)
        self._notifier = RedisNotifier(keys.notify_channel, self._new_connection)
        self._subscriptions = pubsub.RedisSubscriptions(self.context, self._new_connection)

    def _new_connection(self) -> AbstractConnection:
        return self.context.connection.server.new_connection()

    @property
    def ageing(self) -> Wait | None:
        """How long a job waits until it has risen by one priority; None: priorities are strict."""
        return self.context.ageing

    @ageing.setter
    def ageing(self, wait: Wait | None) -> None:
        self.context.ageing = wait

    @property
    def room(self) -> int | None:
        """How many bytes the arguments and the result of one job may take together."""
        return self.context.job_bytes

    async def open(self, *, create: bool = True) -> None:
        """Connect and check the server. Raises `StoreError` for a server that is not fit to keep
        jobs. `create=False`: raise `StoreMissing` if the namespace has never been used."""
        connection, address = self.context.connection, self._address
        connection.open(self.silence)
        self._notifier.silence = self.silence
        try:
            info = await doctor.server_info(connection)
            doctor.check(info, address.shown, allow_eviction=address.allow_eviction)
            if not create:
                await self._check_used()
            longest = await doctor.longest_call(connection)
            connection.server.limit_calls(longest)
            self.context.job_bytes = longest - CALL_RESERVE_BYTES
            await self.context.queues()
        except BaseException:
            await self.close()
            raise

    async def _check_used(self) -> None:
        """A namespace is used if it has a queue, a repeat or a worker."""
        keys = self.context.keys
        signs = [keys.in_namespace(name) for name in ("queues", "repeats", "workers")]
        if not await self.context.connection.command("EXISTS", *signs):
            raise StoreMissing(f"{self._address.shown} has no Mita in namespace {keys.namespace!r}")

    async def close(self) -> None:
        """End the subscriptions and disconnect."""
        await self._subscriptions.close()
        await self._notifier.close()
        await self.context.connection.close()

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a wake-up from another store, in this process or in another."""
        return await self._notifier.wait(queues, timeout)

    async def subscribe(self, queue: str | None) -> Subscription:
        """Receive the events of a queue, or of all queues."""
        return await self._subscriptions.subscribe(queue)

    # jobs
    enqueue = verb(enqueue.enqueue)
    settle_and_claim = verb(claim.settle_and_claim)
    claim = verb(claim.claim)
    settle = verb(settle.settle)
    extend = verb(leases.extend)
    reap = verb(leases.reap)
    arrive = verb(amend.arrive)
    amend = verb(amend.amend)
    progress = verb(leases.progress)
    load_once = verb(once.load_once)
    store_once = verb(once.store_once)
    once_values = verb(once.once_values)
    # repeats
    put_repeat = verb(repeats.put_repeat)
    remove_repeats = verb(repeats.remove_repeats)
    pause_repeats = verb(repeats.pause_repeats)
    resume_repeats = verb(repeats.resume_repeats)
    report_repeat = verb(repeats.report_repeat)
    due_repeats = verb(repeats.due_repeats)
    fire = verb(repeats.fire)
    list_repeats = verb(repeats.list_repeats)
    find_repeats = verb(repeats.find_repeats)
    lock = verb(repeats.lock)
    unlock = verb(repeats.unlock)
    # inspect
    now = verb(inspect.now)
    queue_names = verb(inspect.queue_names)
    queues = verb(inspect.queues)
    page = verb(inspect.page)
    dead_groups = verb(inspect.dead_groups)
    find = verb(inspect.find)
    raw = verb(inspect.raw)
    timeline = verb(inspect.timeline)
    ahead = verb(inspect.ahead)
    workers = verb(inspect.workers)
    resources = verb(resources.resources)
    # control
    pause = verb(control.pause)
    resume = verb(control.resume)
    hold = verb(control.hold)
    limit = verb(control.limit)
    beat = verb(control.beat)
    leave = verb(control.leave)
    record_audit = verb(audit.record_audit)
    audit_page = verb(audit.audit_page)
    # maintenance
    prune = verb(maintenance.prune)
    migrate = verb(maintenance.migrate)
    doctor = verb(doctor.doctor)
    # events
    publish = verb(pubsub.publish)
    subscribed_queues = verb(pubsub.subscribed_queues)
    # history
    count_runs = verb(history.count_runs)
    run_history = verb(history.run_history)
