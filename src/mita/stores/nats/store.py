"""The NATS store: open, close, and a table of contents.

Every verb of the contract is one line of the table: `pause = verb(control.pause)`. The verb itself
is a plain function in the file of its name. It takes a `NatsContext` and then the arguments of the
contract. `verb` makes a method of it that keeps the names and types of the arguments, so mypy
proves that this class fulfils the contract `mita.ports.store.Store`.

What JetStream cannot do exactly, and why:

* There is no fake clock: the server's own timers fire schedules and redeliver tickets.
* The order within a priority is the order of arrival. A job that is queued again with an older due
  time (released, or woken at its key) comes after those that arrived before. Priorities are exact.
* With `ageing`, priorities are compared by their first tickets, some jobs at a time
  (`tickets.priorities`).
* Groups of `fair` share the starts of each claim, up to 32 groups in a priority of a queue; of more
  groups, some share a turn (`stream.lanes`).
* Times to live are whole seconds: what has expired is removed a second or two late.
* `ClaimResult.again` is exact for a queue with few scheduled jobs; with more it is one second. No
  worker sleeps too long because of it: the server notifies when a job is ready."""

from collections.abc import Callable, Collection, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from mita.errors import StoreError, UsageError
from mita.model.time import Wait
from mita.ports.clock import Clock
from mita.ports.pubsub import Subscription
from mita.ports.store import SILENCE_S, Can
from mita.rules.names import check_namespace

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
from .client.address import parse_address
from .connection import connect
from .context import NatsContext
from .stream.clock import ServerClock
from .stream.schema import check_stream, ensure_stream
from .stream.subjects import Subjects

REPLICAS = (1, 3, 5)
P = ParamSpec("P")
T = TypeVar("T")


def verb(
    function: Callable[Concatenate[NatsContext, P], T],
) -> Callable[Concatenate["NatsStore", P], T]:
    """A method that calls `function` with the store's context."""

    def method(self: "NatsStore", /, *args: P.args, **named: P.kwargs) -> T:
        return function(self.context, *args, **named)

    update_wrapper(method, function)
    return method


class NatsStore:
    """`servers` are addresses of one server or of one cluster; `options` go to the driver's
    `connect` as they are. `replicas` is how many servers of the cluster keep the jobs."""

    can = Can(0)
    silence = SILENCE_S

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        namespace: str = "mita",
        replicas: int = 1,
        options: dict[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if clock is not None:
            raise UsageError("a NATS store uses the server's clock and cannot be given another")
        if replicas not in REPLICAS:
            raise UsageError(f"replicas={replicas}: use 1, 3 or 5")
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._subjects = Subjects(check_namespace(namespace))
        self._replicas = replicas
        self._options = options or {}
        self._subscriptions = pubsub.NatsSubscriptions()
        self._context: NatsContext | None = None
        self._ageing: Wait | None = None

    async def open(self, *, create: bool = True) -> None:
        """Connect. `create`: make the stream, or bring it up to date, first. Raises StoreMissing if
        there is no stream and `create` is False."""
        wire = await connect(self._servers, self._options, self.silence)
        try:
            if create:
                await ensure_stream(wire, self._subjects, self._replicas)
            else:
                await check_stream(wire, self._subjects, wire.where)
            clock = ServerClock(wire, self._subjects.stream)
            await clock.refresh()
            self._context = NatsContext(wire, self._subjects, clock, replicas=self._replicas)
            self._context.ageing = self._ageing
            await self._context.notifier.open()
            await self._context.planned.open()
            await wire.flush_now()
        except BaseException:
            self._context = None
            await wire.disconnect()
            raise

    async def close(self) -> None:
        """End the subscriptions and disconnect."""
        await self._subscriptions.close()
        if self._context is not None:
            context, self._context = self._context, None
            context.planned.close()
            context.prepared.close()
            await context.wire.disconnect()

    @property
    def context(self) -> NatsContext:
        """What the verbs work with. Raises StoreError if the store is not open."""
        if self._context is None:
            raise StoreError("this store is not open")
        return self._context

    @property
    def ageing(self) -> Wait | None:
        """How long a job waits until it has risen by one priority; None: priorities are strict."""
        return self._ageing

    @ageing.setter
    def ageing(self, ageing: Wait | None) -> None:
        self._ageing = ageing
        if self._context is not None:
            self._context.ageing = ageing

    @property
    def room(self) -> int:
        """The bytes that the arguments and the result of one job may have together. A job is one
        message; a quarter of it is reserved for its error, timeline and progress."""
        return self.context.room

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a wake-up from the server or from another store."""
        return await self.context.notifier.wait(queues, timeout)

    async def subscribe(self, queue: str | None) -> Subscription:
        """Receive the events of a queue, or of all queues."""
        return await self._subscriptions.subscribe(self.context, queue)

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


def parse(url: str, namespace: str = "mita", clock: Clock | None = None) -> NatsStore:
    """Returns a store for this URL, not yet open. A namespace in the URL comes before the given
    one."""
    address = parse_address(url)
    return NatsStore(
        address.servers,
        namespace=address.namespace or namespace,
        replicas=address.replicas,
        options=address.options,
        clock=clock,
    )
