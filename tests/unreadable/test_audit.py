"""I15: an entry of the audit log that cannot be read is shown, with the reason; the others stay."""

import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mita import Mita
from mita.rules.readable import UNKNOWN
from mita.stores.nats import NatsStore
from mita.stores.nats.client.messages import OutMessage
from mita.stores.redis import RedisStore
from tests.stores.postgres.shared import server

from .test_every_field import STORES

GARBAGE = (b"", b"\xc1", b"\x80", b"\x91" * 2000, b'{"id": 1}', b"\xff\xfe")


async def spoil_sqlite(app: Mita, url: str, id: str, garbage: bytes) -> None:
    with sqlite3.connect(app.url.path) as file:
        file.execute("update _mita_audit set entry = ? where id = ?", (garbage, id))


async def spoil_postgres(app: Mita, url: str, id: str, garbage: bytes) -> None:
    space = url.rpartition("namespace=")[2]
    with psycopg.connect(server("pg18").url(), autocommit=True) as connection:
        connection.execute(f"update {space}._audit set entry = %s where id = %s", (garbage, id))


async def spoil_redis(app: Mita, url: str, id: str, garbage: bytes) -> None:
    store: Any = await app.open_store()
    assert isinstance(store, RedisStore)
    key = store.context.keys.in_namespace("audit_entries")
    await store.context.connection.command(
        "HSET", key, id, b"%015d" % (time.time() * 1000) + garbage
    )
    await store.close()


async def spoil_nats(app: Mita, url: str, id: str, garbage: bytes) -> None:
    store: Any = await app.open_store()
    assert isinstance(store, NatsStore)
    subject = store.context.subjects.audit(id)
    await store.context.wire.store([OutMessage(subject, garbage)])
    await store.close()


SPOIL: dict[str, Callable[[Mita, str, str, bytes], Awaitable[None]]] = {
    "sqlite": spoil_sqlite,
    "postgres": spoil_postgres,
    "redis": spoil_redis,
    "nats": spoil_nats,
}


@pytest.mark.parametrize("kind", SPOIL)
async def test_a_damaged_entry_is_shown_and_hides_no_other(kind: str, tmp_path: Path) -> None:
    url, _ = STORES[kind](tmp_path, 1)
    async with Mita(url) as app:
        with app.acting("ada"):
            for number in range(len(GARBAGE) + 2):
                await app.pause(f"q{number}")
        healthy = (await app.audit()).entries
        for line, garbage in zip(healthy[1:], GARBAGE, strict=False):
            await SPOIL[kind](app, url, line.id, garbage)
        shown = (await app.audit()).entries
        readable = [line for line in shown if line.who != UNKNOWN]
        broken = [line for line in shown if line.who == UNKNOWN]
        assert [readable[0], readable[-1]] == [healthy[0], healthy[-1]]
        assert broken
        assert len(shown) >= len(healthy)
        assert all("cannot be read" in line.result for line in broken)
        with app.acting("bob"):
            await app.resume("q1")  # the log can still be written, and filtered
        assert [line.what for line in (await app.audit(who="bob")).entries] == ["resume"]
        assert len((await app.audit(limit=2, after=shown[2].id)).entries) == 2


def test_a_row_of_other_types_is_shown(tmp_path: Path) -> None:
    """SQLite keeps any value in any column."""
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")
    with app.acting("ada"):
        for number in range(3):
            app.pause_sync(f"q{number}")
    with sqlite3.connect(tmp_path / "jobs.db") as file:
        file.execute("update _mita_audit set at = 'then', who = x'ff', target = 7 where seq = 2")
    assert len(app.audit_sync().entries) == 3
    assert len(app.audit_sync(target="q2").entries) == 1
    app.close_sync()
