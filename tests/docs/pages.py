"""The pages of the documentation, and the code in them."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_RUN = ("python", "console", "sh")  # kinds of blocks that a reader types or saves


class Block(Struct, frozen=True):
    """One block of code. `line` is the page's line on which the code begins; `before` is the prose
    between the block before and this one."""

    kind: str
    text: str
    line: int = 1
    title: str = ""
    before: str = ""

    @property
    def file(self) -> str | None:
        """The file into which the reader saves the block; None: it is typed."""
        name = self.title.removeprefix("add to ")
        return name if re.fullmatch(r"[\w./-]+\.\w+|Dockerfile", name) else None

    @property
    def added(self) -> bool:
        """Whether the reader adds the block to the end of a file."""
        return self.title.startswith("add to ")

    @property
    def terminal(self) -> str | None:
        """The terminal in which the block is typed: `Terminal 1`."""
        found = re.match(r"Terminal \d", self.title)
        return found[0] if found else None


def all_blocks(page: Path) -> Iterator[Block]:
    """Every block of a page, of any kind."""
    text, end = page.read_text(), 0
    for match in _BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 2
        yield Block(match[1], match[3], line, match[2] or "", text[end : match.start()])
        end = match.end()


def blocks(page: Path) -> Iterator[Block]:
    """The blocks that a reader types, or saves as a file."""
    for block in all_blocks(page):
        if block.title or block.kind in _RUN:
            yield block


def is_followed(page: Path) -> bool:
    """Whether the blocks of a page say into which file or terminal they go."""
    return any(block.title for block in blocks(page))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))
