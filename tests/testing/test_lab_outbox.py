"""An app with an outbox in a lab: rows of committed transactions are sent before jobs are run."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mita import Mita, UsageError
from mita.contrib.outbox import Outbox, create_statements
from mita.testing import lab

TABLE = "mita_outbox"


class Shop:
    def __init__(self, file: Path) -> None:
        self.app = app = Mita("sqlite:///never-opened.db", outbox=Outbox(f"sqlite:///{file}"))
        self.ran: list[int] = []

        @app.task(name="mail")
        def mail(order: int) -> None:
            self.ran.append(order)

        self.mail = mail


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def connection(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file)) as connection:
        for statement in create_statements("sqlite"):
            connection.execute(statement)
        connection.commit()
        yield connection


def rows(connection: sqlite3.Connection) -> list[Any]:
    return connection.execute(f"select outbox from {TABLE} order by seq").fetchall()


def test_a_job_runs_exactly_if_its_transaction_commits(
    file: Path, connection: sqlite3.Connection
) -> None:
    shop = Shop(file)
    with lab(shop.app) as it:
        connection.execute("begin")
        shop.mail.using(connection).enqueue_sync(1)
        connection.rollback()
        connection.execute("begin")
        shop.mail.using(connection).enqueue_sync(2)
        assert it.drain_sync() == 0
        connection.commit()
        it.assert_enqueued(shop.mail, 2, count=1)
        assert it.drain_sync() == 1
        connection.execute("begin")
        shop.mail.using(connection).after(60).enqueue_sync(3)
        connection.commit()
        assert it.advance_sync(59) == 0
        assert it.advance_sync(60) == 1
    assert shop.ran == [2, 3]
    assert rows(connection) == []


async def test_the_lab_relays_only_its_own_rows_and_leaves_none(
    file: Path, connection: sqlite3.Connection
) -> None:
    """A real row, for example of the developer's own application, stays where it is."""
    shop = Shop(file)
    connection.execute("begin")
    shop.mail.using(connection).enqueue_sync(1)
    connection.commit()
    async with lab(shop.app) as it:
        assert await it.drain() == 0
        connection.execute("begin")
        shop.mail.using(connection).enqueue_sync(2)
        connection.commit()
        [real, ours] = rows(connection)
        assert real == ("mita",)
        assert ours[0].startswith("lab_")
    assert rows(connection) == [("mita",)]
    assert shop.ran == []
    assert shop.app.has_outbox


async def test_a_lab_that_writes_no_rows_needs_no_database(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "missing" / "shop.db")
    async with lab(shop.app) as it:
        await shop.mail.enqueue(1)
        assert await it.drain() == 1
    assert shop.ran == [1]


def test_a_row_that_the_store_refuses_is_the_error_of_the_test(
    file: Path, connection: sqlite3.Connection
) -> None:
    shop = Shop(file)
    with lab(shop.app) as it:
        connection.execute("begin")
        shop.mail.using(connection).enqueue_sync(1)
        connection.execute(f"update {TABLE} set job = '{{}}'")
        connection.commit()
        with pytest.raises(UsageError, match="was not sent: the row cannot be read"):
            it.drain_sync()
        assert it.drain_sync() == 0
    assert rows(connection) == []
