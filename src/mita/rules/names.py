"""Names that become part of keys, subjects and URLs: checked once, when they come in."""

import re
from collections.abc import Iterable
from string import Formatter
from typing import Any

from mita.errors import UsageError
from mita.model.event import Kind

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_SPACE = re.compile(r"[a-z][a-z0-9_]{0,39}")
MOST_KEY_CHARACTERS = 250


def check_name(what: str, name: str) -> str:
    """Returns the name of a queue, task or repeat. Raises UsageError unless it has only letters,
    digits and `_ . : -`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{what} {name!r} is not a usable name: use 1 to 128 of A-Z a-z 0-9 _ . : - and "
            "begin with a letter or a digit"
        )
    return name


def check_namespace(name: str) -> str:
    """Returns the namespace. Raises UsageError if it is not usable."""
    if not _SPACE.fullmatch(name):
        raise UsageError(
            f"namespace {name!r} is not usable: use up to 40 of a-z 0-9 _ and begin with a letter, "
            "for example ?namespace=shop"
        )
    return name


def check_kinds(kinds: Iterable[str] | None) -> frozenset[Kind]:
    """Returns the kinds of events to listen to; None means all. `missed` is always among them."""
    known = {kind.value: kind for kind in Kind}
    if kinds is None:
        return frozenset(known.values())
    if isinstance(kinds, str):
        raise UsageError(f"kinds={kinds!r}: give a list, [{kinds!r}]")
    wanted = list(kinds)
    if wrong := [kind for kind in wanted if kind not in known]:
        raise UsageError(
            f"kinds={wanted!r}: there is no {wrong[0]!r}; there are {', '.join(known)}"
        )
    return frozenset({Kind.MISSED, *(known[kind] for kind in wanted)})


def check_key(what: str, key: str) -> str:
    """Returns a resource or unique key. Raises UsageError unless it is printable text that is not
    too long."""
    most = MOST_KEY_CHARACTERS
    if not isinstance(key, str) or not 0 < len(key) <= most or not key.isprintable():
        raise UsageError(
            f"{what} key {key!r} is not usable: it must be 1 to {most} printable characters"
        )
    return key


def check_template(
    what: str, template: str, parameters: tuple[str, ...], secret: tuple[str, ...] = ()
) -> None:
    """Raise a `UsageError` unless a template like `account:{account_id}` names only parameters of
    the task, and none that is secret: keys are shown."""
    try:
        fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise UsageError(f"{what}={template!r} cannot be read: {error}") from error
    for field in fields:
        parameter = re.split(r"[.\[]", field, maxsplit=1)[0]
        if parameter not in parameters:
            known = ", ".join(parameters) or "none"
            raise UsageError(
                f"{what}={template!r} names {field!r}, which is not a parameter of the task "
                f"({known})"
            )
        if parameter in secret:
            raise UsageError(
                f"{what}={template!r} would show {parameter!r}, an argument that is secret: make "
                "the key of another one, "
                "and if only some are secret name those, for example secret=['password']"
            )


def fill(what: str, template: str, arguments: dict[str, Any]) -> str:
    """Returns the key of one job."""
    if "{" not in template and "}" not in template:
        return check_key(what, template)
    try:
        return check_key(what, template.format_map(arguments))
    except (LookupError, AttributeError, ValueError) as error:
        raise UsageError(f"{what}={template!r} does not fit the arguments: {error}") from error
