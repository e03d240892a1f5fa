"""Every public class and method has a docstring from which it can be used: it names each parameter,
and the errors of Mita that the method raises itself."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mita
import mita.testing
from mita import MitaError

from .pages import ROOT

ERRORS = {
    name
    for name in mita.__all__
    for kind in [getattr(mita, name)]
    if inspect.isclass(kind) and issubclass(kind, MitaError)
}


def public() -> Iterator[tuple[str, Any]]:
    """The public names of `mita` and `mita.testing`."""
    for name in mita.__all__:
        yield name, getattr(mita, name)
    for name, value in vars(mita.testing).items():
        if not name.startswith("_") and not inspect.ismodule(value):
            yield f"testing.{name}", value


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions, and the public methods that are Mita's own, each once. A `_sync` method
    has the docstring of its async twin."""
    seen: set[int] = set()
    for name, value in public():
        found = [(name, value)] if inspect.isfunction(value) else []
        if inspect.isclass(value):
            found = [
                (f"{name}.{part}", inspect.unwrap(function))
                for part in dir(value)
                if not part.startswith("_") and not part.endswith("_sync")
                for function in [_function(inspect.getattr_static(value, part))]
                if function is not None
            ]
        for label, function in found:
            if id(function) not in seen:
                seen.add(id(function))
                yield label, function


def _function(member: Any) -> Callable[..., Any] | None:
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    ours = inspect.isfunction(member) and member.__module__.startswith("mita.")
    return member if ours or hasattr(member, "__wrapped__") else None


def documentation(function: Callable[..., Any]) -> str:
    return " ".join((function.__doc__ or "").split())


def names(text: str, parameter: str) -> bool:
    """Whether the text names a parameter, in backticks."""
    return re.search(rf"`[^`]*\b{parameter}\b[^`]*`", text) is not None


def test_every_public_class_has_a_docstring() -> None:
    classes = [(name, value) for name, value in public() if inspect.isclass(value)]
    assert len(classes) > 60
    assert [name for name, value in classes if not value.__dict__.get("__doc__")] == []


METHODS = dict(methods())


def test_there_are_methods() -> None:
    assert len(METHODS) > 100


@pytest.mark.parametrize("label", METHODS)
def test_a_docstring_names_each_parameter(label: str) -> None:
    text = documentation(METHODS[label])
    assert text, f"{label} has no docstring"
    parameters = [
        name for name in inspect.signature(METHODS[label]).parameters if name not in ("self", "cls")
    ]
    missing = [name for name in parameters if not names(text, name)]
    assert not missing, f"the docstring of {label} does not name {missing}: {text}"


@pytest.mark.parametrize("label", METHODS)
def test_a_docstring_names_the_errors_that_the_method_raises_itself(label: str) -> None:
    source = textwrap.dedent(inspect.getsource(METHODS[label]))
    raised = {
        node.exc.func.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
    }
    text = documentation(METHODS[label])
    missing = {error for error in raised & ERRORS if f"`{error}`" not in text}
    assert not missing, f"the docstring of {label} does not say that it raises {missing}: {text}"


# what needs no example: plain values, what only Mita calls, and what the guides show
WITHOUT = re.compile(
    r"Abort|BulkResult|CallableTask|EnqueuedJob|Events|EventKind|FakeClock|Keyring|Relay|Scheduler"
    r"|Step\.|StoreURL|SyncEvents|Transactional|ListenerThread.put|Rate\.|Every\.|Lab.now"
    r"|Job\.(attempt|cancelled|checkpoint|complete_in|fire_time|id|metadata|outcomes|priority|queue"
    r"|reschedules|results|tags|task|token)"
    r"|Mita\.(has_outbox|kept|open_store|outbox|relay|store_factory|url|within)"
    r"|(BoundTask|Flow).using|Worker\.(put_back|running)"
)


def test_every_method_has_an_example() -> None:
    """The site shows it below the method; test_examples runs it."""
    text = (ROOT / "docs" / "reference" / "examples.md").read_text()
    shown = set(re.findall(r"^### ([\w.]+)$", text, re.MULTILINE))
    known = {*METHODS, *(name for name, _ in public())}
    assert shown - known == set()
    assert [name for name in METHODS if name not in shown and not WITHOUT.search(name)] == []


@pytest.mark.parametrize("name", ["Mita", "Tasks", "Retry", "Rate", "Key", "Every", "Cron", "All"])
def test_a_class_that_users_make_names_the_parts_that_it_takes(name: str) -> None:
    kind = getattr(mita, name)
    text = " ".join((kind.__doc__ or "").split())
    missing = [part for part in inspect.signature(kind).parameters if not names(text, part)]
    assert not missing, f"the docstring of {name} does not name {missing}: {text}"
