"""Migrations run once, even if several stores open at a time, and no worker has to stop."""

import asyncio

import psycopg
import pytest

from mita.errors import UsageError
from mita.model.gate import StoredLimit
from mita.model.outcome import RetryJob
from mita.model.repeat import Repeat
from mita.model.time import HOUR, LATEST, NOW, When
from mita.model.view import Health, JobFilter
from mita.stores.postgres import PostgresStore
from mita.stores.postgres.server import statements
from mita.stores.postgres.server.locks import lock_number
from mita.testing.contract.given import (
    claim_one,
    claimed_ids,
    dead,
    fail,
    job,
    look,
    put,
    running,
    settled,
    succeed,
)

from .shared import server


async def test_many_stores_that_open_at_once_all_find_the_schema(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [(await store.enqueue([job()]))[0].created for store in stores] == [True] * 8
    assert await stores[0].migrate() == []
    space = url.rpartition("=")[2]
    assert server("pg18").execute(f"select count(*) from {space}._step") == [
        (len(statements.migrations()),)
    ]
    await asyncio.gather(*(store.close() for store in stores))


async def test_the_view_shows_states_as_people_see_them(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    for when in (NOW, When(HOUR), When(at=LATEST)):
        await put(store, when=when)
    space = url.rpartition("=")[2]
    rows = server("pg18").execute(f"select state from {space}.jobs order by due")
    assert rows == [("ready",), ("scheduled",), ("waiting",)]
    await store.close()


async def test_a_second_store_waits_for_the_migration_of_the_first(url: str) -> None:
    """Another process is migrating: it holds the lock, and its tables cannot be seen yet."""
    store = PostgresStore(url)
    async with await psycopg.AsyncConnection.connect(server("pg18").url()) as first:
        await first.execute(
            "select pg_advisory_xact_lock(%s)", [lock_number(url.rpartition("=")[2], "migrate")]
        )
        opening = asyncio.ensure_future(store.open())
        await asyncio.sleep(0.3)
        assert not opening.done()
    await opening
    assert (await store.enqueue([job()]))[0].created
    await store.close()


async def test_a_migration_that_fails_leaves_nothing_behind(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = statements.read
    monkeypatch.setattr(
        "mita.stores.postgres.server.migrate.read",
        lambda folder, name: read(folder, name) + "\nselect 1 / 0;\n",
    )
    with pytest.raises(Exception, match="division"):
        await PostgresStore(url).open()
    monkeypatch.undo()
    store = PostgresStore(url)
    await store.open()
    assert (await store.enqueue([job()]))[0].created
    await store.close()


async def test_old_workers_go_on_beside_what_a_newer_one_added_but_not_removed(
    store: PostgresStore, url: str
) -> None:
    space = url.rpartition("=")[2]
    server("pg18").execute(f"insert into {space}._step (name) values ('9998_more.pre')")
    old = PostgresStore(url)
    await old.open()
    await old.close()
    server("pg18").execute(f"insert into {space}._step (name) values ('9999_less.post')")
    with pytest.raises(UsageError, match="upgrade Mita"):
        await PostgresStore(url).open()


async def test_what_removes_waits_for_mita_migrate(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = (*statements.migrations(), "0002_tidy.post")
    monkeypatch.setattr("mita.stores.postgres.server.migrate.migrations", lambda: known)
    read = statements.read
    monkeypatch.setattr(
        "mita.stores.postgres.server.migrate.read",
        lambda f, name: "select 1;\n" if name.startswith("0002") else read(f, name),
    )
    again = PostgresStore(url)
    await again.open()
    [schema] = [finding for finding in await again.doctor() if finding.what == "schema"]
    assert (schema.health, "0002_tidy.post" in schema.found) == (Health.WARN, True)
    assert await again.migrate() == ["0002_tidy.post"]
    assert await again.migrate() == []
    await again.close()


LIMIT_TABLES = ("_key", "_key_holder", "_queue_limit", "_limited", "_turn")
LIMIT_COLUMNS = ("gates", "fair", "weight", "blocked_at")


async def test_a_schema_without_limits_gets_them_and_its_blocked_jobs_are_woken(
    store: PostgresStore, url: str
) -> None:
    """Version 0.1: no column and no table of limits, and the indexes of that time."""
    holder = await running(store, resource="r")
    waits = await put(store, resource="r")
    assert await claimed_ids(store) == []
    space, old = url.rpartition("=")[2], server("pg18")
    for name in LIMIT_TABLES:
        old.execute(f"drop table {space}.{name}")
    for name in LIMIT_COLUMNS:
        old.execute(f"alter table {space}._job drop column {name}")
    old.execute(
        f"create index _ready on {space}._job (queue, priority, due, seq) where state = 'queued'"
    )
    old.execute(
        f"create index _waiters on {space}._job (queue, resource, priority desc, due, seq) "
        "where state = 'blocked'"
    )
    old.execute(f"delete from {space}._step where name like '0007%' or name like '0009%'")
    again = PostgresStore(url)
    await again.open()
    assert (await look(again, waits)).blocked_at == "r"
    await settled(again, succeed(holder))
    assert await claimed_ids(again) == [waits]
    await again.limit(["mail"], None, StoredLimit(concurrency=1))
    await put(again)
    assert await claimed_ids(again) == [], "limits work at once"
    indexes = f"select indexname from pg_indexes where schemaname = '{space}'"
    assert {("_ready",), ("_waiters",)} <= set(old.execute(indexes)), "old workers need these"
    assert await again.migrate() == ["0009_indexes.post"]
    assert not {("_ready",), ("_waiters",)} & set(old.execute(indexes))
    await again.close()


async def test_a_column_of_an_early_schema_goes_with_mita_migrate(
    store: PostgresStore, url: str
) -> None:
    space = url.rpartition("=")[2]
    server("pg18").execute(f"delete from {space}._step where name like '0004%'")
    server("pg18").execute(
        f"alter table {space}._job add column happened integer not null default 0"
    )
    again = PostgresStore(url)
    await again.open()
    assert (await again.enqueue([job()]))[0].created
    assert await again.migrate() == ["0004_happened.post"]
    assert (await again.enqueue([job()]))[0].created
    await again.close()


async def test_a_repeat_of_an_earlier_schema_stays_as_it_was(
    store: PostgresStore, url: str
) -> None:
    """A worker of the last release writes its row beside a newer one, without the new columns."""
    space = url.rpartition("=")[2]
    server("pg18").execute(
        f"insert into {space}._repeat (key, spec, cursor, state, reason, revision, count, last) "
        "values ('daily', '1', 7, 'active', 'why', 3, 2, 6)"
    )
    repeat = Repeat(key="daily", spec=b"1", cursor=7, reason="why", revision=3, count=2, last=6)
    assert await store.find_repeats(["daily"]) == [repeat]
    assert await store.report_repeat("daily", True) == 1


async def test_jobs_that_failed_in_a_schema_without_groups_are_one_group(
    store: PostgresStore, url: str
) -> None:
    """They can be counted, found and retried, also those that a worker of that version adds."""
    failed = [await dead(store), await dead(store)]
    space, old = url.rpartition("=")[2], server("pg18")
    old.execute(f"alter table {space}._job drop column failure_group cascade")
    old.execute(f"delete from {space}._step where name like '%_groups.pre'")
    again = PostgresStore(url)
    await again.open()
    failed.append(await dead(store))  # of a worker that has not been restarted
    [group] = await again.dead_groups(None, "send", 10)
    assert (group.group, group.count, group.sample) == ("", 3, failed[2])
    page = await again.page(JobFilter(group=""), None, 2)
    assert [one.id for one in page.jobs] == [failed[2], failed[1]]
    await again.amend([failed[0]], RetryJob(NOW))
    await settled(again, fail(await claim_one(again), group="0" * 16))
    groups = [(one.group, one.count) for one in await again.dead_groups(None, None, 10)]
    assert groups == [("", 2), ("0" * 16, 1)]
    await again.close()
