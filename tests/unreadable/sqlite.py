"""Garbage in the tables of an SQLite file, which takes any value in any column."""

import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .harness import ROLES, Broken, Case, some

NOT_UTF8 = "cast(x'41ff42' as text)"
VALUES: tuple[Any, ...] = (
    b"\xff\xfe",
    "",
    "explode",
    -1,
    1.5,
    2**63 - 1,
    -(2**63),
    float("inf"),
    NOT_UTF8,
    b"\x81" * 2000,  # a map inside a map inside a map …
)
OTHERS = {
    "_mita_repeat": "repeat",
    "_mita_worker": "worker",
    "_mita_hold": "hold",
    "_mita_unique": "unique",
    "_mita_lock": "lock",
    "_mita_queue": "queue",
    "_mita_once_value": "once value",
    "_mita_message": "message",
    "_mita_key": "key",
    "_mita_holder": "holder",
    "_mita_turn": "turn",
    "_mita_share": "share",
}
NAMED_BY = {
    "repeat": "key",
    "worker": "id",
    "hold": "key",
    "unique": "key",
    "lock": "name",
    "queue": "name",
    "once value": "name",
    "key": "key",
    "holder": "key",
    "turn": "queue",
    "share": "queue",
}


class SqliteLayout:
    identity = frozenset({"id"})

    def __init__(self, path: Path, seed: int | None = None) -> None:
        self._path = path
        self._chance = None if seed is None else random.Random(seed)

    def _columns(self, table: str) -> list[str]:
        with sqlite3.connect(self._path) as connection:
            return [row[1] for row in connection.execute(f"pragma table_info({table})")]

    def _values(self) -> Sequence[Any]:
        if self._chance is None:
            return VALUES
        return [
            *VALUES,
            self._chance.randbytes(20),
            self._chance.randint(-(2**63), 2**63 - 1),
            self._chance.random() * 1e300,
        ]

    def job_cases(self, role: str) -> list[Case]:
        columns = [
            column for column in self._columns("_mita_job") if column not in ("seq", "state")
        ]
        return self._cases("job", columns, ROLES.index(role))

    def _cases(self, record: str, columns: Sequence[str], turn: int) -> list[Case]:
        values = self._values()
        many = 3 if self._chance is None else len(values)
        return [
            Case(record, column, value)
            for at, column in enumerate(columns, turn)
            for value in some(values, many, at)
        ]

    def other_cases(self) -> list[Case]:
        return [
            case
            for table, name in OTHERS.items()
            for case in self._cases(
                name, [column for column in self._columns(table) if column != "seq"], 0
            )
        ]

    async def spoil(self, broken: Sequence[Broken]) -> list[Broken]:
        with sqlite3.connect(self._path) as connection:
            return [
                one for one in broken if self._set(connection, "_mita_job", one.case, "id", one.id)
            ]

    async def spoil_others(self, cases: Sequence[Case], ids: Sequence[str]) -> None:
        tables = {name: table for table, name in OTHERS.items()}
        with sqlite3.connect(self._path) as connection:
            messages = 0
            for n, case in enumerate(cases):
                by, name = NAMED_BY.get(case.record, "seq"), f"{case.record}{n}"
                if case.record == "message":
                    messages += 1
                self._set(
                    connection,
                    tables[case.record],
                    case,
                    by,
                    messages if case.record == "message" else name,
                )
            own = "select job, name from _mita_once_value where job != 0 order by job limit 20"
            for n, (job, name) in enumerate(connection.execute(own).fetchall()):
                field = "name" if n == len(VALUES) else "value"
                bad = Case("once value", field, VALUES[(n - 2) % len(VALUES)])
                self._set(connection, "_mita_once_value", bad, f"job = {job} and name", name)
            events = self._columns("_mita_event")
            rows = connection.execute("select job, n from _mita_event").fetchall()
            garbage = [
                Case("event", column, value)
                for column in events
                if column not in ("job", "n")
                for value in VALUES
            ]
            for (seq, n), case in zip(rows, garbage, strict=False):
                self._set(connection, "_mita_event", case, f"job = {seq} and n", n)

    @staticmethod
    def _set(connection: sqlite3.Connection, table: str, case: Case, by: str, name: Any) -> bool:
        value = NOT_UTF8 if case.value is NOT_UTF8 else ":value"
        try:
            connection.execute(
                f"update {table} set {case.field} = {value} where {by} = :name",
                {"value": case.value, "name": name},
            )
        except sqlite3.IntegrityError:  # the table itself does not take it
            return False
        return True
