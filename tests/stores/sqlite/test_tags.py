"""Tags in a SQLite file: only jobs that have some are written to their table."""

import sqlite3
from pathlib import Path

from mita.model.job import NewJob
from mita.model.outcome import DeleteJob, Settlement
from mita.model.view import JobFilter
from mita.ports.ids import new_ids
from mita.rules.judge import success
from mita.rules.labels import with_tags
from mita.stores.sqlite import SqliteStore


def jobs(n: int, *tags: str) -> list[NewJob]:
    options = with_tags(b"\x80", tags) if tags else b"\x80"
    return [
        NewJob(id=id, task="t", queue="q", payload=b"\x80", options=options, tags=tags)
        for id in new_ids(n)
    ]


def rows(path: Path, text: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as database:
        found = database.execute(text).fetchall()
    database.close()
    return found


async def test_a_plain_job_leaves_nothing_in_the_table_of_tags(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open()
    tagged = jobs(3, "a", "b")
    await store.enqueue([*jobs(20), *tagged, *jobs(20)])
    assert rows(path, "select count(*), count(distinct job) from _mita_tag") == [(6, 3)]
    claims = (await store.claim(["q"], 100, 60_000, "w")).claims
    assert len(claims) == 43
    assert all(await store.settle([Settlement(claim, success(None, 0)) for claim in claims]))
    assert rows(path, "select count(*) from _mita_job") == [(0,)]
    assert rows(path, "select count(*) from _mita_tag") == [(0,)], "gone with their jobs"
    await store.enqueue([tagged[0]])
    [claim] = (await store.claim(["q"], 1, 60_000, "w")).claims
    await store.settle([Settlement(claim, success(None, 60_000))])
    await store.amend([claim.id], DeleteJob())
    assert rows(path, "select count(*) from _mita_tag") == [(0,)]
    await store.close()


async def test_a_search_by_tag_reads_an_index(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open()
    await store.enqueue([*jobs(2000), *jobs(2, "a")])
    assert len((await store.page(JobFilter(tag="a"), None, 10)).jobs) == 2
    await store.close()
    plan = rows(
        path,
        "explain query plan select id from _mita_job "
        "where seq in (select job from _mita_tag where tag = 'a') order by id desc limit 10",
    )
    assert any("_mita_tagged (tag=?)" in str(line[-1]) for line in plan), plan
