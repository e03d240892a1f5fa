"""Commands on a location without a Mita store: they say so, name the location and the remedy,
and create nothing."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mita import Mita
from mita.errors import StoreMissing
from tests.e2e.stores import STORES
from tests.stores.postgres.shared import server

from .conftest import Run

ID = "0" * 32
COMMANDS = (
    ("doctor",),
    ("jobs",),
    ("show", ID),
    ("why", ID),
    ("queues",),
    ("workers",),
    ("top", "--once"),
    ("repeats",),
    ("repeats", "next", "digest"),
    ("repeats", "explain", "digest"),
    ("cancel", ID),
    ("pause", "mail"),
    ("hold", "account:1", "--after", "5"),
)


async def is_there(url: str) -> bool:
    try:
        async with Mita("memory://").using(url, create=False) as app:
            await app.counts()
    except StoreMissing:
        return False
    return True


@pytest.mark.parametrize("name", [*STORES, "memory"])
def test_a_missing_store_is_named_and_not_created(name: str, tmp_path: Path, mita: Run) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    if name == "memory":
        _look_at("memory://", mita)
        return
    with STORES[name](folder) as url:
        said = _look_at(url, mita)
        assert (str(folder / "jobs.db") if name == "sqlite" else _namespace(url)) in said
        assert not asyncio.run(is_there(url))
        assert list(folder.iterdir()) == []


def _look_at(url: str, mita: Run) -> str:
    said = ""
    for command in COMMANDS:
        answer = mita(*command, "--url", url)
        assert (answer.code, answer.out) == (3, ""), command
        said = answer.err
        assert "--url" in said
        assert "mita migrate" in said
    assert mita("jobs", "--url", url, "--json").data["kind"] == "store"
    return said


def _namespace(url: str) -> str:
    return f"namespace {url.rpartition('namespace=')[2]!r}"


@pytest.mark.parametrize("name", STORES)
def test_a_store_that_was_used_once_can_be_read(name: str, tmp_path: Path, mita: Run) -> None:
    with STORES[name](tmp_path) as url:

        async def use() -> Any:
            app = Mita(url)
            task = app.task(name="greet")(lambda: None)
            async with app:
                return await task.enqueue()

        job = asyncio.run(use())
        assert asyncio.run(is_there(url))
        looks = (
            ("doctor",),
            ("jobs",),
            ("show", job.id),
            ("queues",),
            ("workers",),
            ("top", "--once"),
            ("repeats",),
        )
        for command in looks:
            assert mita(*command, "--url", url).err == "", command


@pytest.mark.parametrize("name", ["sqlite", "postgres", "nats"])
def test_a_misspelt_namespace_is_answered_with_the_existing_ones(
    name: str, tmp_path: Path, mita: Run
) -> None:
    with STORES[name](tmp_path) as url:
        mita("migrate", "--url", url)
        said = mita(
            "jobs",
            "--url",
            url.rpartition("namespace=")[0].rstrip("?&") or url,
            "--namespace",
            "msita",
        )
        assert said.code == 3
        assert "no Mita in namespace 'msita'" in said.err
        assert "(there are: " in said.err


def test_doctor_changes_nothing_in_a_database_without_mita(mita: Run) -> None:
    url = server("pg18").url()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create database untouched")
    mita("doctor", "--url", server("pg18").url("untouched"))
    with psycopg.connect(server("pg18").url("untouched")) as connection:
        tables = (
            "select count(*) from pg_tables where schemaname not in ('pg_catalog', "
            "'information_schema')"
        )
        assert connection.execute(tables).fetchone() == (0,)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop database untouched")


def test_the_sqlite_file_of_another_program_is_not_changed(mita: Run, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("create table orders (id integer)")
    database.close()
    before = path.read_bytes()
    said = mita("jobs", "--url", f"sqlite:///{path}")
    assert (said.code, "has no Mita in namespace 'mita'" in said.err) == (3, True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_read_commands_do_not_change_the_schema_of_an_older_version(
    name: str, tmp_path: Path, mita: Run
) -> None:
    with STORES[name](tmp_path) as url:
        mita("migrate", "--url", url)
        if name == "sqlite":
            with sqlite3.connect(tmp_path / "jobs.db") as database:
                database.execute("update _mita_meta set value = '1' where name = 'schema'")
            database.close()
        else:
            with psycopg.connect(server("pg18").url()) as connection:
                connection.execute(
                    f"delete from {url.rpartition('namespace=')[2]}._step where name like '0002%'"
                )
        said = mita("jobs", "--url", url)
        assert (said.code, "older Mita" in said.err or "this Mita reads" in said.err) == (2, True)
        assert "mita migrate" in said.err


# ---------------------------------------------------------------- which file that is


def test_a_relative_path_is_shown_as_an_absolute_one(mita: Run, project: Path) -> None:
    mita("migrate")
    for command in ("doctor", "top", "migrate"):
        assert f"sqlite file {project}/jobs.db" in mita(command).out, command
    (project / "jobs.db").write_bytes(b"not a database, as far as one can see" * 100)
    assert str(project / "jobs.db") in mita("jobs").err


async def test_an_app_keeps_its_file_when_the_current_folder_changes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Mita("sqlite:///jobs.db")
    task = app.task(name="greet")(lambda: None)
    await task.enqueue()
    (project / "elsewhere").mkdir()
    monkeypatch.chdir(project / "elsewhere")
    store = await app.open_store()
    assert await store.queue_names() == ["default"]
    await store.close()
    await app.close()
    assert list((project / "elsewhere").iterdir()) == []


async def test_a_command_that_creates_a_file_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mita.store")
    for _ in range(2):
        store = await Mita(f"sqlite:///{tmp_path}/jobs.db").open_store()
        await store.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"created the new file {tmp_path}/jobs.db"
    ]
