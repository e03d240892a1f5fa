"""The types of command line arguments: from text to values."""

import argparse
import re
from datetime import datetime
from pathlib import PurePath
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from mita.errors import UsageError
from mita.project import read_duration

if TYPE_CHECKING:  # `mita --help` needs neither
    from mita.model.limits import Rate
    from mita.tasks import Task

NO_GROUP = "none"  # how `--group` names failed jobs without a group
_RATE = re.compile(r"(\d+)/(.+)")
_PERIODS = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "hour": 3600.0}
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def moment(text: str) -> datetime:
    """Parse an ISO time with its zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write 2030-01-31T09:00:00Z, or with +02:00 for the zone; "
            "for a delay use --after 10m"
        ) from None
    if at.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} has no time zone: end it with Z for UTC, or with an offset as +02:00"
        )
    return at


def duration(text: str) -> float:
    """Parse seconds, or numbers with units: `90`, `1h30m`, `2d`."""
    try:
        return read_duration(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def rate(text: str) -> "Rate":
    """Parse `100/s`, `60/m` or `5/10s`: so many starts in this time."""
    from mita.model.limits import Rate

    found = _RATE.fullmatch(text.replace(" ", ""))
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a rate: write a number per time, for example 100/s, 60/m or 5/10s"
        )
    starts, period = found.groups()
    if period in ("m", "h", "d", "w"):
        period = f"1{period}"
    try:
        return Rate(int(starts), per=_PERIODS.get(period) or duration(period))
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate: {error}") from None


def names(text: str) -> list[str]:
    """Parse `a,b,c`."""
    return [name.strip() for name in text.split(",")]


def count(text: str) -> int:
    """Parse a whole number, 1 or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number, 1 or more")
    return int(text)


def port(text: str) -> int:
    """Parse the number of a port; 0: any free one."""
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r}: give a port, from 0 (any free one) to 65535")
    return int(text)


def failure_group(text: str) -> str:
    """Parse the group of failed jobs; `none` means those without one."""
    return "" if text == NO_GROUP else text.lower()


def arguments(
    task: "Task[Any, Any]", words: list[str], packed: str | None
) -> tuple[list[Any], dict[str, Any]]:
    """Return what a task is called with: `NAME=VALUE` by name, other words by position. A word is
    used as it is where the task takes text; elsewhere it is read as JSON if possible. `packed` is
    all of them as one JSON list or object."""
    named = [found for word in words if (found := _NAMED.fullmatch(word))]
    positional = [word for word in words if not _NAMED.fullmatch(word)]
    names = [*task.arguments.parameters, *([""] * len(positional))]
    by_position = [_value(task, name, word) for name, word in zip(names, positional, strict=False)]
    by_name = {found[1]: _value(task, found[1], found[2]) for found in named}
    if packed is None:
        return by_position, by_name
    match _json(packed):
        case list() as more:
            return by_position + more, by_name
        case dict() as more:
            return by_position, {**more, **by_name}
    raise UsageError(
        '--args takes a JSON list or object, for example \'["Ada"]\' or \'{"name": "Ada"}\''
    )


def named_arguments(task: "Task[Any, Any] | None", words: list[str]) -> dict[str, Any]:
    """Return arguments of a task that are given as `NAME=VALUE`. A value is read as JSON if
    possible, unless the task takes text there. Without a task each value is read so."""
    found: dict[str, Any] = {}
    for word in words:
        named = _NAMED.fullmatch(word)
        if named is None:
            raise UsageError(f"{word!r} is not NAME=VALUE: write for example times=3")
        name, text = named[1], named[2]
        if name in found:
            raise UsageError(f"argument {name!r} is given twice")
        found[name] = _value(task, name, text)
    return found


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"--args is not JSON: {error}") from error


def _value(task: "Task[Any, Any] | None", name: str, word: str) -> Any:
    try:
        value = msgspec.json.decode(word)
    except msgspec.DecodeError:
        return word
    wanted = () if task is None else _text_kinds(task, name)
    return word if wanted and not isinstance(value, wanted) else value


def _text_kinds(task: "Task[Any, Any]", name: str) -> tuple[type, ...]:
    """For a parameter that takes text or a path: `str`, and the type of None if it takes None too.
    Empty for other parameters."""
    from mita.tasks.annotations import resolve

    parameter = task.arguments.signature.parameters.get(name)
    if parameter is None or parameter.annotation is parameter.empty:
        return ()
    annotation = resolve(task.fn, parameter.annotation)
    kinds = tuple(str if _is_path(kind) else kind for kind in get_args(annotation) or (annotation,))
    return kinds if str in kinds and set(kinds) <= {str, NoneType} else ()


def _is_path(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, PurePath)
