"""What the reference shows beyond docstrings: the fields of a class, and `_sync` methods in short.

mkdocstrings reads the source with griffe, which calls these extensions for each class."""

from collections.abc import Iterator
from typing import Any

from griffe import Docstring, Extension

SENTENCE = "From code that is not async: `{name}`, with the same parameters."


class SyncTwins(Extension):  # type: ignore[misc]
    """Takes `pause_sync` out of a class and names it at the end of the docstring of `pause`."""

    def on_class(self, *, cls: Any, **kwargs: Any) -> None:
        """Called for each class, with all of its members."""
        del kwargs
        for name in [name for name in cls.members if name.endswith("_sync")]:
            method = cls.members.get(name.removesuffix("_sync"))
            if method is not None and method.is_function:
                _say(method, SENTENCE.format(name=name))
                del cls.members[name]


class Fields(Extension):  # type: ignore[misc]
    """Adds a table of its fields to the docstring of a class that has no `__init__` of its own:
    a struct, a typed dictionary, a named tuple, or an enumeration with its values."""

    def on_class(self, *, cls: Any, **kwargs: Any) -> None:
        """Called for each class, with all of its members."""
        del kwargs
        if cls.name.startswith("_") or "__init__" in cls.members:
            return
        fields = [member for member in cls.members.values() if _is_field(member)]
        if not fields:
            return
        rows = list(_values(fields) if all(not f.annotation for f in fields) else _types(fields))
        _say(cls, "\n".join(rows))
        for field in fields:
            field.docstring = None  # the table has it: no entry of its own


def _say(target: Any, said: str) -> None:
    text = target.docstring.value if target.docstring else ""
    if said not in text:
        target.docstring = Docstring(f"{text}\n\n{said}".strip(), parent=target)


def _is_field(member: Any) -> bool:
    if member.is_alias or not member.is_attribute or member.name.startswith("_"):
        return False
    return "property" not in member.labels and (member.annotation or member.value is not None)


def _types(fields: list[Any]) -> Iterator[str]:
    explained = any(field.docstring for field in fields)
    yield f"| field | type | default |{' meaning |' if explained else ''}"
    yield f"| --- | --- | --- |{' --- |' if explained else ''}"
    for field in fields:
        meaning = " ".join(field.docstring.value.split()) if field.docstring else ""
        row = f"| `{field.name}` | {_code(field.annotation)} | {_code(field.value)} |"
        yield f"{row} {meaning.replace('|', '&#124;')} |" if explained else row


def _values(fields: list[Any]) -> Iterator[str]:
    yield "| member | value |"
    yield "| --- | --- |"
    for field in fields:
        yield f"| `{field.name}` | {_code(field.value)} |"


def _code(expression: Any) -> str:
    # a bar inside a table would end the cell, in code, too
    return "" if expression is None else f"<code>{_escaped(str(expression))}</code>"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")
