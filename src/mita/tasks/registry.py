"""The tasks of one app, or of one module that has no app yet."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from mita.errors import UsageError
from mita.rules.names import check_name

from .arguments import PAYLOAD_BYTES, Arguments
from .depends import Need
from .handle import Sender
from .injection import Wiring, check_needs
from .options import Options, choose
from .origin import Origin
from .signature import check_kind, is_async
from .task import CallableTask, Executor, Task


class Declaration(Struct, frozen=True):
    """How a task was declared: from which function, with which options, and under which other names
    its jobs may be stored. `short` is the name of the function, if the task is not called so."""

    origin: Origin
    choices: Mapping[str, Any]
    aliases: tuple[str, ...] = ()
    short: str | None = None


class Registry:
    """The tasks of one app, by name. Two functions never have one name. A module that is imported
    again, or a cell of a notebook, replaces its own tasks. `known` also has the other names of
    tasks, under which their jobs may be stored."""

    def __init__(
        self, sender: Sender, options: Options, payload_limit: int = PAYLOAD_BYTES
    ) -> None:
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.known: dict[str, Task[Any, Any]] = {}
        self.wiring = Wiring([], [])
        self._declared: dict[str, Declaration] = {}
        self._shorts: dict[str, dict[str, Task[Any, Any]]] = {}
        self._sender = sender
        self._options = options
        self._payload_limit = payload_limit

    def add(self, fn: Callable[..., Any], choices: Mapping[str, Any]) -> Task[Any, Any]:
        """Register a function and return its task. Raises `UsageError` if the name belongs to
        another function."""
        rest = dict(choices)
        name, short = self._names(fn, rest.pop("name", None))
        aliases = _aliases(name, rest.pop("aliases", ()))
        final = _final(name, rest.pop("final", ()))
        executor = _executor(name, fn, rest.pop("executor", None))
        arguments = Arguments(name, fn)
        task: Task[Any, Any] = CallableTask(
            name,
            fn,
            self._chosen(name, rest, arguments),
            self._sender,
            final=final,
            executor=executor,
            payload_limit=self._payload_limit,
            arguments=arguments,
        )
        self.put(task, Declaration(Origin.of(fn), choices, aliases, short))
        return task

    def put(self, task: Task[Any, Any], declared: Declaration) -> None:
        """Keep a task under its names. Raises `UsageError` if another function has one of them."""
        self._check_free(task.name, declared)
        for alias in declared.aliases:
            other = self.tasks.get(alias) or self.known.get(alias)
            if other is not None and other.name != task.name and not self._is_short(alias, other):
                raise UsageError(
                    f"task {task.name!r}: its alias {alias!r} belongs to task {other.name!r}"
                )
        self.tasks[task.name], self._declared[task.name] = task, declared
        self.known[task.name] = task
        self.known.update(dict.fromkeys(declared.aliases, task))
        if declared.short is not None:
            self._put_short(declared.short, task)
        if self.wiring.middlewares:
            task._wrap()  # noqa: SLF001

    def adopt(self, task: Task[Any, Any], declared: Declaration) -> None:
        """Take over a task that was declared without an app, with the defaults of this one."""
        ours = {"name", "aliases", "final", "executor"}
        rest = {name: value for name, value in declared.choices.items() if name not in ours}
        options = self._chosen(task.name, rest, task.arguments)
        self.put(task, declared)
        task._rebind(options, self._payload_limit)  # noqa: SLF001

    def check(self) -> None:
        """Raise the `UsageError` that the first run of a task would end with."""
        for provider in self.wiring.lifespans:
            check_needs("", [Need(provider.label, provider, "worker")], self.wiring)
        for task in self.tasks.values():
            task.arguments.prepare()
            if (injection := task.injection) is not None:
                needs = [*injection.needs, *injection.attributes]
                needs += [Need(one.label, one, "run") for one in self.wiring.middlewares]
                in_process = task.executor == "process"
                check_needs(f"task {task.name!r}", needs, self.wiring, in_process=in_process)

    def _names(self, fn: Callable[..., Any], chosen: str | None) -> tuple[str, str | None]:
        """The name of a task, and that of its function if it is another one."""
        return task_name(fn, chosen), None

    def _chosen(self, name: str, choices: Mapping[str, Any], arguments: Arguments) -> Options:
        try:
            return choose(self._options, choices, arguments.parameters, per_job=False)
        except UsageError as error:
            raise UsageError(f"task {name!r}: {error}") from None

    def _is_short(self, name: str, task: Task[Any, Any]) -> bool:
        """Whether a task is known under this name only because its function is called so."""
        declared = self._declared[task.name]
        return declared.short == name and name != task.name and name not in declared.aliases

    def _put_short(self, short: str, task: Task[Any, Any]) -> None:
        """Let a task be found by the name of its function, unless two tasks would be."""
        owners = self._shorts.setdefault(short, {})
        owners[task.name] = task
        holder = self.known.get(short)
        if holder is not None and not self._is_short(short, holder):
            return
        if len(owners) == 1:
            self.known[short] = task
        else:
            self.known.pop(short, None)

    def _check_free(self, name: str, declared: Declaration) -> None:
        if name not in self._declared:
            holder = self.known.get(name)
            if holder is not None and not self._is_short(name, holder):
                raise UsageError(f"task name {name!r} is an alias of task {holder.name!r}")
            return
        earlier, origin = self._declared[name].origin, declared.origin
        same = earlier.same_as(origin)
        is_same_choice = self._declared[name].choices == declared.choices
        if earlier.reloaded_as(origin) or (same and is_same_choice):
            return
        other = str(origin)
        if other == str(earlier):
            other = (
                "the same function with other options"
                if same
                else "the one with other values around it"
            )
        raise UsageError(
            f"task name {name!r} is taken by {earlier}: give {other} another name, "
            "@app.task(name='…'), or declare it with Tasks(), which calls it module.function"
        )


def task_name(fn: Callable[..., Any], chosen: str | None) -> str:
    """The name that a task of this function has in an app."""
    name = chosen if chosen is not None else getattr(fn, "__name__", None)
    if name is None:
        raise UsageError(f"{fn!r} has no name of its own: give it one, @app.task(name='…')")
    check_kind(name, fn)
    if chosen is None and not name.isidentifier():
        raise UsageError(f"{name} is no name for a task: give it one, @app.task(name='…')")
    return check_name("task", name)


def _final(task: str, errors: Any) -> tuple[type[BaseException], ...]:
    listed = tuple(errors) if isinstance(errors, tuple | list | set | frozenset) else (errors,)
    for error in listed:
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            raise UsageError(
                f"task {task!r}: final={error!r} is not a class of errors; list for example "
                "(ValueError,)"
            )
    return listed


def _executor(task: str, fn: Callable[..., Any], chosen: Any) -> Executor:
    if chosen is None:
        return "loop" if is_async(fn) else "thread"
    if chosen not in ("thread", "process"):
        raise UsageError(
            f"task {task!r}: executor={chosen!r}: use 'thread' (the default of a plain function) "
            "or 'process'"
        )
    if is_async(fn):
        raise UsageError(
            f"task {task!r} is async, so it runs on the worker's event loop: executor={chosen!r} "
            "is for plain functions; write `def` instead of `async def`, or leave executor out"
        )
    executor: Executor = chosen
    return executor


def _aliases(task: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, tuple | list | set | frozenset):
        raise UsageError(f"task {task!r}: aliases={names!r}: give a list of names")
    return tuple(check_name("task", name) for name in names)
