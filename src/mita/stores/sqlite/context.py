"""What a verb works with: the connection, the statements, the moment, and whom to wake
afterwards."""

import sqlite3
from collections.abc import Iterable, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

import msgspec

from mita.model.time import Moment

from .statements import Statements

_to_json = msgspec.json.Encoder().encode


def as_json(values: Iterable[Any]) -> str:
    """A list for `json_each`: one statement for all of them instead of one each."""
    return _to_json(list(values)).decode()


# Text from the file. What is not UTF-8 keeps its bytes as half characters, which no statement
# takes.
as_text = methodcaller("decode", "utf-8", "surrogateescape")


def is_text(row: Sequence[Any]) -> bool:
    """Whether all of these are texts that a statement takes."""
    return all(
        isinstance(value, str) and (value.isascii() or _can_be_written(value)) for value in row
    )


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Tx:
    """One call inside a transaction. `now` is the store's clock, read once, after the lock was
    had."""

    __slots__ = ("connection", "now", "path", "sql", "topics")

    def __init__(
        self, connection: sqlite3.Connection, path: Path, sql: Statements, now: Moment
    ) -> None:
        self.connection = connection
        self.path = path
        self.sql = sql
        self.now = now
        self.topics: set[str] = set()

    def run(self, name: str, /, **values: Any) -> int:
        """Run a statement; how many rows it changed."""
        return self.connection.execute(self.sql[name], values).rowcount

    def row(self, name: str, /, **values: Any) -> Any:
        return self.connection.execute(self.sql[name], values).fetchone()

    def rows(self, name: str, /, **values: Any) -> list[Any]:
        return self.connection.execute(self.sql[name], values).fetchall()

    def one(self, name: str, /, **values: Any) -> Any:
        """The single value of a statement that gives one row."""
        [value] = self.connection.execute(self.sql[name], values).fetchone()
        return value

    def run_over(self, name: str, rows: Sequence[Sequence[Any]], shared: Sequence[Any] = ()) -> int:
        """Run a statement over many rows of values, after those that all of them share; how many
        rows it changed."""
        return sum(
            self.connection.execute(text, values).rowcount
            for text, values in self.sql.over(name, rows, shared)
        )

    def texts_over(self, name: str, rows: Sequence[Sequence[Any]]) -> list[str]:
        """Run a statement that answers with one text over many rows of values."""
        return [
            self.connection.execute(text, values).fetchone()[0]
            for text, values in self.sql.over(name, rows)
        ]
