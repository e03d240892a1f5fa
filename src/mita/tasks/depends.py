"""What a handler needs beside its arguments: `Annotated[Session, Depends(get_session)]`.

A provider is a function that makes such a value. Here it is read: how it is called, and what it
needs itself. `mita.engine.injected` calls it."""

import contextlib
import inspect
import typing
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Struct

from mita.errors import UsageError

from .annotations import resolve
from .job import Job

ProviderScope: TypeAlias = Literal["run", "worker"]

_REMEDY = "annotate it with Annotated[…, Depends(…)], or give it a default"
# what an annotation raises that cannot be resolved now
_UNRESOLVED = (NameError, AttributeError, TypeError, SyntaxError)


class Dependency(Struct, frozen=True, eq=False):
    """What `Depends(…)` returns: the provider, and how long its value lives."""

    fn: Callable[..., Any]
    scope: ProviderScope


def Depends(fn: Callable[..., Any], *, scope: ProviderScope = "run") -> Any:  # noqa: N802 - as a type
    """Say in an annotation which provider makes a value: `Annotated[Session,
    Depends(get_session)]`. The worker calls it, and callers do not pass the value.

    `fn` is a sync or async function, or a generator that yields the value and cleans up after it.
    With `scope="run"` each run gets its own value, which is cleaned up when the run ends. With
    `scope="worker"` all runs of a worker share one, which is cleaned up when the worker stops.
    Raises `UsageError` for another scope, and if `fn` is no function."""
    if not callable(fn):
        raise UsageError(
            f"Depends({fn!r}): give the function that makes the value, without calling it"
        )
    if scope not in ("run", "worker"):
        raise UsageError(
            f"Depends(scope={scope!r}): use 'run' (a value for each run) or 'worker' (one for all "
            "runs of a worker)"
        )
    return Dependency(fn, scope)


class Provider(Struct, frozen=True, eq=False):
    """A function that makes a value. `fn` is what users name; `call` is what is called: `fn`, or
    the generator function inside `@contextmanager`. It is passed the job as `job_parameters`, and
    the values of `needs`."""

    fn: Callable[..., Any]
    call: Callable[..., Any]
    label: str
    is_async: bool
    yields: bool
    needs: tuple["Need", ...] = ()
    job_parameters: tuple[str, ...] = ()


class Need(Struct, frozen=True, eq=False):
    """A parameter or attribute that is filled with the value of a provider."""

    name: str
    provider: Provider
    scope: ProviderScope


def label_of(fn: Callable[..., Any]) -> str:
    """How a provider is named in messages: `shop.db.get_session`."""
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    return f"{getattr(fn, '__module__', None) or '?'}.{name}".replace(".<locals>", "")


def dependency_of(fn: Callable[..., Any], parameter: Parameter) -> Dependency | None:
    """The dependency that a parameter of `fn` names, in its annotation or as its default; None if
    there is none."""
    if isinstance(parameter.default, Dependency):
        return parameter.default
    return dependency_in(fn, parameter.annotation)


def dependency_in(fn: Callable[..., Any], annotation: Any) -> Dependency | None:
    """The dependency that an annotation of `fn` names; None if there is none, or if the annotation
    is text that cannot be resolved yet."""
    if isinstance(annotation, str):
        try:
            annotation = resolve(fn, annotation)
        except _UNRESOLVED as error:
            if "Depends(" in annotation:
                raise UsageError(
                    f"{label_of(fn)}: the annotation {annotation!r} cannot be resolved ({error}): "
                    "define its names above the function, at the top of the module"
                ) from error
            return None
    return _named_in(fn, annotation)


def _named_in(fn: Callable[..., Any], annotation: Any) -> Dependency | None:
    found = [one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Dependency)]
    if typing.get_origin(annotation) is Annotated and found:
        if len(found) > 1:
            raise UsageError(f"{label_of(fn)}: {annotation} names two providers; name one")
        return found[0]
    if any(_named_in(fn, part) for part in typing.get_args(annotation)):
        raise UsageError(
            f"{label_of(fn)}: {annotation} has its Depends inside another type: write "
            "Annotated[… | None, Depends(…)], with Annotated outermost"
        )
    return None


def read_provider(
    fn: Callable[..., Any], via: tuple[Callable[..., Any], ...] = (), *, job_first: bool = False
) -> Provider:
    """Read a provider and what it needs. `via` are the providers that need it. `job_first`: its
    first parameter is the job, even without an annotation. Raises `UsageError` for a parameter that
    nothing provides, and for providers that need each other."""
    label = label_of(fn)
    if fn in via:
        ring = " → ".join(label_of(one) for one in (*via[via.index(fn) :], fn))
        raise UsageError(f"providers need each other in a circle: {ring}")
    call = _inside_context_manager(fn)
    needs, jobs = [], []
    for at, parameter in enumerate(_parameters(call, label)):
        dependency = dependency_of(call, parameter)
        if dependency is not None:
            needs.append(read_need(parameter.name, dependency, (*via, fn)))
        elif (job_first and at == 0) or is_job(call, parameter.annotation):
            jobs.append(parameter.name)
        elif parameter.default is Parameter.empty:
            raise UsageError(
                f"provider {label} takes {parameter.name!r}, which nothing provides: {_REMEDY}"
            )
    yields_async, yields = inspect.isasyncgenfunction(call), inspect.isgeneratorfunction(call)
    is_async = yields_async or _is_coroutine_function(call)
    return Provider(fn, call, label, is_async, yields or yields_async, tuple(needs), tuple(jobs))


def read_need(name: str, dependency: Dependency, via: tuple[Callable[..., Any], ...] = ()) -> Need:
    """Read what a parameter or attribute of this name needs."""
    return Need(name, read_provider(dependency.fn, via), dependency.scope)


def is_job(fn: Callable[..., Any], annotation: Any) -> bool:
    """Whether this annotation is `Job` or a class derived from it. A name that cannot be resolved
    yet is compared as text."""
    if isinstance(annotation, str):
        try:
            annotation = resolve(fn, annotation)
        except _UNRESOLVED:
            return annotation.strip("'\"") in ("Job", "mita.Job")
    return isinstance(annotation, type) and issubclass(annotation, Job)


def all_needs(needs: tuple[Need, ...]) -> Iterator[Need]:
    """These needs and those of their providers, the innermost first."""
    for need in needs:
        yield from all_needs(need.provider.needs)
        yield need


def _parameters(call: Callable[..., Any], label: str) -> list[Parameter]:
    try:
        listed = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"provider {label}: its parameters cannot be read ({error}); wrap it in a function"
        ) from error
    for parameter in listed:
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            raise UsageError(
                f"provider {label} takes {parameter.name!r} only by position: values are passed "
                "by name, so leave the / out"
            )
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [parameter for parameter in listed if parameter.kind not in several]


def _inside_context_manager(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The generator function inside `@contextmanager` or `@asynccontextmanager`, else `fn`."""
    inner: Callable[..., Any] | None = getattr(fn, "__wrapped__", None)
    code = getattr(fn, "__code__", None)
    if inner is None or code is None or code.co_filename != contextlib.__file__:
        return fn
    return inner


def _is_coroutine_function(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or (
        not inspect.isclass(call) and inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
    )
