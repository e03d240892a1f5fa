"""A file that an earlier version wrote, and what becomes of it."""

import sqlite3
from pathlib import Path

import pytest

from mita.errors import UsageError
from mita.model.job import Claim, NewJob, State
from mita.model.outcome import Answer, RetryJob, Settlement, Verdict
from mita.model.repeat import Repeat
from mita.model.time import NOW
from mita.model.view import JobFilter
from mita.ports.ids import new_id
from mita.ports.pubsub import EventMessage
from mita.rules.judge import success
from mita.stores.sqlite import SqliteStore, maintenance
from mita.stores.sqlite.file.statements import migrations


def job() -> NewJob:
    return NewJob(id=new_id(), task="t", queue="q", payload=b"\x80")


async def test_the_table_that_is_made_anew_keeps_its_jobs_and_gives_no_number_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    with monkeypatch.context() as before:
        before.setattr(maintenance, "migrations", lambda: migrations()[:3])
        old = SqliteStore(path)
        await old.open()
        await old.close()
    first, second, third, fourth = job(), job(), job(), job()
    # as that version wrote its rows; the newest number was given out and is gone
    with sqlite3.connect(path) as database:
        for row in (third, first, second):
            database.execute(
                "insert into _mita_job (id, task, queue, state, priority, due, created, payload, "
                "options, headers, token, worker, lease_until) values (?, 't', 'q', 'running', 5, "
                "0, 0, x'80', x'', x'', 1, 'w', 1)",
                (row.id,),
            )
        database.execute("delete from _mita_job where id = ?", (second.id,))
    database.close()

    new = SqliteStore(path)
    await new.open()
    await new.enqueue([fourth])
    found = await new.find([first.id, second.id, third.id, fourth.id])
    held = Claim(first.id, 1, 0, "t", "q", b"\x80", b"", b"", 5, 0, 0, ref=2)
    assert await new.settle([Settlement(held, success(b"\xc0", 1000))]) == [True]
    await new.close()
    assert [one and one.state for one in found] == [
        State.RUNNING,
        None,
        State.RUNNING,
        State.QUEUED,
    ]
    with sqlite3.connect(path) as database:
        assert database.execute(
            "select seq from _mita_job where id = ?", (fourth.id,)
        ).fetchone() == (4,)
        assert database.execute("select count(*) from mita_jobs").fetchone() == (3,)
        with pytest.raises(sqlite3.IntegrityError):
            database.execute("update _mita_job set state = 'lost'")
    database.close()


async def test_renamed_tables_keep_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    with monkeypatch.context() as before:
        before.setattr(maintenance, "migrations", lambda: migrations()[:6])
        old = SqliteStore(path)
        await old.open()
        await old.close()
    one = job()
    with sqlite3.connect(path) as database:
        database.execute(
            "insert into _mita_job (id, task, queue, state, priority, due, created, payload, "
            "options, headers) values (?, 't', 'q', 'queued', 5, 0, 0, x'80', x'', x'')",
            (one.id,),
        )
        database.execute("insert into _mita_memo values (1, 'own', x'01', null)")
        database.execute("insert into _mita_memo values (0, 'shared', x'02', ?)", (2**52,))
        database.execute("insert into _mita_ear values ('a', 'q', ?)", (2**52,))
        database.execute("insert into _mita_told (at, queue, count, events) values (0, 'q', 1, '')")
        database.execute("delete from _mita_told")
    database.close()

    new = SqliteStore(path)
    await new.open()
    [claim] = (await new.claim(["q"], 1, 1000, "w")).claims
    assert claim.id == one.id
    assert await new.load_once(claim, "own", shared=False) == b"\x01"
    assert await new.load_once(claim, "shared", shared=True) == b"\x02"
    assert await new.subscribed_queues() == {"q"}
    await new.publish([EventMessage("q", 1, b"\x90")])
    await new.close()
    with sqlite3.connect(path) as database:
        [(seq,)] = database.execute("select seq from _mita_message")
        assert seq == 2, "a number of a message is not used twice"
    database.close()


