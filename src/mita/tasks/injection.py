"""How a handler is called that needs more than its arguments."""

import typing
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

from msgspec import Struct

from mita.errors import UsageError

from .depends import (
    Dependency,
    Need,
    Provider,
    all_needs,
    dependency_in,
    dependency_of,
    label_of,
    read_need,
)
from .job import Job


class Injection(Struct, frozen=True, eq=False):
    """What the worker fills in when it calls a handler: `needs` are parameters, `attributes` those
    of `job_class`. `by_position` has a name for each parameter that is filled in and is passed by
    position, and None for one that comes with the job. `takes_job`: the job is passed first."""

    needs: tuple[Need, ...] = ()
    attributes: tuple[Need, ...] = ()
    job_class: type[Job] = Job
    takes_job: bool = False
    by_position: tuple[str | None, ...] = ()
    by_name: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether anything is filled in."""
        return bool(self.needs or self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are filled in."""
        return tuple(need.name for need in self.needs)

    def arranged(
        self,
        job: Job,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        values: Mapping[str, Any],
    ) -> tuple[list[Any], dict[str, Any]]:
        """What the handler is called with. `args` and `kwargs` come with the job, `values` have
        been filled in."""
        if not self.needs:
            return [job, *args] if self.takes_job else list(args), dict(kwargs)
        given = iter(args)
        first = [job] if self.takes_job else []
        filled = [next(given) if name is None else values[name] for name in self.by_position]
        return first + filled, {**kwargs, **{name: values[name] for name in self.by_name}}


class Wiring(Struct, frozen=True, eq=False):
    """What an app wraps around its runs and its workers. Both lists grow while modules are
    imported."""

    lifespans: list[Provider]
    middlewares: list[Provider]

    def is_lifespan(self, fn: Callable[..., Any]) -> bool:
        """Whether this provider is a lifespan of the app."""
        return any(one.fn == fn for one in self.lifespans)


def read_injection(
    task: str, fn: Callable[..., Any], whole: Signature, job_class: type[Job] | None
) -> tuple[Injection | None, list[Parameter]]:
    """What is filled in when this function is called, None if nothing is; and the parameters that
    come with the job. `job_class` is the annotation of the first parameter, if that is the job."""
    takes_job = job_class is not None
    parameters = list(whole.parameters.values())[takes_job:]
    needs: dict[str, Need] = {}
    for parameter in parameters:
        dependency = _checked(task, fn, parameter)
        if dependency is not None:
            needs[parameter.name] = read_need(parameter.name, dependency)
    injection = Injection(
        needs=tuple(needs.values()),
        attributes=_attributes(task, job_class),
        job_class=job_class or Job,
        takes_job=takes_job,
        by_position=tuple(
            one.name if one.name in needs else None
            for one in parameters
            if one.kind is not Parameter.KEYWORD_ONLY
        ),
        by_name=tuple(
            one.name
            for one in parameters
            if one.kind is Parameter.KEYWORD_ONLY and one.name in needs
        ),
    )
    rest = [one for one in parameters if one.name not in needs]
    is_plain = not injection.is_needed and injection.job_class is Job
    return (None if is_plain else injection), rest


def _checked(task: str, fn: Callable[..., Any], annotation: Any) -> Dependency | None:
    """The dependency of a parameter or an annotation."""
    try:
        if isinstance(annotation, Parameter):
            return dependency_of(fn, annotation)
        return dependency_in(fn, annotation)
    except UsageError as error:
        raise UsageError(f"task {task!r}: {error}") from error


def _attributes(task: str, job_class: type[Job] | None) -> tuple[Need, ...]:
    """The attributes of a class derived from `Job` that are filled in."""
    if job_class is None or job_class is Job:
        return ()
    if job_class.__init__ is not Job.__init__:
        raise UsageError(
            f"task {task!r}: {label_of(job_class)} has an __init__ of its own, but the worker "
            "makes the job: leave it out, and give attributes a provider, Annotated[…, Depends(…)]"
        )
    try:
        hints = typing.get_type_hints(job_class, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise UsageError(
            f"task {task!r}: the annotations of {label_of(job_class)} cannot be resolved "
            f"({error}): define their names above the class, at the top of the module"
        ) from error
    found = ((name, _checked(task, job_class, hint)) for name, hint in hints.items())
    return tuple(read_need(name, one) for name, one in found if one is not None)


def check_needs(
    where: str, needs: Sequence[Need], wiring: Wiring, *, in_process: bool = False
) -> None:
    """Raise `UsageError` for needs that cannot be met. A value that all runs share cannot be made
    from one run's; a handler process has no event loop, so nothing async can run there."""
    for need in all_needs(tuple(needs)):
        provider = need.provider
        if in_process and provider.is_async:
            raise UsageError(
                f"{where} runs in a process of its own (executor='process'), which has no event "
                f"loop, and provider {provider.label} is async: make it a sync function, or let "
                "the task run on a thread"
            )
        if need.scope == "worker" or wiring.is_lifespan(provider.fn):
            check_shared(provider, wiring)


def check_shared(provider: Provider, wiring: Wiring) -> None:
    """Raise `UsageError` if a value that all runs share needs something of one run."""
    if provider.job_parameters:
        raise UsageError(
            f"provider {provider.label} is shared by all runs of a worker, so it cannot take the "
            f"Job ({provider.job_parameters[0]!r}): use scope='run'"
        )
    for need in provider.needs:
        if need.scope != "worker" and not wiring.is_lifespan(need.provider.fn):
            raise UsageError(
                f"provider {provider.label} is shared by all runs of a worker, and its parameter "
                f"{need.name!r} is made for one run by {need.provider.label}: say "
                "Depends(…, scope='worker') there, too, or make both of scope 'run'"
            )
