"""Tasks of a module that knows no app: `Tasks()`, collected by `app.include(tasks)`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from mita.errors import UsageError
from mita.model.policy import Retry
from mita.rules.names import check_name

from .declare import Declare
from .depends import Provider, read_provider
from .handle import Call, Handle, Sender
from .options import Options
from .registry import Declaration, Registry, task_name
from .task import Task

F = TypeVar("F", bound=Callable[..., Any])


class LateSender:
    """Enqueues the calls of tasks that belong to an app as soon as it includes them."""

    def __init__(self) -> None:
        self.sender: Sender | None = None

    def send(self, calls: Sequence[Call[Any]]) -> Awaitable[list[Handle[Any]]]:
        """See `Sender`."""
        return self._found(calls).send(calls)

    def send_sync(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        """See `Sender`."""
        return self._found(calls).send_sync(calls)

    def within(self, connection: Any) -> Sender:
        """See `Sender`."""
        return self._found(()).within(connection)

    def _found(self, calls: Sequence[Call[Any]]) -> Sender:
        if self.sender is None:
            which = f"task {calls[0].task!r}" if calls else "this task"
            raise UsageError(
                f"{which} belongs to no app yet: call app.include(tasks) where the app is made, "
                "and import that module before you enqueue"
            )
        return self.sender


class BlueprintRegistry(Registry):
    """The tasks of one `Tasks()`. Their default name begins with `prefix`, or with the name of
    their module. Once an app includes them, it also gets those that are declared later."""

    def __init__(self, prefix: str | None) -> None:
        self.late = LateSender()
        self.app: Registry | None = None
        self._prefix = prefix
        super().__init__(self.late, Options.of(Retry()))

    def _names(self, fn: Callable[..., Any], chosen: str | None) -> tuple[str, str | None]:
        name = task_name(fn, chosen)
        module = self._prefix or getattr(fn, "__module__", None)
        if chosen is not None or module in (None, "__main__"):
            return name, None
        return check_name("task", f"{module}.{name}"), name

    def put(self, task: Task[Any, Any], declared: Declaration) -> None:
        """See `Registry`."""
        super().put(task, declared)
        if self.app is not None:
            self.app.adopt(task, declared)

    def join(self, app: Registry, sender: Sender) -> None:
        """Give the tasks to an app. Raises `UsageError` if another app has them."""
        if self.app is app:
            return
        if self.app is not None:
            raise UsageError(
                "these tasks belong to another app already: one Tasks() is included by one app"
            )
        for name, task in self.tasks.items():
            app.adopt(task, self._declared[name])
        self.app, self.late.sender = app, sender


class Tasks:
    """Tasks of a module that does not import the app:

        tasks = Tasks()

        @tasks.task
        async def send(to: str) -> None: ...

    `app.include(tasks)` adds them to an app; until then they cannot be enqueued. A task is called
    `module.function`, so two modules may have a function of one name. With a `prefix`,
    `Tasks("mail")`, it is called `mail.function`. In a script (`__main__`) it has the name of its
    function."""

    def __init__(self, prefix: str | None = None) -> None:
        self._registry = BlueprintRegistry(None if prefix is None else check_name("prefix", prefix))
        self.task = Declare(self._registry, {})

    def __repr__(self) -> str:
        return f"<Tasks: {', '.join(self._registry.tasks) or 'none'}>"


class Composed:
    """The methods of an app that put its parts together."""

    _registry: Registry
    _sender: Any

    def include(self, *groups: Tasks) -> None:
        """Add the tasks of other modules: `app.include(mail.tasks, billing.tasks)`. Each of
        `groups` is a `Tasks()`. Raises `UsageError` if two tasks have one name, or if another app
        has them."""
        for group in groups:
            if not isinstance(group, Tasks):
                raise UsageError(f"include({group!r}): give a Tasks(), for example mail.tasks")
            group._registry.join(self._registry, self._sender)  # noqa: SLF001

    def lifespan(self, fn: F) -> F:
        """Declare what each worker of this app sets up when it starts and cleans up when it stops:
        `fn` is a generator, sync or async, that yields once. Runs get what it yields by
        `Depends(fn)`. Several are entered in the order of their declaration. Raises `UsageError` if
        `fn` is no generator."""
        provider = read_provider(fn)
        if not provider.yields:
            raise UsageError(
                f"lifespan {provider.label} must be a generator: set up, `yield` what the runs "
                "share, and clean up after it"
            )
        _put(self._registry.wiring.lifespans, provider)
        return fn

    def middleware(self, fn: F) -> F:
        """Declare what is done around every run: `fn` is a generator, sync or async, that takes the
        `Job` and yields once. The handler runs at the `yield`, which returns its value or raises
        its error. The first middleware is the outermost. Raises `UsageError` if `fn` is no such
        generator."""
        provider = read_provider(fn, job_first=True)
        if not provider.yields or not provider.job_parameters:
            raise UsageError(
                f"middleware {provider.label} must be a generator that takes the job: def "
                "middleware(job: Job), with one `yield` where the handler runs"
            )
        _put(self._registry.wiring.middlewares, provider)
        for task in self._registry.tasks.values():
            task._wrap()  # noqa: SLF001
        return fn


def _put(providers: list[Provider], provider: Provider) -> None:
    """Add a provider. A module that is imported again replaces its own."""
    for at, earlier in enumerate(providers):
        if earlier.label == provider.label and earlier.fn.__module__ == provider.fn.__module__:
            providers[at] = provider
            return
    providers.append(provider)
