"""Links between the pages of the documentation, and to their headings, lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

from .pages import PAGES, ROOT

OTHER_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "tests/README.md", "benchmarks/README.md")
LINKED = [*PAGES, *(ROOT / name for name in OTHER_PAGES)]
_INLINE = r"\]\((?!https?://)([^)#]*)#?([^)]*)\)"
_REFERENCE = r"^\[[^\]]+\]: (?!https?://)([^\s#]*)#?(\S*)$"


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Each linked file, and the anchor in it (empty if there is none)."""
    for pattern in (_INLINE, _REFERENCE):
        for target, anchor in re.findall(pattern, page.read_text(), re.MULTILINE):
            yield (page.parent / target if target else page), anchor


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made from the words of each heading."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_linked_file_exists() -> None:
    broken = [
        f"{page.name}: {file}" for page in LINKED for file, _ in links(page) if not file.exists()
    ]
    assert broken == []


def test_every_linked_heading_exists() -> None:
    broken = [
        f"{page.name}: {file.name}#{anchor}"
        for page in LINKED
        for file, anchor in links(page)
        if anchor and anchor not in anchors(file)
    ]
    assert broken == []


def test_every_reference_is_defined() -> None:
    """`[word]` in the changelog needs a line `[word]: target` at its end."""
    text = (ROOT / "CHANGELOG.md").read_text()
    prose = re.sub(r"`[^`]*`", "", text)
    used = set(re.findall(r"\[([^\]]+)\](?![:(])", prose.replace("\n", " ")))
    defined = set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))
    assert {" ".join(name.split()) for name in used} == defined
