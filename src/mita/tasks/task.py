"""A task: a function with a name and defaults, and typed ways to enqueue it."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, Unpack

from mita.model.time import When
from mita.rules.names import fill
from mita.rules.when import when

from .arguments import PAYLOAD_BYTES, Arguments
from .choices import Choices
from .handle import Call, Handle, Sender
from .hints import no_method
from .injection import Injection
from .limits import NO_LIMITS, CallLimits, check_together
from .options import Options, choose
from .placeholders import NeedsFlow
from .signature import is_async

P = ParamSpec("P")
R = TypeVar("R")
C = ParamSpec("C")
V = TypeVar("V")
Executor: TypeAlias = Literal["loop", "thread", "process"]  # where a handler runs


class Bound(Generic[P, R]):
    """A task with its time and options. Every way to enqueue has the types of the function
    itself."""

    __slots__ = ("_arguments", "_options", "_payload_limit", "_sender", "name")

    def __init__(
        self, name: str, arguments: Arguments, options: Options, sender: Sender, payload_limit: int
    ) -> None:
        self.name = name
        self._arguments = arguments
        self._options = options
        self._sender = sender
        self._payload_limit = payload_limit

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue one job and return its handle. `args` and `kwargs` are the arguments of the
        function, without the `Job`. When this returns, the job is stored. Raises `UsageError` if
        the arguments do not fit the annotations, and `Rejected` if the store does not take them."""
        return (await self._sender.send([self.call(*args, **kwargs)]))[0]

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """`enqueue`, from code that is not async."""
        return self._sender.send_sync([self.call(*args, **kwargs)])[0]

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Return a call whose arguments (`args`, `kwargs`) are checked; nothing is stored. It is
        for `app.enqueue_many`, `app.repeat`, `flow.add` and `job.run`. Raises `UsageError` if the
        arguments do not fit the annotations."""
        try:
            payload, values = self._arguments.checked(args, kwargs, self._payload_limit)
        except NeedsFlow as found:
            return self._call_in_flow(found.values)
        options = self._options
        limits = options.limits
        if options.resource is None and options.unique is None and limits is NO_LIMITS:
            return Call(self.name, payload, options)
        named = self._arguments.named(values)
        resource = None if options.resource is None else fill("resource", options.resource, named)
        unique = None if options.unique is None else fill("unique", options.unique, named)
        if limits is NO_LIMITS:
            return Call(self.name, payload, options, resource, unique)
        filled = CallLimits(
            limits.gates(self.name, named),
            limits.group(named),
            limits.tags and limits.filled_tags(named),
            limits.id,
        )
        return Call(self.name, payload, options, resource, unique, filled)

    def _call_in_flow(self, values: dict[str, Any]) -> Call[R]:
        """The call of a step some of whose arguments are results of other steps."""
        options, known = self._options, self._arguments.known(values, self._payload_limit)
        resource = None if options.resource is None else fill("resource", options.resource, known)
        unique = None if options.unique is None else fill("unique", options.unique, known)
        limits = options.limits
        filled = CallLimits(
            limits.gates(self.name, known),
            limits.group(known),
            limits.filled_tags(known),
            limits.id,
        )
        return Call(self.name, b"", options, resource, unique, filled, values)

    def at(self, moment: datetime) -> "Bound[P, R]":
        """Return the task with this time: its job runs at `moment`, an aware datetime. A time in
        the past means now. Raises `UsageError` for a datetime without a time zone."""
        return self._when(when(at=moment))

    def after(self, length: float | timedelta) -> "Bound[P, R]":
        """Return the task with this delay: its job runs after `length` seconds (or a timedelta),
        measured on the store's clock. Raises `UsageError` for a negative delay."""
        return self._when(when(after=length))

    def options(self, **choices: Unpack[Choices]) -> "Bound[P, R]":
        """Return the task with other options for this job: the `choices` of `JobOptions`. Raises
        `UsageError` for an option that is unknown, or that belongs to a task."""
        return self._with(choose(self._options, choices, self._arguments.parameters, per_job=True))

    def using(self, connection: Any) -> "Bound[P, R]":
        """Return the task for the transaction that is open on your own `connection`: the job exists
        exactly if the transaction commits. For `postgresql://` stores: a psycopg or asyncpg
        connection, an SQLAlchemy session, or Django's connection. With an outbox (`Mita(outbox=…)`)
        also for the other stores. Raises `UsageError`, when it is enqueued, for a connection that
        cannot do that."""
        return Bound(
            self.name,
            self._arguments,
            self._options,
            self._sender.within(connection),
            self._payload_limit,
        )

    # for a type checker an attribute that is not there is an error, as it should be
    if not TYPE_CHECKING:

        def __getattr__(self, method: str) -> Any:
            no_method(self.name if method != "name" else "task", method)

    def _when(self, chosen: When) -> "Bound[P, R]":
        options = self._options
        check_together(options.limits, options.unique, options.unique_for, chosen)
        return self._with(options.at(chosen))

    def _with(self, options: Options) -> "Bound[P, R]":
        return Bound(self.name, self._arguments, options, self._sender, self._payload_limit)


class Task(Bound[P, R]):
    """A registered function, with its name, docstring and signature. Calling it runs the function
    itself, for example in a test; enqueuing it makes a job."""

    __name__: str
    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        options: Options,
        sender: Sender,
        *,
        final: Sequence[type[BaseException]] = (),
        executor: Executor | None = None,
        payload_limit: int = PAYLOAD_BYTES,
        arguments: Arguments | None = None,
    ) -> None:
        self.arguments = arguments or Arguments(name, fn)
        super().__init__(name, self.arguments, options, sender, payload_limit)
        self.__name__ = self.__qualname__ = name  # for a callable without a name of its own
        update_wrapper(self, fn, updated=())
        self.fn = fn
        self.is_async = is_async(fn)
        self.executor: Executor = executor or ("loop" if self.is_async else "thread")
        self.injection = self.arguments.injection
        self.is_plain = self.injection is None and not self.arguments.wants_job
        self.final = tuple(final)
        self._show(options)

    def _show(self, options: Options) -> None:
        self.queue = options.queue
        self.priority = options.priority
        self.retry = options.retry
        self.timeout = options.timeout
        self.resource = options.resource
        self.limit = options.limit
        self.when_busy = options.when_busy
        self.unique = options.unique
        self.secret = options.secret
        self.expires = options.expires
        self.deadline = options.deadline
        self.max_reschedules = options.max_reschedules
        self.limits = options.limits

    @property
    def result_kind(self) -> Any:
        """The type of what the function returns, as it is annotated."""
        return self.arguments.results.kind

    def _rebind(self, options: Options, payload_limit: int) -> None:
        """Take over the defaults of the app that includes this task."""
        self._options, self._payload_limit = options, payload_limit
        self._show(options)

    def _wrap(self) -> None:
        """Let middleware see the runs of this task."""
        self.injection = self.injection or Injection(takes_job=self.arguments.wants_job)
        self.is_plain = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself. If it takes its `Job`, pass that as the first argument."""
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name} of queue {self.queue}>"


class CallableTask(Task[P, R], Generic[P, R, C, V]):
    """What `@app.task` makes of a function: a task whose call has the types of the function itself.
    `C` and `V` are the function's parameters and value. `P` and `R` are those of a job: without the
    `Job`, and the value after it is awaited."""

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> V:
        """Call the function itself. If it takes its `Job`, pass that as the first argument."""
        value: V = self.fn(*args, **kwargs)
        return value
