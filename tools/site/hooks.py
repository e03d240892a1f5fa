"""What MkDocs does for Mita beyond its configuration.

- Pages that are kept outside `docs` belong to the site, too: README.md is its home page, and each
  folder of `examples` has a page.
- A link to another file of the repository becomes a link to a copy of that file.
- A diagram becomes a table: the theme would fetch the program that draws it from another server.
- A page that `mkdocs.yml` does not name is added to the end of the part of its folder.
- The reference has a section for each module of `mita.contrib`, for each name of `mita.testing`,
  and for each public name of `mita` that no page names.

MkDocs calls the functions whose names begin with `on_`."""

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
# pages outside `docs`, and where the site has them
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "inside/contributing.md",
    "CHANGELOG.md": "inside/changes.md",
    "tests/README.md": "inside/tests.md",
    "benchmarks/README.md": "inside/benchmarks.md",
    "examples/README.md": "examples/index.md",
}
# the part of the navigation to which the pages of a folder belong
PARTS = {
    "tutorial": "Tutorial",
    "guide": "How-to guides",
    "reference": "Reference",
    "concepts": "Explanation",
    "inside": "Inside",
    "examples": "How-to guides",
}
_LINK = re.compile(
    r"(?P<text>\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<to>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)"
)
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(r"^(\[[^\]]+\]: )([^\s#]*)(#\S*)?$", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


@cache
def outside() -> dict[str, str]:
    """The pages outside `docs`, and where the site has them."""
    examples = sorted((ROOT / "examples").glob("*/README.md"))
    names = [page.parent.name for page in examples]
    return OUTSIDE | {f"examples/{name}/README.md": f"examples/{name}.md" for name in names}


def on_config(config: Any) -> Any:
    """Add the pages that the navigation does not name."""
    named = set(_pages(config.nav))
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    for path in sorted([*(page.as_posix() for page in pages), *outside().values()]):
        if path not in named:
            _part(config.nav, PARTS.get(path.split("/")[0], "Explanation")).append(path)
    return config


def _part(nav: list[Any], title: str) -> list[Any]:
    for entry in nav:
        if isinstance(entry, dict) and title in entry:
            part: list[Any] = entry[title]
            return part
    raise KeyError(f"mkdocs.yml: the navigation has no part {title!r}")


def _pages(nav: Any) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case list():
            for entry in nav:
                yield from _pages(entry)
        case dict():
            for entry in nav.values():
                yield from _pages(entry)


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages outside `docs`, and copies of the files that pages link to."""
    for path, place in outside().items():
        text = _moved((ROOT / path).read_text(), path, place)
        files.append(File.generated(config, place, content=text))
    texts = {path: (ROOT / path).read_text() for path in outside()}
    for page in (ROOT / "docs").rglob("*.md"):
        texts[page.relative_to(ROOT).as_posix()] = page.read_text()
    for path in sorted({copied for page, text in texts.items() for copied in _copied(text, page)}):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Lead the links that leave `docs` to where the site has these files."""
    del config, files
    path: str = page.file.src_uri
    markdown = _DIAGRAM.sub(lambda found: _table(found[1]), markdown)
    if path in ADDED:
        markdown += "".join(f"\n\n::: {name}\n" for name in ADDED[path]())
    return markdown if path in outside().values() else _moved(markdown, f"docs/{path}", path)


def _table(diagram: str) -> str:
    """The arrows of a diagram as a table, one row for each state with what it can become."""
    arrows: dict[str, dict[str, list[str]]] = {}
    for begin, end, label in re.findall(r"^ *(\S+) --> (\S+): (.*)$", diagram, re.MULTILINE):
        arrows.setdefault(begin, {}).setdefault(end, []).append(label)
    rows = [
        f"| {_state(begin)} | {_state(end)} | {', '.join(labels)} |"
        for begin, ends in arrows.items()
        for end, labels in ends.items()
    ]
    return "\n".join(["| from | to | by |", "| --- | --- | --- |", *rows])


def _state(name: str) -> str:
    return "" if name == "[*]" else f"`{name}`"


def contrib_modules() -> list[str]:
    """The names of the public modules of `mita.contrib`."""
    folder = ROOT / "src" / "mita" / "contrib"
    found = {path.stem for path in folder.glob("*.py")}
    found |= {path.parent.name for path in folder.glob("*/__init__.py")}
    return sorted(f"mita.contrib.{name}" for name in found if not name.startswith("_"))


def other_names() -> list[str]:
    """The public names of `mita` that no page of the reference names."""
    module = (ROOT / "src" / "mita" / "__init__.py").read_text()
    public = re.findall(r'^    "(\w+)",$', module.partition("__all__")[2], re.MULTILINE)
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    named = re.findall(r"^::: mita\.(\w+)$", pages, re.MULTILINE)
    return [f"mita.{name}" for name in public if name not in named]


def testing_names() -> list[str]:
    """The public names of `mita.testing`."""
    module = (ROOT / "src" / "mita" / "testing" / "__init__.py").read_text()
    names = re.findall(r"import \w+ as (\w+)$", module, re.MULTILINE)
    return [f"mita.testing.{name}" for name in names]


ADDED = {
    "reference/contrib.md": contrib_modules,
    "reference/testing.md": testing_names,
    "reference/records.md": other_names,
}


def _copied(text: str, page: str) -> Iterator[str]:
    for match in _LINK.finditer(_CODE.sub("", text)):
        path = _of_repository(match[2], page)
        if path and _place(path) == f"files/{path}":
            yield path


def _moved(text: str, page: str, place: str) -> str:
    """The text of a page of the repository, with links as they are at this place of the site."""

    def inline(match: re.Match[str]) -> str:
        to = _link(match[2], page, place)
        return (
            match["text"][1:-1] if to is None else f"{match['text']}({to}{match['anchor'] or ''})"
        )

    def reference(match: re.Match[str]) -> str:
        return f"{match[1]}{_link(match[2], page, place) or '#'}{match[3] or ''}"

    parts = _CODE.split(text)  # every second part is code
    for number in range(0, len(parts), 2):
        parts[number] = _REFERENCE.sub(reference, parts[number])
    # the text of a link may hold code, so links are looked for in the prose and inline code
    whole = "".join(parts)
    fences = re.split(r"(^```.*?^```$)", whole, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if number % 2 else _LINK.sub(inline, part) for number, part in enumerate(fences)
    )


def _link(to: str, page: str, place: str) -> str | None:
    """A link of this page from its place in the site; None if the site does not have the target."""
    path = _of_repository(to, page)
    if path is None:
        return to
    target = _place(path)
    return None if target is None else posixpath.relpath(target, posixpath.dirname(place))


def _of_repository(to: str, page: str) -> str | None:
    """The path in the repository to which a link of this page leads; None: it leads elsewhere."""
    if not to or re.match(r"[a-z]+:", to):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), to))


def _place(path: str) -> str | None:
    """Where the site has this file; None if it does not have it."""
    if path in outside():
        return outside()[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if (ROOT / path).is_file() else None
