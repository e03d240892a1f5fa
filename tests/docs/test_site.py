"""The site can be built: its navigation, and the directives from which the reference is made.
`make docs` builds it; these tests need no MkDocs and take no time."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.site import check

import mita

from .pages import ROOT

DOCS = ROOT / "docs"
HOOKS = (ROOT / "tools" / "site" / "hooks.py").read_text()
OUTSIDE = set(re.findall(r'^    "[\w/]+\.md": "([\w/]+\.md)",$', HOOKS, re.MULTILINE))
PARTS = ["Home", "Tutorial", "How-to guides", "Reference", "Explanation", "Inside"]


def settings() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    return found


def named(nav: Any) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case list():
            for entry in nav:
                yield from named(entry)
        case dict():
            for entry in nav.values():
                yield from named(entry)


def directives() -> list[str]:
    pages = (DOCS / "reference").glob("*.md")
    return [
        name
        for page in pages
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    ]


def test_the_navigation_has_four_parts_and_one_for_contributors() -> None:
    assert [next(iter(part)) for part in settings()["nav"]] == PARTS


def test_the_navigation_names_pages_that_exist_once_each() -> None:
    pages = Counter(named(settings()["nav"]))
    assert [page for page in pages if not (DOCS / page).is_file() and page not in OUTSIDE] == []
    assert [page for page, times in pages.items() if times > 1] == []
    assert set(pages) >= OUTSIDE


def test_nothing_is_fetched_from_another_server() -> None:
    assert settings()["theme"]["font"] is False
    assert "mermaid" not in str(settings()["markdown_extensions"])  # the theme would fetch it


def test_the_reference_names_public_names_once_each() -> None:
    """A public name that no page names is added to one by `tools/site/hooks.py`."""
    ours = Counter(name for name in directives() if name.count(".") == 1 and name != "mita.testing")
    assert set(ours) <= {f"mita.{name}" for name in mita.__all__}
    assert [name for name, times in ours.items() if times > 1] == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="b.html">', "links to b.html, which is not in the site"),
        ('<a href="#x">', "that page has no such heading"),
        ('<script src="https://example.org/x.js">', "from another server"),
        ('<h1 id="y"><a href="index.html#y">', None),
    ],
)
def test_a_mistake_in_a_built_page_is_found(tmp_path: Path, body: str, said: str | None) -> None:
    (tmp_path / "index.html").write_text(body)
    found = list(check.mistakes(tmp_path))
    assert (said is None and not found) or (said is not None and said in found[0])
