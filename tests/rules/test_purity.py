"""Rules ask the world nothing: no clock, no chance, no I/O, no await."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mita.rules

FILES = sorted(Path(mita.rules.__path__[0]).glob("*.py"))
WORLDLY = {
    "asyncio",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
    "uuid",
}
ASKS_THE_CLOCK = {"now", "utcnow", "today", "time", "monotonic", "perf_counter"}


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id in {"datetime", "date", "time"}:
                yield node.func.attr


def test_there_are_rules() -> None:
    assert len(FILES) > 8


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rules_ask_the_world_nothing(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    named = set(imports(tree))
    assert not {name.split(".")[0] for name in named} & WORLDLY
    assert all(
        name.split(".")[1] in {"rules", "model", "errors", "printable"}
        for name in named
        if name.startswith("mita.")
    )
    assert not set(calls(tree)) & ASKS_THE_CLOCK
    assert not any(
        isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global) for node in ast.walk(tree)
    )
    assert not any(
        isinstance(node, ast.Name) and node.id in {"open", "print", "input"}
        for node in ast.walk(tree)
    )
