"""Tables and marked parts of a page in Markdown."""

from collections.abc import Iterable, Mapping


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """The first column to the left, the others to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def filled(text: str, parts: Mapping[str, str]) -> str:
    """The page with each part put between its markers. A page need not have all markers."""
    for name, part in parts.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if mark and end:
            text = f"{before}{mark}{part}\n{end}{after}"
    return text
