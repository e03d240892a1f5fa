"""`app.acting` and `app.audit`: who changed what, and nothing else."""

import asyncio
import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mita import AuditLine, Every, Mita, MitaError, Rate, StoreError, UsageError
from mita.model.audit import AuditEntry
from mita.stores.memory import MemoryStore
from mita.testing import lab

from .conftest import working

CANARY = "canary-4711"


async def lines(app: Mita, **chosen: Any) -> list[AuditLine]:
    """The whole log, oldest first."""
    return list((await app.audit(limit=1000, **chosen)).entries)[::-1]


async def whats(app: Mita, **chosen: Any) -> list[str]:
    return [line.what for line in await lines(app, **chosen)]


def short(line: AuditLine) -> tuple[str, str, int, str]:
    return line.what, line.target, line.count, line.result


def with_a_task(app: Mita) -> Any:
    @app.task(queue="mail", resource="gpu")
    async def send(to: str = "ada", copies: int = 1) -> None: ...

    return send


# ---------------------------------------------------------------- what is recorded


async def kind_of_store(app: Mita) -> Any:
    store = await app.open_store()
    await store.close()
    return type(store)


async def test_an_entry_says_who_did_what_when_and_why(app: Mita) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    with app.acting("ada", "incident 7", via="web"):
        await app.pause("mail", "news")
    [line] = await lines(app)
    assert (line.who, line.via, line.why) == ("ada", "web", "incident 7")
    assert short(line) == ("pause", "queues mail, news", 0, "done")
    assert before < line.at < datetime.now(UTC) + timedelta(seconds=1)


async def test_without_acting_nothing_is_recorded(app: Mita) -> None:
    send = with_a_task(app)
    job = await send.enqueue()
    await app.cancel(job.id)
    with app.acting("ada"):
        await app.get(job.id)
        await app.retry_many(all=True, dry_run=True)
    await app.pause("mail")
    assert await lines(app) == []


async def test_each_result_is_in_the_log(app: Mita) -> None:
    send = with_a_task(app)
    with app.acting("ada"):
        job = await send.enqueue("x")
        await app.cancel(job.id)
        await app.cancel(job.id)
        with pytest.raises(UsageError) as unknown:
            await app.cancel("nobody")
        with pytest.raises(UsageError):
            await app.pause()
        await app.retry_many(state="cancelled", queue="mail")
        await app.repeats.pause("nightly")
        await app.repeats.put("nightly", send.call(), Every(60))
        await app.repeats.pause("nightly")
    found = [short(line) for line in await lines(app)]
    assert found == [
        ("enqueue", "task send", 1, "done"),
        ("cancel", f"job {job.id}", 1, "done"),
        ("cancel", f"job {job.id}", 0, "too late"),
        ("cancel", "job nobody", 0, f"refused: {unknown.value}"),
        ("pause", "no queue", 0, "refused: name at least one queue, for example app.pause('mail')"),
        ("retry", "jobs: queue=mail state=cancelled", 1, "done"),
        ("pause", "repeat nightly", 0, "nothing changed"),
        ("repeat", "repeat nightly", 0, "done"),
        ("pause", "repeat nightly", 0, "done"),
    ]


async def test_the_facts_of_a_change_are_kept(app: Mita) -> None:
    send = with_a_task(app)
    job = await send.enqueue()
    at = datetime(2030, 1, 31, 9, tzinfo=UTC)
    with app.acting("ada"):
        await app.reschedule(job.id, at=at)
        await app.hold("gpu", after=timedelta(minutes=5))
        await app.hold("gpu", after=1, queue="mail")
        await app.limit_queue("mail", concurrency=3, rate=Rate(5, per=10))
        await app.prioritise(job.id, 9)
        await app.amend(job.id, arguments={"copies": 3, "to": "bob"})
        await app.cancel_many(tag="x")
    found = [(line.target, line.details) for line in await lines(app)]
    rate = {"limit": 5, "per": 10.0, "key": None, "burst": 1}
    assert found == [
        (f"job {job.id}", {"at": "2030-01-31T09:00:00+00:00"}),
        ("key gpu of all queues", {"after": 300.0}),
        ("key gpu of queue mail", {"after": 1}),
        ("queue mail", {"concurrency": 3, "rate": rate}),
        (f"job {job.id}", {"priority": 9}),
        (f"job {job.id}", {"changed": ["copies", "to"]}),
        ("jobs: tag=x", {"matched": 0, "answers": {}}),
    ]


