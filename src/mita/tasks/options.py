"""The options of tasks and jobs."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.gate import MOST_HOLDERS
from mita.model.job import DEFAULT_PRIORITY, WhenBusy
from mita.model.policy import JobOptions, Retry
from mita.model.time import NOW, SECOND, Wait, When
from mita.rules.labels import check_metadata
from mita.rules.names import check_key, check_name, check_template
from mita.rules.priority import check_priority
from mita.rules.when import wait

from .hints import unknown_option
from .limits import LIMIT_CHOICES, NO_LIMITS, LimitOptions, check_together, choose_limits, with_keys

_encode = msgspec.msgpack.Encoder().encode
MOST_RESCHEDULES = 1_000_000_000  # that a store can count
# choices that are stored with a job, packed
_PACKED = {"retry", "timeout", "secret", "expires", "deadline", "max_reschedules", "metadata"}


@lru_cache(maxsize=1024)
def pack_options(
    retry: Retry,
    timeout: float | None,
    secret: bool | tuple[str, ...] = False,
    expires: float | None = None,
    deadline: float | None = None,
    max_reschedules: int | None = None,
    when: When = NOW,
    metadata: bytes = b"",
) -> bytes:
    """Pack what is stored with each job. A backoff function cannot be stored: the worker takes it
    from its own task. `when` is only stored beside a deadline, which is counted from it."""
    stored = replace(retry, wait=UNSET)
    kept: dict[str, Any] = {} if stored == Retry() else {"retry": stored}
    if deadline is not None and when != NOW:
        kept["when"] = when
    return _encode(
        JobOptions(
            timeout=timeout,
            secret=secret,
            expires=expires,
            deadline=deadline,
            max_reschedules=max_reschedules,
            metadata=metadata,
            **kept,
        )
    )


class Options(Struct, frozen=True, kw_only=True):
    """All options of a task or a job. `resource` and `unique` may be templates, which are filled
    from the arguments."""

    queue: str = "default"
    priority: int = DEFAULT_PRIORITY
    retry: Retry = Retry()
    timeout: float | None = None
    resource: str | None = None
    limit: int = 1
    when_busy: WhenBusy = WhenBusy.WAIT
    unique: str | None = None
    unique_for: Wait = 0
    limits: LimitOptions = NO_LIMITS
    when: When = NOW
    secret: bool | tuple[str, ...] = False
    expires: float | None = None
    deadline: float | None = None
    max_reschedules: int | None = None
    metadata: bytes = b""
    packed: bytes = pack_options(Retry(), None)

    @classmethod
    def of(cls, retry: Retry) -> "Options":
        """Return the default options, with an app's own retries."""
        return cls(retry=retry, packed=pack_options(retry, None))

    def at(self, when: When) -> "Options":
        """Return these options with another time."""
        changed = replace(self, when=when)
        return changed if self.deadline is None else changed.repacked()

    def repacked(self) -> "Options":
        """Return these options with `packed` made from them."""
        packed = pack_options(
            self.retry,
            self.timeout,
            self.secret,
            self.expires,
            self.deadline,
            self.max_reschedules,
            NOW if self.deadline is None else self.when,
            self.metadata,
        )
        return replace(self, packed=packed)


def choose(
    options: Options, choices: Mapping[str, Any], parameters: tuple[str, ...], *, per_job: bool
) -> Options:
    """Return `options` with these choices changed. Raises `UsageError` for a choice that is
    wrong."""
    choices, keys = with_keys(choices)
    for name in choices:
        if per_job and name in ("executor", "name", "final"):
            raise UsageError(f"{name} belongs to a task, not to a single job: @app.task({name}=…)")
        if name not in _CHECKS and name not in LIMIT_CHOICES:
            raise UsageError(unknown_option(name, [*_CHECKS, *sorted(LIMIT_CHOICES)]))
        if name == "id" and not per_job:
            raise UsageError(
                "id names one job, so a task cannot have it: task.options(id=…).enqueue(…)"
            )
        if per_job and name == "secret":
            raise UsageError(
                "secret marks a task, so that no job of it is ever shown: @app.task(secret=True)"
            )
    checked = {name: _CHECKS[name](value) for name, value in choices.items() if name in _CHECKS}
    limits = choose_limits(options.limits, choices, keys)
    changed = replace(options, limits=limits, **checked)
    if _PACKED & choices.keys():
        if per_job and changed.retry.wait is not UNSET and changed.retry != options.retry:
            raise UsageError(
                "retry: a wait function cannot be stored with a job; give it to the task, or use "
                "waits=(…)"
            )
        changed = changed.repacked()
    if "unique_for" in choices and changed.unique is None:
        raise UsageError(
            "unique_for says how long a unique key outlives its job: give unique='…' as well"
        )
    if changed.resource is None and (alone := {"limit", "when_busy"} & choices.keys()):
        raise UsageError(
            f"{min(alone)} says how the jobs of one resource key share it: give resource='…' as "
            "well"
        )
    check_together(limits, changed.unique, changed.unique_for, changed.when)
    check_secret(changed.secret, parameters)
    _check_templates(changed, parameters)
    return changed


