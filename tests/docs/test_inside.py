"""The pages about the inside name modules that exist, so that they stay true when files move."""

import re
from pathlib import Path

import pytest

from .pages import ROOT

SOURCE = ROOT / "src" / "mita"
PAGE = ROOT / "docs" / "inside" / "README.md"
PAGES = [PAGE, ROOT / "docs" / "inside" / "flows.md"]
PACKAGES = "model|rules|ports|tasks|client|engine|flows|stores|events|metrics|cli|testing"


def exists(name: str) -> bool:
    """Whether this is a module, or a function or constant of one."""
    path = SOURCE.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent.with_suffix(".py")
    return module.is_file() and re.search(rf"\b{path.name}\b", module.read_text()) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(rf"`((?:{PACKAGES})(?:\.[a-z_]+)+)`", page.read_text())
    assert named
    assert [name for name in named if not exists(name)] == []


def test_every_folder_of_the_source_is_in_the_tree() -> None:
    tree = PAGE.read_text().split("## The tree")[1].split("```")[1]
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    files = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")}
    named = set(re.findall(r"[a-z_]+(?:\.py|/)", tree))
    assert {f"{folder}/" for folder in folders} | files <= named
