"""What can be wrong with a server or a URL, and that the error says what to do."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from mita.errors import MitaError, StoreError, UsageError
from mita.model.view import Health
from mita.stores.postgres import PostgresStore
from mita.stores.postgres.server import connect
from mita.testing.contract.given import job

from .server import Server
from .shared import fresh_url, server


async def refused(url: str) -> MitaError:
    with pytest.raises(MitaError) as caught:
        await PostgresStore(url).open()
    return caught.value


async def test_no_server() -> None:
    error = await refused("postgresql://127.0.0.1:1/jobs?connect_timeout=2")
    assert isinstance(error, StoreError)
    assert error.transient
    assert "cannot reach PostgreSQL at 127.0.0.1:1/jobs" in str(error)
    assert "Start the server, or fix the URL" in str(error)
    assert "\n" not in str(error)
    assert isinstance(error.__cause__, psycopg.Error)


async def test_no_such_database_or_user() -> None:
    for url in (server("pg18").url("nowhere"), server("pg18").url(user="nobody_here")):
        error = await refused(url)
        assert isinstance(error, UsageError)
        assert "does not exist" in str(error)


def test_a_url_that_cannot_be_read() -> None:
    for url in (
        "postgresql://localhost/jobs?sslmod=require",
        "postgresql+asyncpg://localhost/jobs",
    ):
        with pytest.raises(UsageError, match="cannot be read"):
            PostgresStore(url)
    with pytest.raises(UsageError, match="namespace"):
        PostgresStore('postgresql://localhost/jobs?namespace=a"b')


async def test_no_rights_on_the_schema(url: str) -> None:
    server("pg18").execute(
        "do $$ begin create role guest login; exception when duplicate_object then null; end $$"
    )
    as_guest = url.replace("postgres@", "guest@")
    error = await refused(as_guest)
    assert isinstance(error, UsageError)
    assert "mita migrate" in str(error)
    owner = PostgresStore(url)
    await owner.open()
    guest = PostgresStore(as_guest)
    space = url.rpartition("=")[2]
    server("pg18").execute(
        f"grant usage on schema {space} to guest; grant select on {space}._step to guest"
    )
    await guest.open()
    with pytest.raises(UsageError, match="permission"):
        await guest.enqueue([job()])
    server("pg18").execute(
        f"grant all on all tables in schema {space} to guest; grant all on all sequences in "
        f"schema {space} to guest"
    )
    assert (await guest.enqueue([job()]))[0].created
    await guest.close()
    await owner.close()


async def test_a_server_that_is_too_old(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "OLDEST_SERVER_VERSION", 990000)
    error = await refused(url)
    assert isinstance(error, UsageError)
    assert "too old" in str(error)


async def test_a_schema_that_was_restored_in_part(url: str) -> None:
    space = url.rpartition("=")[2]
    server("pg18").execute(f"create schema {space}; create table {space}._job (id text)")
    error = await refused(url)
    assert isinstance(error, UsageError)
    assert "restored in part" in str(error)


async def test_a_table_that_went_away(store: PostgresStore, url: str) -> None:
    server("pg18").execute(f"drop table {url.rpartition('=')[2]}._job cascade")
    with pytest.raises(StoreError, match="mita migrate") as caught:
        await store.enqueue([job()])
    assert not caught.value.transient


async def test_a_standby_takes_no_jobs() -> None:
    primary = await asyncio.to_thread(
        lambda: Server("pg18", wal_level="replica", max_wal_senders="2").start()
    )
    standby = Server("pg18", hot_standby="on")
    try:
        await asyncio.to_thread(
            standby._run,
            "pg_basebackup",
            "-D",
            str(standby.data),
            "-h",
            str(primary.folder),
            "-U",
            "postgres",
            "-R",
            "-c",
            "fast",
        )
        await asyncio.to_thread(standby.start)
        error = await refused(standby.url())
        assert isinstance(error, StoreError)
        assert "read-only standby" in str(error)
    finally:
        await asyncio.to_thread(standby.stop)
        await asyncio.to_thread(primary.stop)


# ---------------------------------------------------------------- a pooler


class Pooler:
    """What can be seen of a pooler from outside: it tells clients a process number of its own
    making."""

    def __init__(self, behind: str) -> None:
        self._behind = behind

    async def __aenter__(self) -> "Pooler":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_unix_connection(self._behind)
        await asyncio.gather(
            self._pump(reader, back_writer, up=True), self._pump(back_reader, writer, up=False)
        )

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, up: bool
    ) -> None:
        while data := await source.read(65536):
            # the process number and the secret that go with a session
            if not up and (at := data.find(b"K\0\0\0\x0c")) >= 0:
                data = data[: at + 5] + b"\0\0\0\x07" + data[at + 9 :]
            sink.write(data)
        sink.close()


@pytest.fixture
async def pooled() -> AsyncIterator[str]:
    behind = server("pg18")
    space = fresh_url().rpartition("=")[2]
    async with Pooler(f"{behind.folder}/.s.PGSQL.5432") as pooler:
        yield f"postgresql://postgres@127.0.0.1:{pooler.port}/postgres?sslmode=disable&gssencmode=disable&namespace={space}"


async def test_behind_a_pooler_jobs_run_and_the_doctor_names_the_limits(
    pooled: str,
) -> None:
    store = PostgresStore(pooled)
    await store.open()
    await store.enqueue([job()])
    assert len((await store.claim(["mail"], 10, 1000, "w")).claims) == 1
    [warning] = [finding for finding in await store.doctor() if finding.what == "pooler"]
    assert warning.health is Health.WARN
    assert "transaction mode" in warning.found
    held: Any = await store._work.connected()
    [(prepared,)] = await (
        await held.execute("select count(*) from pg_prepared_statements")
    ).fetchall()
    assert prepared == 0, "another session may serve the next transaction"
    await store.close()


async def test_the_doctor_names_the_session_with_an_old_snapshot(
    store: PostgresStore, plain_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mita.stores.postgres.doctor.LONG_SNAPSHOT_S", 0)
    async with await psycopg.AsyncConnection.connect(
        plain_url, application_name="report"
    ) as holder:
        await holder.execute("set transaction isolation level repeatable read")
        await holder.execute("select 1 from pg_class limit 1")
        [snapshot] = [
            finding for finding in await store.doctor() if finding.what == "oldest snapshot"
        ]
        assert f"pid {holder.info.backend_pid}" in snapshot.found
        assert "report" in snapshot.found
        assert snapshot.health is Health.WARN
        assert "pg_terminate_backend" in snapshot.remedy
    whats = {finding.what for finding in await store.doctor()}
    assert whats >= {"engine", "durability", "clock", "dead rows", "oldest snapshot", "schema"}


def test_the_servers_are_real() -> None:
    found = subprocess.run(
        [server("pg18")._bin / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("postgres (PostgreSQL) 18")