async def test_the_reason_of_a_verb_counts_where_none_was_given(app: Mita) -> None:
    job = await with_a_task(app).enqueue()
    with app.acting("ada"):
        await app.cancel(job.id, reason="the customer asked")
        await app.retry(job.id, reason="by ada on box")  # so the command line signs timelines
    with app.acting("ada", "incident 7"):
        await app.cancel(job.id, reason="the customer asked")
    assert [line.why for line in await lines(app)] == ["the customer asked", "", "incident 7"]


async def test_flows_are_one_entry_each(app: Mita) -> None:
    send = with_a_task(app)
    flow = app.flow("album")
    flow.add(send.call(), after=[flow.add(send.call())])
    with app.acting("ada"):
        run = await flow.enqueue()
        await run.cancel("no")
        await run.cancel()
        await app.repeat("nightly", send.call(), Every(60))
    assert [short(line) for line in await lines(app)] == [
        ("enqueue", f"flow {run.id}: album, 2 steps", 0, "done"),
        ("cancel", f"flow {run.id}", 2, "done"),
        ("cancel", f"flow {run.id}", 0, "nothing changed"),
        ("repeat", "repeat nightly", 0, "done"),
    ]


async def test_many_jobs_are_one_entry(app: Mita) -> None:
    send = with_a_task(app)
    with app.acting("ada"):
        handles = await app.enqueue_many([send.call(str(n)) for n in range(1200)])
        await app.cancel_many(queue="mail")
    [first, second] = await lines(app)
    assert short(first) == ("enqueue", "task send", 1200, "done")
    assert first.details["ids"] == [handle.id for handle in handles[:10]]
    assert short(second) == ("cancel", "jobs: queue=mail", 1200, "done")
    assert second.details == {"matched": 1200, "answers": {"done": 1200}}


# ---------------------------------------------------------------- what is never recorded


async def test_no_value_of_a_job_gets_into_the_log(app: Mita) -> None:
    """Neither arguments nor values of signals nor results, also if the call is refused with an
    error that quotes them."""

    @app.task(queue="mail")
    async def send(to: str, copies: int = 1) -> None: ...

    job = await send.enqueue("ada")
    with app.acting("ada"):
        await send.enqueue(CANARY)
        await app.enqueue_many([send.call(CANARY), send.call(CANARY)])
        await app.signal(job.id, "approved", {"card": CANARY})
        await app.amend(job.id, arguments={"to": CANARY})
        await app.repeat("nightly", send.call(CANARY), Every(60))
        await app.repeats.trigger("nightly")
        flow = app.flow("album")
        flow.add(send.call(CANARY))
        await flow.enqueue()
        with pytest.raises(MitaError):
            await app.signal(job.id, "approved2", object())
        with pytest.raises(MitaError):
            await app.signal("nobody", "approved", CANARY)
        with pytest.raises(MitaError) as refused:
            await app.amend(job.id, arguments={"copies": CANARY})
        with pytest.raises(MitaError):
            await app.amend(job.id, arguments={"to": 4711})
    assert str(refused.value)
    log = repr(await lines(app))
    assert len(await lines(app)) == 11
    assert "canary" not in log
    assert "4711" not in log
    assert "refused: UsageError (its text may hold values, and is not kept)" in log