def _check_templates(options: Options, parameters: tuple[str, ...]) -> None:
    """Raise `UsageError` for a template that does not fit the parameters of the task."""
    secret = secret_names(options.secret, parameters)
    templates = [("resource", options.resource), ("unique", options.unique)]
    templates += options.limits.templates()
    for what, template in templates:
        if template is not None:
            check_template(what, template, parameters, secret)


def secret_names(secret: bool | tuple[str, ...], parameters: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the arguments that are never shown."""
    return secret if isinstance(secret, tuple) else parameters if secret else ()


def check_secret(secret: bool | tuple[str, ...], parameters: tuple[str, ...]) -> None:
    """Raise `UsageError` if `secret` names something that is no parameter."""
    known = ", ".join(parameters) or "none"
    for name in secret_names(secret, parameters):
        if name not in parameters:
            raise UsageError(
                f"secret names {name!r}, which is not a parameter of the task ({known})"
            )


def _secret(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(name, str) for name in value)
    ):
        raise UsageError(
            f"secret={value!r}: give True, or a list with the names of the arguments that are "
            "secret"
        )
    return tuple(value)


def _retry(value: Any) -> Retry:
    if not isinstance(value, Retry):
        raise UsageError(
            f"retry={value!r}: give a Retry, for example Retry(max_retries=5) or "
            "Retry(max_retries=0)"
        )
    return value


def _seconds(name: str, nothing: str) -> Callable[[Any], float | None]:
    """The check of a length of time in seconds that cannot be 0. `nothing` is what None means."""

    def check(value: Any) -> float | None:
        if value is None:
            return None
        seconds = value.total_seconds() if isinstance(value, timedelta) else value
        negative = isinstance(seconds, int | float) and seconds < 0
        if negative or (length := wait(name, value)) == 0:
            raise UsageError(f"{name}={value!r}: give more than 0 seconds, or None for {nothing}")
        return length / SECOND

    return check


def _max_reschedules(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RESCHEDULES:
        raise UsageError(
            f"max_reschedules={value!r}: give a whole number from 1 to {MOST_RESCHEDULES:,}, or "
            "None for no limit"
        )
    return value


def _limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_HOLDERS:
        raise UsageError(
            f"limit={value!r}: at least 1 job must be able to hold a resource key, and at most "
            f"{MOST_HOLDERS:,} can"
        )
    return value


def _when_busy(value: Any) -> WhenBusy:
    if value not in tuple(WhenBusy):
        raise UsageError(f"when_busy={value!r}: use one of {', '.join(WhenBusy)}")
    return WhenBusy(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "queue": lambda value: check_name("queue", value),
    "priority": check_priority,
    "retry": _retry,
    "timeout": _seconds("timeout", "no timeout"),
    "resource": lambda value: None if value is None else check_key("resource", value),
    "limit": _limit,
    "when_busy": _when_busy,
    "unique": lambda value: None if value is None else check_key("unique", value),
    "unique_for": lambda value: wait("unique_for", value),
    "secret": _secret,
    "expires": _seconds("expires", "a job that never expires"),
    "deadline": _seconds("deadline", "no deadline"),
    "max_reschedules": _max_reschedules,
    "metadata": check_metadata,
}
