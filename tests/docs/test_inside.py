"""The page about the inside names modules that exist, so that it stays true when files move."""

import re
from pathlib import Path

from .pages import ROOT

SOURCE = ROOT / "src" / "mita"
PAGE = ROOT / "docs" / "inside" / "README.md"
PACKAGES = "model|rules|ports|tasks|client|engine|stores|events|metrics|cli|testing"


def exists(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_every_module_that_the_page_names_exists() -> None:
    named = re.findall(rf"`((?:{PACKAGES})(?:\.[a-z_]+)+)`", PAGE.read_text())
    assert named
    assert [name for name in named if not exists(SOURCE.joinpath(*name.split(".")))] == []


def test_every_folder_of_the_source_is_in_the_tree() -> None:
    tree = PAGE.read_text().split("## The tree")[1].split("```")[1]
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    files = {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")}
    named = set(re.findall(r"[a-z_]+(?:\.py|/)", tree))
    assert {f"{folder}/" for folder in folders} | files <= named