async def test_an_error_that_quotes_a_value_is_not_kept(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = with_a_task(app)
    await app.pause("mail")

    async def refuse(*_: object) -> None:
        raise UsageError(f"this store does not like {CANARY}")

    kind = await kind_of_store(app)
    monkeypatch.setattr(kind, "enqueue", refuse)
    monkeypatch.setattr(kind, "pause", refuse)
    with app.acting("ada"):
        with pytest.raises(UsageError, match=CANARY):
            await send.enqueue(CANARY)
        with pytest.raises(UsageError, match=CANARY):
            await app.pause("mail")  # which has no values: its error is kept
    first, second = await lines(app)
    assert CANARY not in repr(first)
    assert second.result == f"refused: this store does not like {CANARY}"


async def test_the_file_holds_no_value_either(tmp_path: Path) -> None:
    async with Mita(f"sqlite:///{tmp_path}/jobs.db") as app:
        send = with_a_task(app)
        with app.acting("ada"):
            job = await send.enqueue(CANARY)
            await app.signal(job.id, "approved", CANARY)
            await app.amend(job.id, arguments={"to": CANARY})
    with sqlite3.connect(tmp_path / "jobs.db") as file:
        rows = file.execute("select * from _mita_audit").fetchall()
    assert len(rows) == 3
    assert CANARY.encode() not in b"".join(bytes(str(row), "utf-8") for row in rows)


# ---------------------------------------------------------------- tasks, threads, apps


async def test_tasks_beside_each_other_do_not_mix(app: Mita) -> None:
    """As requests of a web server: each has its own person, although they take turns."""
    await app.pause("mail")
    both = asyncio.Barrier(20)

    async def request(number: int) -> None:
        with app.acting(f"user {number}", f"why {number}"):
            await both.wait()
            await app.pause(f"q{number}")
            await asyncio.sleep(0)
            await app.resume(f"q{number}")
        await app.pause("mail")  # after the request: nobody acts

    await asyncio.gather(*(request(number) for number in range(20)))
    found = {(line.who, line.why, line.what, line.target) for line in await lines(app)}
    assert found == {
        (f"user {n}", f"why {n}", what, f"queue q{n}") for n in range(20) for what in WHATS
    }


WHATS = ("pause", "resume")


async def test_tasks_that_are_started_in_the_block_belong_to_it(app: Mita) -> None:
    go = asyncio.Event()

    async def later() -> None:
        await go.wait()
        await app.pause("mail")

    before = asyncio.create_task(later())
    with app.acting("ada"):
        inside = asyncio.create_task(later())
    go.set()
    await asyncio.gather(before, inside)
    assert [line.who for line in await lines(app)] == ["ada"]


async def test_blocks_inside_each_other(app: Mita) -> None:
    with app.acting("ada", "one"):
        with app.acting("bob", "two"):
            await app.pause("mail")
        await app.resume("mail")
        with pytest.raises(RuntimeError), app.acting("eve"):
            raise RuntimeError("the block ends all the same")
        await app.pause("mail")
    assert [line.who for line in await lines(app)] == ["bob", "ada", "ada"]


async def test_another_app_is_not_recorded() -> None:
    async with Mita("memory://one") as one, Mita("memory://two") as two:
        with one.acting("ada"):
            await two.pause("mail")
            with two.acting("bob"):
                await one.pause("mail")
                await two.pause("news")
        assert [line.who for line in await lines(one)] == ["ada"]
        assert [line.who for line in await lines(two)] == ["bob"]


def test_sync_methods_are_recorded_across_threads(url: str) -> None:
    """Each thread acts for itself; the event loop that serves them is one."""
    app = Mita(url)
    send = with_a_task(app)
    all_there = threading.Barrier(8)

    def act(number: int) -> None:
        all_there.wait()
        with app.acting(f"user {number}", f"why {number}"):
            job = send.enqueue_sync(str(number))
            app.cancel_sync(job.id)
            flow = app.flow("album")
            flow.add(send.call())
            flow.enqueue_sync().cancel_sync()
            app.repeats.put_sync(f"r{number}", send.call(), Every(60))
            with pytest.raises(UsageError):
                app.cancel_sync("nobody")
        app.pause_sync("mail")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(act, range(8)))
    wanted = ["enqueue", "cancel", "enqueue", "cancel", "repeat", "cancel"]
    for number in range(8):
        page = app.audit_sync(who=f"user {number}").entries
        assert [line.what for line in page][::-1] == wanted
        assert {line.why for line in page} == {f"why {number}"}
    assert len(app.audit_sync(limit=1000).entries) == 8 * len(wanted)
    app.close_sync()


async def test_a_worker_that_is_started_in_the_block_acts_for_itself(app: Mita) -> None:
    @app.task
    async def tidy() -> None:
        await app.pause("mail")

    job = await tidy.enqueue()
    with app.acting("ada"):
        async with working(app):
            await job.result(timeout=30)
    assert await lines(app) == []


async def test_a_handler_may_act(app: Mita) -> None:
    @app.task
    async def tidy() -> None:
        with app.acting("tidy", "nightly"):
            await app.pause("mail")

    async with lab(app) as it:
        await tidy.enqueue()
        await it.drain()
        [line] = await lines(app)
    assert (line.who, line.what) == ("tidy", "pause")


# ---------------------------------------------------------------- when something goes wrong


