"""Garbage in the tables of a PostgreSQL schema, as far as their types take it."""

import random
from collections.abc import Sequence
from typing import Any

import psycopg

from tests.stores.postgres.shared import server

from .harness import ROLES, Broken, Case, some

DEEP = b"\x81" * 2000  # a map inside a map inside a map …
VALUES: dict[str, tuple[Any, ...]] = {
    "bigint": (-1, 2**63 - 1, -(2**63), 253_402_300_800_000, None),
    "integer": (-1, 2**31 - 1, -(2**31), None),
    "text": ("", "explode", "\u202e\x1b[31m", None),
    "bytea": (b"", b"\xff\xfe", b"\x81", DEEP, None),
    "ARRAY": (["garbage"], ["[1"], ["[]"] * 60, [None], None),
    "jsonb": ("5", "[]", '{"x": 5}', '[-1, 1e30, "x"]', None),
}
OTHERS = {
    "_repeat": ("repeat", "key"),
    "_worker": ("worker", "id"),
    "_hold": ("hold", "key"),
    "_unique": ("unique", "key"),
    "_lock": ("lock", "name"),
    "_memo": ("once value", "name"),
    "_told": ("message", "seq"),
    "_key": ("key", "key"),
    "_key_holder": ("holder", "key"),
    "_queue_limit": ("limit", "queue"),
    "_turn": ("turn", "queue"),
}


class PostgresLayout:
    identity = frozenset({"id"})

    def __init__(self, url: str, seed: int | None = None) -> None:
        self._space = url.rpartition("namespace=")[2]
        self._chance = None if seed is None else random.Random(seed)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(server("pg18").url(), autocommit=True)

    def _cases(
        self, table: str, name: str, turn: int, leave: Sequence[str] = ("seq",)
    ) -> list[Case]:
        columns = (
            "select column_name, data_type from information_schema.columns where "
            "table_schema = %s and table_name = %s"
        )
        with self._connect() as connection:
            found = connection.execute(columns, (self._space, table)).fetchall()
        many = 2 if self._chance is None else 10
        return [
            Case(name, column, value)
            for at, (column, kind) in enumerate(found, turn)
            if column not in leave
            for value in some(self._values(kind), many, at)
        ]

    def _values(self, kind: str) -> tuple[Any, ...]:
        if self._chance is None:
            return VALUES[kind]
        more = {
            "bigint": self._chance.randint(-(2**63), 2**63 - 1),
            "integer": self._chance.randint(-(2**31), 2**31 - 1),
            "bytea": self._chance.randbytes(20),
            "ARRAY": [str(self._chance.random())],
        }
        return (*VALUES[kind], more[kind]) if kind in more else VALUES[kind]

    def job_cases(self, role: str) -> list[Case]:
        return self._cases("_job", "job", ROLES.index(role), ("seq", "state"))

    def other_cases(self) -> list[Case]:
        return [case for table, (name, _) in OTHERS.items() for case in self._cases(table, name, 0)]

    async def spoil(self, broken: Sequence[Broken]) -> list[Broken]:
        with self._connect() as connection:
            return [one for one in broken if self._set(connection, "_job", one.case, "id", one.id)]

    async def spoil_others(self, cases: Sequence[Case], ids: Sequence[str]) -> None:
        tables = {name: (table, by) for table, (name, by) in OTHERS.items()}
        messages = 0
        with self._connect() as connection:
            for n, case in enumerate(cases):
                table, by = tables[case.record]
                messages += case.record == "message"
                self._set(
                    connection,
                    table,
                    case,
                    by,
                    messages if case.record == "message" else f"{case.record}{n}",
                )

    def _set(
        self, connection: psycopg.Connection[Any], table: str, case: Case, by: str, name: Any
    ) -> bool:
        statement = f'update "{self._space}".{table} set {case.field} = %s where {by} = %s'
        try:
            connection.execute(statement, (case.value, name))
        except (psycopg.errors.IntegrityError, psycopg.errors.GeneratedAlways):
            # the table itself does not take it
            return False
        return True
