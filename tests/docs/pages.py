"""The pages of the documentation, and the code in them."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
JOBS_FILE = "# jobs.py\n"  # a block of Python that begins so belongs into that file

_BLOCK = re.compile(r"^```(python|console|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(Struct, frozen=True):
    """One block of code. `line` is the page's line on which the code begins."""

    kind: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        yield Block(match[1], match[2], text[: match.start()].count("\n") + 2)


def needs_two_terminals(page: Path) -> bool:
    """Whether the reader keeps the tasks in a file and runs a worker beside the Python prompt."""
    return any(block.text.startswith(JOBS_FILE) for block in blocks(page))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))