async def test_a_log_that_cannot_be_written_does_not_undo_the_change(
    app: Mita, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(await kind_of_store(app), "record_audit", fail)
    with caplog.at_level(logging.ERROR, "mita.client"), app.acting("ada"):
        await app.pause("mail")
    assert [view.name for view in await app.queues() if view.paused is not None] == ["mail"]
    [record] = caplog.records
    assert record.getMessage() == (
        "pause of queue mail by ada (done) is not in the audit log, which could not be written: "
        "the disk is full"
    )


async def test_a_call_that_is_interrupted_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def hang(*_: object) -> None:
        begun.set()
        await asyncio.sleep(3600)

    async with Mita("memory://interrupted") as app:
        monkeypatch.setattr(MemoryStore, "pause", hang)
        with app.acting("ada"):
            call = asyncio.create_task(app.pause("mail"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        [line] = await lines(app)
    assert line.result == "interrupted: it may have been done in part"


async def test_a_bulk_call_that_fails_in_the_middle_says_how_far_it_came(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = with_a_task(app)
    await app.enqueue_many([send.call(str(n)) for n in range(1500)])
    kind = await kind_of_store(app)
    whole, calls, seen = kind.amend, list[int](), list[tuple[int, int]]()

    async def fail_later(self: Any, ids: Any, change: Any) -> Any:
        calls.append(len(ids))
        if len(calls) > 1:
            raise StoreError("the disk is full")
        return await whole(self, ids, change)

    monkeypatch.setattr(kind, "amend", fail_later)
    with app.acting("ada"), pytest.raises(StoreError):
        await app.cancel_many(queue="mail", progress=lambda *done: seen.append(done))
    [line] = await lines(app)
    assert (line.result, line.details) == ("failed: the disk is full", {"processed": 1000})
    assert seen == [(1000, 1500)]


async def test_texts_are_cut(app: Mita) -> None:
    with app.acting("a" * 10_000, "y" * 10_000):
        with pytest.raises(UsageError):
            await app.hold("k" * 10_000, after=1)
        await app.enqueue_many([])
        await app.cancel_many(error="x" * 100_000)
    for line in await lines(app):
        assert len(line.who) == 200
        assert len(line.why) == 1000
        assert len(line.target) <= 1000
        assert len(line.result) <= 1000


async def test_details_are_bounded(app: Mita) -> None:
    job = await with_a_task(app).enqueue()
    with app.acting("ada"), pytest.raises(UsageError):
        await app.amend(job.id, arguments={f"name{n}": 1 for n in range(10_000)})
    [line] = await lines(app)
    assert line.details == {"cut": "they were too long"}


async def test_strange_text_is_kept_as_it_can_be(app: Mita) -> None:
    with app.acting("ada \udcff\0\x1b[31m", "\udcff «»\n\0"):
        await app.pause("mail")
    [line] = await lines(app)
    assert line.who.startswith("ada")
    assert "«»" in line.why


@pytest.mark.parametrize(
    "given", [("",), ("  ",), (None,), (7,), ("ada", None), ("ada", "", ""), ("ada", "", None)]
)
def test_wrong_names_are_refused(given: tuple[Any, ...]) -> None:
    app = Mita("memory://")
    with pytest.raises(UsageError, match="acting"), app.acting(*given):
        pass


# ---------------------------------------------------------------- reading


async def test_pages(app: Mita) -> None:
    with app.acting("ada"):
        for number in range(5):
            await app.pause(f"q{number}")
    first = await app.audit(limit=2)
    second = await app.audit(limit=2, after=first.after)
    third = await app.audit(limit=2, after=second.after)
    shown = [line.target for page in (first, second, third) for line in page.entries]
    assert shown == [f"queue q{n}" for n in (4, 3, 2, 1, 0)]
    assert third.after is None
    assert (await app.audit(limit=5)).after is None


async def test_filters(app: Mita) -> None:
    for who in ("ada", "bob"):
        with app.acting(who):
            await app.pause("mail")
            await app.resume("news")
    assert await whats(app, who="ada") == ["pause", "resume"]
    assert await whats(app, what="pause") == ["pause", "pause"]
    assert await whats(app, target="news", who="bob") == ["resume"]
    assert await whats(app, target="queue") == ["pause", "resume"] * 2


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": 1001}, {"limit": True}, {"after": "x y"}, {"after": 7}]
)
async def test_wrong_pages_are_refused(app: Mita, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        await app.audit(**wrong)


def test_an_entry_says_nothing_of_its_own() -> None:
    entry = AuditEntry(id="1", who="ada", via="api", what="pause", target="queue mail")
    assert (entry.why, entry.count, entry.result, entry.details) == ("", 0, "done", {})
