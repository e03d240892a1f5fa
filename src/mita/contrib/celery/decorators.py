"""From the options of a Celery task to those of a Mita task."""

import ast
from collections.abc import Mapping

from msgspec import Struct

# what Mita does anyway, or what it has no use for
_DROPPED = frozenset(
    {
        "acks_late",
        "acks_on_failure_or_timeout",
        "bind",
        "ignore_result",
        "reject_on_worker_lost",
        "serializer",
        "store_errors_even_if_ignored",
        "track_started",
        "trail",
    }
)
_SAME = frozenset(("name", "queue", "priority", "expires"))
_RETRY = {"max_retries": "max_retries", "default_retry_delay": "base", "retry_backoff_max": "cap"}
_ABOUT_RETRIES = {"autoretry_for", "retry_backoff", "retry_jitter"}
_PERIODS = {"s": "1", "m": "60", "h": "3600"}


class TaskOptionsFound(Struct, frozen=True):
    """The options of a Mita task as code, the names of `mita` that they need, and notes for the
    reader."""

    arguments: tuple[str, ...]
    names: frozenset[str]
    notes: tuple[str, ...]


def task_options(given: Mapping[str, str]) -> TaskOptionsFound:
    """Translate the options of a decorator, by name, as code."""
    arguments: list[str] = []
    names: set[str] = set()
    notes: list[str] = []
    retry = _retry(given, notes)
    if retry:
        arguments.append(f"retry=Retry({', '.join(retry)})")
        names.add("Retry")
    for name, code in given.items():
        if name in _SAME:
            arguments.append(f"{name}={code}")
        elif name in ("time_limit", "soft_time_limit"):
            if name == "time_limit" or "time_limit" not in given:
                arguments.append(f"timeout={code}")
        elif name == "rate_limit":
            _rate(code, arguments, names, notes)
        elif name == "dont_autoretry_for":
            arguments.append(f"final={code}")
        elif name not in _DROPPED | _RETRY.keys() | _ABOUT_RETRIES:
            notes.append(f"the option {name}={code} has no counterpart and was left out")
    return TaskOptionsFound(tuple(arguments), frozenset(names), tuple(notes))


def _retry(given: Mapping[str, str], notes: list[str]) -> list[str]:
    found = [f"{ours}={given[theirs]}" for theirs, ours in _RETRY.items() if theirs in given]
    if given.get("retry_backoff", "").isdecimal():
        found.append(f"base={given['retry_backoff']}")
    if given.get("retry_jitter") == "False":
        found.append('jitter="none"')
    errors = given.get("autoretry_for", "Exception")
    if "Exception" not in errors.replace("(", " ").replace(",", " ").split():
        notes.append(
            f"autoretry_for={errors}: Mita retries after every error. Name the errors that no "
            "retry can fix as final=(…)"
        )
    return found


def _rate(code: str, arguments: list[str], names: set[str], notes: list[str]) -> None:
    try:
        text = str(ast.literal_eval(code))
        count, _, period = text.partition("/")
        per = _PERIODS[period or "s"]
        arguments.append(f"rate=Rate({int(count)}, per={per})")
    except (ValueError, KeyError, SyntaxError):
        notes.append(f"rate_limit={code} was left out: write rate=Rate(10, per=1)")
        return
    names.add("Rate")
    notes.append("a rate holds for all workers together; in Celery it held for each worker")
