"""Jobs that are written to an outbox in the user's transaction, and sent to the store after it."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiosqlite
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from mita import Mita, UsageError
from mita.contrib.outbox import Outbox, create_sql, create_statements, drop_statements
from mita.model.outbox import RowState
from mita.ports.store import StoreFactory
from mita.stores.memory import MemoryStore
from mita.stores.memory.state.memory_state import MemoryState
from tests.stores.postgres import user_connections as postgres
from tests.stores.postgres.server import PORT
from tests.stores.postgres.shared import server
from tests.waiting import until

from . import outbox_connections as sqlite

NUMBERS = count(1)


def shop(database: Any, *, store: StoreFactory | None = None, **options: Any) -> Mita:
    """An app on a memory store with an outbox there."""
    outbox = Outbox(database, poll=0.01, **options)
    app = Mita(None if store else "memory://", store=store, outbox=outbox)

    @app.task(name="mail", resource="customer:{customer}")
    async def mail(customer: int) -> int:
        return customer

    return app


async def sqlite_shop(folder: Path, store: StoreFactory | None = None) -> Mita:
    app = shop(f"sqlite:///{folder}/shop.db", store=store)
    await app.outbox.create()
    return app


async def postgres_shop() -> Mita:
    app = shop(server("pg18").url(), name=f"test{next(NUMBERS)}")
    await app.outbox.create()
    return app


@asynccontextmanager
async def relaying(app: Mita) -> AsyncIterator[None]:
    relay = app.relay()
    running = asyncio.create_task(relay.run())
    try:
        yield
    finally:
        relay.stop()
        await running


async def sent(app: Mita) -> list[str]:
    """The ids of all jobs that are in the store when the outbox is empty."""

    async def is_empty() -> bool:
        return (await app.outbox.view()).rows == 0

    async with relaying(app):
        await until(is_empty)
    return [job.id for job in (await app.jobs()).jobs]


# -------------------------------------------------------------------- kinds of connections


async def write_sync(app: Mita, kind: Any, where: Any) -> str:
    mail = app.tasks["mail"]
    with suppress(postgres.Undo), kind(where) as connection:
        await asyncio.to_thread(lambda: None)
        mail.using(connection).enqueue_sync(1)
        raise postgres.Undo
    with kind(where) as connection:
        return mail.using(connection).enqueue_sync(2).id


async def write_async(app: Mita, kind: Any, where: Any) -> str:
    mail = app.tasks["mail"]
    with suppress(postgres.Undo):
        async with kind(where) as connection:
            await mail.using(connection).enqueue(1)
            raise postgres.Undo
    async with kind(where) as connection:
        return (await mail.using(connection).enqueue(2)).id


@pytest.mark.parametrize("kind", sqlite.SYNC_KINDS)
async def test_a_sync_sqlite_connection(kind: str, tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    id = await write_sync(app, sqlite.SYNC_KINDS[kind], tmp_path / "shop.db")
    assert await sent(app) == [id]


@pytest.mark.parametrize("kind", sqlite.ASYNC_KINDS)
async def test_an_async_sqlite_connection(kind: str, tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    id = await write_async(app, sqlite.ASYNC_KINDS[kind], tmp_path / "shop.db")
    assert await sent(app) == [id]


@pytest.mark.parametrize("kind", [kind for kind in postgres.SYNC_KINDS if kind != "django"])
async def test_a_sync_postgres_connection(kind: str) -> None:
    app = await postgres_shop()
    id = await write_sync(app, postgres.SYNC_KINDS[kind], server("pg18").url())
    assert await sent(app) == [id]


@pytest.mark.parametrize("kind", postgres.ASYNC_KINDS)
async def test_an_async_postgres_connection(kind: str) -> None:
    app = await postgres_shop()
    id = await write_async(app, postgres.ASYNC_KINDS[kind], server("pg18").url())
    assert await sent(app) == [id]


async def test_an_engine_names_its_database(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    for engine in (
        create_engine(f"sqlite:///{file}"),
        create_async_engine(f"sqlite+aiosqlite:///{file}"),
    ):
        assert Outbox(engine).shown == f"sqlite:///{file}"
    url = postgres.sqlalchemy_url("psycopg")
    outbox = Outbox(create_engine(url), name="engine")
    await outbox.create()
    assert (await outbox.view()).rows == 0


def test_djangos_connections(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.contrib.outbox_django"]
    where = [str(server("pg18").folder), str(PORT), str(tmp_path / "shop.db")]
    ran = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for found in json.loads(ran.stdout).values():
        assert "with transaction.atomic():" in found["said"]
        assert found["results"] == [1, 3]


# -------------------------------------------------------------------- wrong inputs


async def test_a_missing_table_leaves_the_transaction_usable() -> None:
    url = server("pg18").url()
    app = shop(url, name="missing")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create schema if not exists empty")
    with psycopg.connect(url) as connection:
        connection.execute("set local search_path = empty")
        with pytest.raises(UsageError, match="mita outbox create"):
            app.tasks["mail"].using(connection).enqueue_sync(1)
        assert connection.execute("select 1").fetchone() == (1,)


async def test_a_missing_table_in_sqlite_names_the_remedy(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path}/shop.db")
    with sqlite.plain(tmp_path / "shop.db") as connection:
        connection.execute("create table orders (id integer)")
        with pytest.raises(UsageError, match="mita outbox sql"):
            app.tasks["mail"].using(connection).enqueue_sync(1)
        connection.execute("insert into orders values (1)")
    with pytest.raises(UsageError, match="mita outbox create"):
        await app.outbox.view()
    [finding] = await app.outbox.doctor()
    assert finding.health.value == "bad"


async def test_autocommit_is_refused(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    with pytest.raises(UsageError, match="autocommit"):
        app.tasks["mail"].using(connection).enqueue_sync(1)
    connection.close()
    async with aiosqlite.connect(tmp_path / "shop.db", isolation_level=None) as awaited:
        with pytest.raises(UsageError, match="autocommit"):
            await app.tasks["mail"].using(awaited).enqueue(1)
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db", isolation_level="AUTOCOMMIT")
    with engine.connect() as commits, pytest.raises(UsageError, match="autocommit"):
        app.tasks["mail"].using(commits).enqueue_sync(1)
    engine.dispose()
    other = await postgres_shop()
    with (
        psycopg.connect(server("pg18").url(), autocommit=True) as on_postgres,
        pytest.raises(UsageError, match="not in a transaction"),
    ):
        other.tasks["mail"].using(on_postgres).enqueue_sync(1)
    assert (await app.outbox.view()).rows == (await other.outbox.view()).rows == 0


async def test_another_database_is_refused(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    with (
        sqlite.plain(tmp_path / "other.db") as connection,
        pytest.raises(UsageError, match=r"other\.db.*the outbox is in.*shop\.db"),
    ):
        app.tasks["mail"].using(connection).enqueue_sync(1)
    with (
        psycopg.connect(server("pg18").url()) as on_postgres,
        pytest.raises(UsageError, match="to postgresql, and the outbox is in sqlite"),
    ):
        app.tasks["mail"].using(on_postgres).enqueue_sync(1)


async def test_what_is_no_connection_is_refused(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    for wrong in (object(), "shop.db", create_engine("sqlite://"), None):
        with pytest.raises(UsageError, match="is not a connection that can be used here"):
            app.tasks["mail"].using(wrong).enqueue_sync(1)
    with (
        sqlite.plain(tmp_path / "shop.db") as connection,
        pytest.raises(UsageError, match="use enqueue_sync"),
    ):
        await app.tasks["mail"].using(connection).enqueue(1)
    async with sqlite.aiosqlite_plain(tmp_path / "shop.db") as awaited:
        with pytest.raises(UsageError, match="is async"):
            app.tasks["mail"].using(awaited).enqueue_sync(1)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"database": None}, "give a URL"),
        ({"database": "shop.db"}, "give a URL"),
        ({"database": "mysql://localhost/shop"}, "PostgreSQL or SQLite"),
        ({"database": "sqlite://"}, "in memory"),
        ({"database": 7}, "give a URL"),
        ({"database": "sqlite:///a.db", "django": "default"}, "only one"),
        ({"database": "sqlite:///a.db", "poll": 0}, "poll=0"),
        ({"database": "sqlite:///a.db", "name": "no name"}, "no name"),
    ],
)
def test_a_wrong_outbox_is_refused_at_once(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Outbox(**wrong)


async def test_an_app_without_an_outbox_says_how_to_get_one(tmp_path: Path) -> None:
    app = Mita("memory://")

    @app.task(name="mail")
    async def mail() -> None: ...

    with (
        sqlite.plain(tmp_path / "shop.db") as connection,
        pytest.raises(UsageError, match=r"outbox=Outbox\(…\)"),
    ):
        mail.using(connection).enqueue_sync()
    with pytest.raises(UsageError, match="has no outbox"):
        app.relay()
    with pytest.raises(UsageError, match="give an outbox"):
        Mita("memory://", outbox="sqlite:///shop.db")  # type: ignore[arg-type]


async def test_a_flow_is_refused_with_the_remedy(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    with (
        sqlite.plain(tmp_path / "shop.db") as connection,
        pytest.raises(UsageError, match="whose handler enqueues the flow"),
    ):
        app.chain(app.tasks["mail"].call(1)).using(connection)


def test_the_statements_can_be_run_twice_and_undone() -> None:
    connection = sqlite3.connect(":memory:")
    for statement in (*create_statements("sqlite"), *create_statements("sqlite")):
        connection.execute(statement)
    assert connection.execute("select version from mita_outbox_version").fetchall() == [(1,)]
    for statement in drop_statements():
        connection.execute(statement)
    connection.executescript(create_sql("sqlite"))
    assert connection.execute("select count(*) from mita_outbox").fetchone() == (0,)
    connection.close()
    with pytest.raises(UsageError, match="cannot be in oracle"):
        create_statements("oracle")


# -------------------------------------------------------------------- what is sent


async def test_delays_count_from_the_enqueue(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    mail = app.tasks["mail"]
    with sqlite.plain(tmp_path / "shop.db") as connection:
        late = mail.after(600).using(connection).enqueue_sync(1)
        due = mail.after(60).options(priority=8, unique="one").using(connection).enqueue_sync(2)
        connection.execute("update mita_outbox set written = written - 500000")
    assert sorted(await sent(app)) == sorted([late.id, due.id])
    [waits, over] = [await app.get(job.id) for job in (late, due)]
    assert waits is not None
    assert over is not None
    assert 60 < (waits.due - waits.created).total_seconds() <= 100
    assert over.due - over.created < over.created - waits.created + (waits.due - waits.created)
    assert (over.priority, over.unique, over.resource) == (8, "one", "customer:2")


async def test_a_twin_of_a_unique_job_is_not_made(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    mail = app.tasks["mail"].options(unique="one")
    with sqlite.plain(tmp_path / "shop.db") as connection:
        first = mail.using(connection).enqueue_sync(1)
        mail.using(connection).enqueue_sync(2)
    assert await sent(app) == [first.id]


async def test_a_debounced_job_has_the_last_arguments(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)

    @app.task(name="index", unique="index", debounce=60)
    async def index(page: int) -> None: ...

    with sqlite.plain(tmp_path / "shop.db") as connection:
        for page in range(3):
            index.using(connection).enqueue_sync(page)
    [id] = await sent(app)
    job = await app.get(id)
    assert job is not None
    assert job.arguments == {"page": 2}


async def test_an_id_that_exists_changes_nothing(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    mail = app.tasks["mail"]
    before = await mail.options(id="late").after(600).enqueue(1)
    with sqlite.plain(tmp_path / "shop.db") as connection:
        again = mail.options(id="late").using(connection).enqueue_sync(2)
        one, two = (mail.options(id="new").using(connection).enqueue_sync(n) for n in (1, 2))
    assert (again.id, one.id, two.id) == ("late", "new", "new")
    assert (one.created, two.created) == (True, False)
    assert sorted(await sent(app)) == ["late", "new"]
    record = await before.get()
    assert record is not None
    assert record.state.value == "scheduled"


async def test_a_result_is_waited_for_from_the_outbox_on(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    with sqlite.plain(tmp_path / "shop.db") as connection:
        job = app.tasks["mail"].using(connection).enqueue_sync(5)
    with pytest.raises(TimeoutError, match="in the outbox"):
        await job.result(timeout=0)
    worker = app.worker(poll=0.05)
    running = asyncio.create_task(worker.run())
    assert await job.result(timeout=30) == 5
    worker.stop()
    await running


async def test_a_worker_until_empty_runs_the_rows_too(tmp_path: Path) -> None:
    app = await sqlite_shop(tmp_path)
    with sqlite.plain(tmp_path / "shop.db") as connection:
        jobs = [app.tasks["mail"].using(connection).enqueue_sync(n) for n in range(3)]
    await app.worker(until_empty=True).run()
    assert [await job.result(timeout=0) for job in jobs] == [0, 1, 2]


# -------------------------------------------------------------------- rows that cannot be sent


async def test_a_row_that_the_store_refuses_is_parked_and_stops_no_other(tmp_path: Path) -> None:
    room, state = [3_000], MemoryState()
    app = await sqlite_shop(tmp_path, store=lambda: MemoryStore(state, room=room[0]))

    @app.task(name="big", resource="customer:1")
    async def big(text: str) -> None: ...

    with sqlite.plain(tmp_path / "shop.db") as connection:
        before = app.tasks["mail"].using(connection).enqueue_sync(1)
        refused = big.using(connection).enqueue_sync("x" * 100_000)
        after = app.tasks["mail"].using(connection).enqueue_sync(1)
        unreadable = app.tasks["mail"].using(connection).enqueue_sync(1)
        connection.execute("update mita_outbox set job = '{' where id = ?", [unreadable.id])
    assert await sent(app) == [after.id, before.id]
    parked = await app.outbox.parked(10)
    assert [row.id for row in parked] == [refused.id, unreadable.id]
    assert "100," in (parked[0].error or "")
    assert "cannot be read" in (parked[1].error or "")
    [reason] = await app.explain(refused.id)
    assert "parked in the outbox" in reason.text
    assert reason.command == ("outbox", "retry", refused.id)
    room[0] = 1_000_000
    await app.close()
    assert await app.outbox.retry([refused.id]) == 1
    assert await app.outbox.delete([unreadable.id, before.id]) == 1
    assert refused.id in await sent(app)
    assert (await app.outbox.view()).parked == 0


async def test_a_store_that_refuses_everything_parks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await sqlite_shop(tmp_path)
    tries = 0

    async def refuse(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise UsageError("the login was refused")

    with sqlite.plain(tmp_path / "shop.db") as connection:
        job = app.tasks["mail"].using(connection).enqueue_sync(1)
    with monkeypatch.context() as patch:
        for verb in ("enqueue", "queue_names"):
            patch.setattr(MemoryStore, verb, refuse)
        async with relaying(app):
            await until(lambda: tries > 3)
    row = await app.outbox.row(job.id)
    assert row is not None
    assert row.state is RowState.NEW
    assert await sent(app) == [job.id]


# -------------------------------------------------------------------- order


async def test_a_transaction_that_commits_later_is_sent_later() -> None:
    """Numbers of rows are not the order of commits: a row with a lower number may appear later. It
    is neither lost nor sent before what was committed earlier."""
    app, url = await postgres_shop(), server("pg18").url()
    mail = app.tasks["mail"]
    with psycopg.connect(url) as slow, psycopg.connect(url) as quick:
        first = mail.using(slow).enqueue_sync(1)
        second = mail.using(quick).enqueue_sync(1)
        quick.commit()
        assert await sent(app) == [second.id]
        slow.commit()
    assert sorted(await sent(app)) == sorted([first.id, second.id])
    started: list[str] = []

    async with app:
        store = await app._store()
        while claims := (await store.claim(["default"], 1, 10_000, "w")).claims:
            started += [claim.id for claim in claims]
            break
    assert started == [second.id]


async def test_one_relay_of_two_is_active(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mita.relay")
    for app in (await sqlite_shop(tmp_path), await postgres_shop()):
        caplog.clear()
        with sqlite.plain(tmp_path / "shop.db") as connection:
            connection.execute("select 1")
        async with relaying(app):
            await until(lambda: "relays the outbox" in caplog.text)
            async with relaying(app):
                await asyncio.sleep(0.05)
                assert caplog.text.count("relays the outbox") == 1
        caplog.clear()
        async with relaying(app):
            await until(lambda: "relays the outbox" in caplog.text)
