"""What the reference shows beyond docstrings: the fields of a class, an example for each method,
and `_sync` methods in short.

mkdocstrings reads the source with griffe, which calls these extensions for each class."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from griffe import Docstring, Extension

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "examples.md"
_EXAMPLE = r"^### ([\w.]+)\n\n```python\n(.*?)^```$"
# classes from which a public class inherits methods, and under which name users know them
OWNERS = {
    "Bound": "BoundTask",
    "Bulk": "Mita",
    "Client": "Mita",
    "Composed": "Mita",
    "DurableJob": "Job",
    "FlowDraft": "Flow",
    "FlowJob": "Job",
    "Inspection": "Mita",
    "Observable": "Mita",
}
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


class Examples(Extension):  # type: ignore[misc]
    """Adds the example of docs/reference/examples.md, which a test runs, to each docstring."""

    def __init__(self) -> None:
        super().__init__()
        self._examples = dict(re.findall(_EXAMPLE, PAGE.read_text(), re.MULTILINE | re.DOTALL))

    def on_class(self, *, cls: Any, **kwargs: Any) -> None:
        """Called for each class, with all of its members."""
        del kwargs
        owner = OWNERS.get(cls.name, cls.name)
        if owner == cls.name:
            self._show(cls, owner)
        for name, member in cls.members.items():
            if not member.is_alias and (member.is_function or member.is_attribute):
                self._show(member, f"{owner}.{name}")

    def on_function(self, *, func: Any, **kwargs: Any) -> None:
        """Called for each function."""
        del kwargs
        if func.parent is not None and func.parent.is_module:
            self._show(func, func.name)

    def _show(self, target: Any, label: str) -> None:
        code = self._examples.get(label) or self._examples.get(f"testing.{label}")
        if code is not None and target.path.startswith("mita."):
            _say(target, f"For example:\n\n```python\n{code}```")


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
