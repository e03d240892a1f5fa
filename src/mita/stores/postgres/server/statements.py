"""The statements, one to a file in `sql/`, filled in when they are loaded."""

import re
from functools import cache
from importlib.resources import files

from .fragments import FRAGMENTS

STORE_PACKAGE = __name__.rpartition(".server.")[0]
SERVER_CLOCK = "floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
GIVEN_CLOCK = "%(now)s::bigint"  # a test passes it with the other values
_BEHIND_IF_OLD = "case when j.due < clock.now - {behind_ms} then nextval('mita._behind') end"
_PAUSED = "select p.name from mita._paused as p"
_PLAIN_PARTS = {
    "facts": "claim_facts_plain.sql",
    "closed": _PAUSED,
    "columns": "{claim_columns}",
    "is_free": "c.resource is null",
    "nulls": "{plain_claim_nulls}",
    "found": "{plain_claimed}",
    # whether one of these queues has holds, or ever had limits
    "has_limits": "("
    "exists (select 1 from mita._limited as l where l.queue = any (%(names)s::text::text[])) or "
    "exists (select 1 from mita._hold as h where h.queue = any (%(names)s::text::text[])))",
}
_KEYED_PARTS = _PLAIN_PARTS | {
    "facts": "claim_facts_keyed.sql",
    "columns": "{decided_columns}",
    "is_free": "c.resource is null and c.gates is null",
    "nulls": "{shown_row_nulls}",
    "found": "{shown_row}",
    # whether one of these queues has holds, a limit, or ever had fair groups
    "has_stops": "("
    "exists (select 1 from mita._hold as h where h.queue = any (%(names)s::text::text[])) or "
    "exists (select 1 from mita._queue_limit as q where q.queue = any (%(names)s::text::text[])) "
    "or exists (select 1 from mita._limited as l "
    "where l.is_fair and l.queue = any (%(names)s::text::text[])))",
}
_LIMITED_PARTS = _KEYED_PARTS | {
    "facts": "claim_facts_limited.sql",
    "closed": "{paused_queues} union all {limited_queues}",
    "paused_queues": _PAUSED,
    "limited_queues": "select q.queue from mita._queue_limit as q union all "
    "select l.queue from mita._limited as l where l.is_fair",
}
_IN_LINE, _BY_RANK = {"candidate": "claim_in_line.sql"}, {"candidate": "claim_by_rank.sql"}
# Statements that are made of one file and of parts, which are filled in before all fragments. A
# part is a text or another file.
VARIANTS = {
    "claim": ("claim", _IN_LINE | _PLAIN_PARTS),
    "claim_mixed": ("claim", _BY_RANK | _PLAIN_PARTS),
    "claim_keyed": ("claim", _IN_LINE | _KEYED_PARTS),
    "claim_keyed_mixed": ("claim", _BY_RANK | _KEYED_PARTS),
    "claim_limited": ("claim", _IN_LINE | _LIMITED_PARTS),
    "claim_limited_mixed": ("claim", _BY_RANK | _LIMITED_PARTS),
    "key_return": ("key_return", {"returned": f"j.queue, {_BEHIND_IF_OLD}"}),
    "key_show": ("key_return", {"returned": "{woken_row}"}),
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
    file, parts = VARIANTS[name]
    text = _code(f"{file}.sql")
    for placeholder, part in parts.items():
        made = _code(part) if part.endswith(".sql") else part
        text = text.replace(f"{{{placeholder}}}", made)
    return text


def _code(file: str) -> str:
    """The text of a statement without its comments."""
    lines = read("sql", file).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))


@cache
def numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with `$1`, `$2` … in place of named values, as the server takes it; and the
    names in that order."""
    names = tuple(dict.fromkeys(_NAMED_VALUE.findall(text)))
    made = _NAMED_VALUE.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return made.encode(), names


@cache
def read(folder: str, name: str) -> str:
    """The text of one file of this store."""
    return files(STORE_PACKAGE).joinpath(folder, name).read_text(encoding="utf-8")


@cache
def migrations() -> tuple[str, ...]:
    """The names of all migrations, in order. `….pre` adds, `….post` removes."""
    names = (entry.name for entry in files(STORE_PACKAGE).joinpath("migrations").iterdir())
    return tuple(sorted(name.removesuffix(".sql") for name in names if name.endswith(".sql")))