async def test_a_repeat_of_an_earlier_version_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it can count its failures from then on."""
    path = tmp_path / "jobs.db"
    with monkeypatch.context() as before:
        before.setattr(maintenance, "migrations", lambda: migrations()[:8])
        old = SqliteStore(path)
        await old.open()
        await old.close()
    with sqlite3.connect(path) as database:
        database.execute(
            "insert into _mita_repeat (key, spec, cursor, state, reason, revision, count, last) "
            "values ('daily', x'80', 7, 'active', 'why', 3, 2, 6)"
        )
    database.close()
    new = SqliteStore(path)
    await new.open()
    repeat = Repeat(key="daily", spec=b"\x80", cursor=7, reason="why", revision=3, count=2, last=6)
    assert await new.find_repeats(["daily"]) == [repeat]
    assert await new.report_repeat("daily", True) == 1
    assert await new.pause_repeats(["daily"], "it failed") == [True]
    [paused] = await new.list_repeats()
    assert (paused.failures, paused.pause_reason) == (1, "it failed")
    await new.close()


async def test_jobs_of_a_version_without_limits_wait_at_their_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 0.1: a job runs with a key, another waits for it, a third is ready."""
    path = tmp_path / "jobs.db"
    with monkeypatch.context() as before:
        before.setattr(maintenance, "migrations", lambda: migrations()[:7])
        old = SqliteStore(path)
        await old.open()
        await old.close()
    running, blocked, ready = job(), job(), job()
    states = {running: "running", blocked: "blocked", ready: "queued"}
    with sqlite3.connect(path) as database:
        database.execute("insert into _mita_queue (name) values ('q')")
        for one, state in states.items():
            database.execute(
                "insert into _mita_job (id, task, queue, state, priority, due, created, payload, "
                "options, headers, resource, token, worker, lease_until) values (?, 't', 'q', ?, "
                "5, 0, 0, x'80', x'', x'', 'key', ?, 'w', ?)",
                (one.id, state, state == "running", 2**42 if state == "running" else None),
            )
    database.close()

    new = SqliteStore(path)
    await new.open()
    assert [found and found.blocked_at for found in await new.find([blocked.id])] == ["key"]
    assert (await new.claim(["q"], 5, 1000, "w")).claims == []  # the third waits, too
    [view] = await new.resources()
    assert (len(view.holders), view.waiting) == (1, 2)
    held = Claim(running.id, 1, 0, "t", "q", b"\x80", b"", b"", 5, 0, 0, resource="key", ref=1)
    assert await new.settle([Settlement(held, success(b"\xc0", 1000))]) == [True]
    [claim] = (await new.claim(["q"], 5, 1000, "w")).claims
    assert (claim.id, claim.gates, claim.fair) == (blocked.id, (), None)
    await new.close()


async def test_jobs_that_failed_in_a_version_without_groups_are_one_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can be counted, found and retried, also those that a worker of that version adds."""
    path = tmp_path / "jobs.db"
    names = [name for _, name in migrations()]
    [groups] = [at for at, name in enumerate(names) if name.endswith("_groups.sql")]
    with monkeypatch.context() as before:
        before.setattr(maintenance, "migrations", lambda: migrations()[:groups])
        old = SqliteStore(path)
        await old.open()
        await old.close()
    failed = sorted([job(), job(), job()], key=lambda one: one.id)
    insert = (
        "insert into _mita_job (id, task, queue, state, priority, due, created, payload, options, "
        "headers, error, finished, expires) values (?, 't', 'q', 'failed', 5, 0, 0, x'80', x'', "
        "x'', 'Boom: no', ?, ?)"
    )
    with sqlite3.connect(path) as database:
        database.execute("insert into _mita_queue (name) values ('q')")
        for at, one in enumerate(failed[:2], 1):
            database.execute(insert, (one.id, at, 2**42))
    database.close()

    new = SqliteStore(path)
    await new.open()
    with sqlite3.connect(path) as database:  # a worker that has not been restarted
        database.execute(insert, (failed[2].id, 3, 2**42))
    database.close()
    [group] = await new.dead_groups(None, "t", 10)
    assert (group.group, group.count, group.first, group.last) == ("", 3, 1, 3)
    assert (group.sample, sum(group.hours)) == (failed[2].id, 0)
    page = await new.page(JobFilter(group=""), None, 2)
    assert [one.id for one in page.jobs] == [failed[2].id, failed[1].id]
    assert await new.amend([failed[0].id], RetryJob(NOW)) == [Answer.DONE]
    [claim] = (await new.claim(["q"], 5, 1000, "w")).claims
    verdict = Verdict(state=State.FAILED, error="Boom: no", keep=1000, group="0" * 16)
    assert await new.settle([Settlement(claim, verdict)]) == [True]
    assert [(one.group, one.count) for one in await new.dead_groups(None, None, 10)] == [
        ("", 2),
        ("0" * 16, 1),
    ]
    await new.close()


async def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    with sqlite3.connect(path) as database:
        database.execute("update _mita_meta set value = '99' where name = 'schema'")
    database.close()
    with pytest.raises(
        UsageError, match=rf"schema 99.*knows only up to {len(migrations())}.*Upgrade Mita"
    ):
        await SqliteStore(path).open()
