"""The statements, one to a file in `sql/`, with the tables of one namespace put in."""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any

ROWS = "{rows}"
# rows in one statement; smaller powers of two make up the rest, so few statements are ever prepared
CHUNK = 256


class Statements:
    """Statements by name: `sql["claim"]`."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = for_namespace(read("sql", f"{name}.sql"), self.namespace)
        return text

    def made(self, text: str) -> str:
        """A statement that is made in code, with the tables of this namespace."""
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = for_namespace(text, self.namespace)
        return found

    def over(
        self, name: str, rows: Sequence[Sequence[Any]], shared: Sequence[Any] = ()
    ) -> Iterator[tuple[str, list[Any]]]:
        """The statement with its `{rows}` spelled out, in as many pieces as it takes, and the
        values of each."""
        start = 0
        while start < len(rows):
            size = chunk(len(rows) - start)
            part = rows[start : start + size]
            yield self._spelled(name, size, len(part[0])), [*shared, *chain.from_iterable(part)]
            start += size

    def _spelled(self, name: str, size: int, width: int) -> str:
        key = f"{name}*{size}"
        text = self._texts.get(key)
        if text is None:
            row = f"({','.join('?' * width)})"
            text = self._texts[key] = self[name].replace(ROWS, ",".join([row] * size))
        return text


def chunk(left: int) -> int:
    return CHUNK if left >= CHUNK else 1 << (left.bit_length() - 1)


def for_namespace(text: str, namespace: str) -> str:
    """Without its comments (they may name things too), and with this namespace's tables."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return (
        code.replace("_mita_", f"_{namespace}_").replace("mita_jobs", f"{namespace}_jobs").strip()
    )


@cache
def read(folder: str, name: str) -> str:
    return files(__package__).joinpath(folder, name).read_text(encoding="utf-8")


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Number and file name of every migration, in order."""
    names = sorted(
        entry.name
        for entry in files(__package__).joinpath("migrations").iterdir()
        if entry.name.endswith(".sql")
    )
    return tuple((int(name.split("_", 1)[0]), name) for name in names)
