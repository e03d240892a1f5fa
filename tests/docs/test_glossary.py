"""The glossary defines every public class and type alias of `model/` and `ports/`, no others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .pages import ROOT

PAGE = ROOT / "docs" / "glossary.md"
PACKAGES = ("model", "ports")


def defined_in(module: Path) -> Iterator[str]:
    """The public classes and type aliases at the top level of a module."""
    for node in ast.parse(module.read_text()).body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name


def nouns() -> set[str]:
    modules = [
        module for package in PACKAGES for module in (ROOT / "src" / "mita" / package).rglob("*.py")
    ]
    return {name for module in modules for name in defined_in(module) if not name.startswith("_")}


def entries() -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)


def test_every_noun_has_an_entry() -> None:
    assert sorted(nouns() - set(entries())) == []


def test_every_entry_is_a_noun_of_today() -> None:
    assert sorted(set(entries()) - nouns()) == []


def test_no_noun_has_two_entries() -> None:
    assert sorted({entry for entry in entries() if entries().count(entry) > 1}) == []
