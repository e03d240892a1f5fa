"""Values as Lua spells them."""

from typing import Any

# words that Lua does not allow as the name of a field, where a job may have one
_KEYWORDS = {"and", "do", "end", "for", "function", "if", "in", "not", "or", "repeat", "until"}


def as_lua(value: Any) -> str:
    """A number, a text, a boolean, a list or a dict of such values as Lua spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, dict):
        pairs = (f"{_key(name)} = {as_lua(one)}" for name, one in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "{ " + ", ".join(map(as_lua, value)) + " }"
    raise TypeError(f"{value!r} cannot be written in Lua")


def member(table: str, name: str) -> str:
    """A field of a table: `r.task`, or `r['repeat']`."""
    return f"{table}['{name}']" if name in _KEYWORDS else f"{table}.{name}"


def _key(name: str) -> str:
    return name if name.isidentifier() and name not in _KEYWORDS else f"[{as_lua(name)}]"
