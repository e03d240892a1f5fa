"""The statements, one to a file in `sql/`, filled in when they are loaded."""

import re
from functools import cache
from importlib.resources import files

from .fragments import FRAGMENTS

STORE_PACKAGE = __name__.rpartition(".server.")[0]
SERVER_CLOCK = "floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
GIVEN_CLOCK = "%(now)s::bigint"  # a test passes it with the other values
# Statements that are made of two files: the first, the one that finds the jobs, and the name of the
# columns that it finds.
VARIANTS = {
    "claim": ("claim", "claim_in_line", "claim_columns"),
    "claim_mixed": ("claim", "claim_by_rank", "claim_columns"),
    "claim_limited": ("claim_limited", "claim_in_line", "decided_columns"),
    "claim_limited_mixed": ("claim_limited", "claim_by_rank", "decided_columns"),
}
_NAME = re.compile(r"\{(\w+)\}")
_NAMED_VALUE = re.compile(r"%\((\w+)\)s")


class PostgresStatements:
    """Statements by name: `statements["claim"]`. `{now}` is the server's clock, or a value that
    comes with the others."""

    def __init__(self, namespace: str, *, given_clock: bool = False) -> None:
        self.namespace = namespace
        self._clock = GIVEN_CLOCK if given_clock else SERVER_CLOCK
        self._texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self.fill(_variant(name))
        return text

    def fill(self, text: str) -> str:
        """The text without its comments, with this namespace's schema and clock and with the
        fragments that it names."""
        code = "\n".join(
            line.partition(" -- ")[0].rstrip()
            for line in text.splitlines()
            if not line.lstrip().startswith("--")
        )
        code = code.replace("mita.", f'"{self.namespace}".').replace("{now}", self._clock)
        return _NAME.sub(lambda found: FRAGMENTS[found[1]], code).strip()

    def made(self, name: str, **parts: str) -> str:
        """A statement with these parts filled in first, for a statement that is made anew for each
        call."""
        text = read("sql", f"{name}.sql")
        for part, made in parts.items():
            text = text.replace(f"{{{part}}}", made)
        return self.fill(text)


def _variant(name: str) -> str:
    if name not in VARIANTS:
        return read("sql", f"{name}.sql")
    file, part, columns = VARIANTS[name]
    candidate = _body(read("sql", f"{part}.sql")).replace("{columns}", f"{{{columns}}}")
    return read("sql", f"{file}.sql").replace("{candidate}", candidate)


def _body(text: str) -> str:
    """The text without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


@cache
def numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """The statement with `$1`, `$2` … in place of named values, and the names in that order. This
    is what asyncpg takes."""
    names = tuple(dict.fromkeys(_NAMED_VALUE.findall(text)))
    return _NAMED_VALUE.sub(lambda found: f"${names.index(found[1]) + 1}", text), names


@cache
def read(folder: str, name: str) -> str:
    """The text of one file of this store."""
    return files(STORE_PACKAGE).joinpath(folder, name).read_text(encoding="utf-8")


@cache
def migrations() -> tuple[str, ...]:
    """The names of all migrations, in order. `….pre` adds, `….post` removes."""
    names = (entry.name for entry in files(STORE_PACKAGE).joinpath("migrations").iterdir())
    return tuple(sorted(name.removesuffix(".sql") for name in names if name.endswith(".sql")))
