"""Code with transactions of its own, on PostgreSQL under the clock of the test."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from mita import Job, Mita, Retry, UsageError
from mita.testing import lab

from .stores import URLS

START = datetime(2031, 5, 1, tzinfo=UTC)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with a table of the application."""
    url = URLS["postgres"](tmp_path)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop table if exists lab_orders")
        connection.execute("create table lab_orders (id int, paid bool)")
    return url


class Orders:
    def __init__(self, url: str) -> None:
        self.app = app = Mita("memory://")

        @app.task(retry=Retry(max_retries=2, base=10))
        async def pay(job: Job, order: int, fails: bool = False) -> str | None:
            async with (
                await psycopg.AsyncConnection.connect(url) as connection,
                connection.transaction(),
            ):
                await connection.execute("update lab_orders set paid = true where id = %s", [order])
                if fails and job.attempt == 1:
                    raise ConnectionError("the bank does not answer")
                await job.complete_in(connection, f"order {order} is paid")
            return None

        @app.task
        def pay_sync(job: Job, order: int) -> None:
            with psycopg.connect(url) as connection, connection.transaction():
                connection.execute("update lab_orders set paid = true where id = %s", [order])
                job.complete_in_sync(connection, "paid")

        self.pay, self.pay_sync = pay, pay_sync


async def test_a_job_exists_exactly_if_the_transaction_commits(url: str) -> None:
    it = Orders(url)
    async with lab(it.app, url, start=START) as at:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            with pytest.raises(ZeroDivisionError):  # noqa: PT012
                async with connection.transaction():
                    await it.pay.using(connection).enqueue(1)
                    raise ZeroDivisionError
            at.assert_enqueued(it.pay, count=0)
            async with connection.transaction():
                await connection.execute("insert into lab_orders values (2, false)")
                handle = await it.pay.using(connection).after(60).enqueue(2)
                assert await at.drain() == 0
                at.assert_enqueued(it.pay, count=0)
        at.assert_enqueued(it.pay, 2, after=60, count=1)
        assert await at.advance(59.999) == 0
        assert await at.advance(0.001) == 1
        assert await handle.result() == "order 2 is paid"
        record = await handle.get()
        assert record is not None
        assert record.finished == datetime(2031, 5, 1, 0, 1, tzinfo=UTC)
    with psycopg.connect(url) as check:
        assert check.execute("select * from lab_orders").fetchall() == [(2, True)]


async def test_a_handler_that_fails_in_its_transaction_is_retried(url: str) -> None:
    it = Orders(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into lab_orders values (3, false)")
        async with lab(it.app, url, start=START) as at:
            handle = await it.pay.enqueue(3, fails=True)
            with pytest.raises(ConnectionError, match="the bank"):
                await at.drain()
            assert connection.execute("select paid from lab_orders").fetchall() == [(False,)]
            assert await at.advance(10) == 1
            assert await handle.result() == "order 3 is paid"
        assert connection.execute("select paid from lab_orders").fetchall() == [(True,)]


def test_sync_code_with_its_own_transaction(url: str) -> None:
    it = Orders(url)
    with lab(it.app, url) as at:
        with psycopg.connect(url) as connection:
            with connection.transaction():
                connection.execute("insert into lab_orders values (4, false)")
                handle = it.pay_sync.using(connection).enqueue_sync(4)
            assert at.drain_sync() == 1
            assert handle.result_sync() == "paid"
            assert connection.execute("select paid from lab_orders").fetchall() == [(True,)]
            connection.rollback()
        assert [job.state for job in at.enqueued(it.pay_sync)] == ["succeeded"]


def test_a_transaction_that_is_open_when_the_lab_ends_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mita.testing.own_space.REMOVE_TIMEOUT_MS", 10)
    it = Orders(url)
    with psycopg.connect(url) as connection:
        with (
            pytest.raises(UsageError, match="a transaction of the test still uses its jobs"),
            lab(it.app, url),
        ):
            it.pay_sync.using(connection).enqueue_sync(5)
        connection.rollback()
    assert str(it.app.url.scheme) == "memory"


def test_a_lab_in_memory_says_where_transactions_work() -> None:
    it = Orders("")
    with lab(it.app), pytest.raises(UsageError, match="only postgresql:// can"):
        it.pay_sync.using(object()).enqueue_sync(1)
