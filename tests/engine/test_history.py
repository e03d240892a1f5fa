"""A worker counts its runs, and adds them to the history in the store every few seconds."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mita import Abort, Job, Mita, Reschedule, Retry, StoreError
from mita.engine import history_writer, run_tally
from mita.engine.run_tally import RunTally
from mita.model.history import RunCounts
from mita.model.job import Claim, State
from mita.model.outcome import Counter, Settlement, Start, Verdict
from mita.rules.judge import RELEASE, success
from mita.stores.memory import MemoryStore
from mita.stores.sqlite import SqliteStore
from mita.stores.sqlite.context import SqliteContext
from tests.counting import calls_counted
from tests.waiting import until

from .conftest import working
from .outage import Outage, outage  # noqa: F401, RUF100

SHORT_FLUSH_S = 0.02
NUMBERS = ("succeeded", "failed", "retried", "rescheduled", "cancelled")


async def totals(app: Mita, **filters: Any) -> dict[tuple[str, str], tuple[int, ...]]:
    """How the runs of the last hour ended, by queue and task. Minutes and hours must agree."""
    found: list[dict[tuple[str, str], tuple[int, ...]]] = []
    for by in ("minute", "hour"):
        sums: dict[tuple[str, str], tuple[int, ...]] = {}
        for point in await app.history(by=by, since=timedelta(hours=2), **filters):
            pair, numbers = (point.queue, point.task), [getattr(point, name) for name in NUMBERS]
            before = sums.get(pair, (0,) * len(NUMBERS))
            sums[pair] = tuple(one + two for one, two in zip(before, numbers, strict=True))
        found.append(sums)
    assert found[0] == found[1]
    return found[0]


async def test_every_ending_of_a_run_is_counted(app: Mita) -> None:
    """On every store, by queue and task, when the worker stops."""
    again = Retry(max_retries=1, base=0)

    @app.task(name="fine")
    async def fine() -> None: ...

    @app.task(name="threaded", queue="other")
    def threaded() -> str:
        return "done"

    @app.task(name="flaky", retry=again)
    async def flaky() -> None:
        raise ValueError

    @app.task(name="abort")
    async def abort() -> None:
        raise Abort("no")

    @app.task(name="moving", max_reschedules=5)
    async def moving(job: Job) -> None:
        if job.reschedules < 2:
            raise Reschedule(after=0)

    async with app:
        calls = [fine.call() for _ in range(5)] + [threaded.call(), threaded.call()]
        await app.enqueue_many([*calls, flaky.call(), abort.call(), moving.call()])
        await app.worker(until_empty=True, schedule=False).run()
        assert await totals(app) == {
            ("default", "fine"): (5, 0, 0, 0, 0),
            ("other", "threaded"): (2, 0, 0, 0, 0),
            ("default", "flaky"): (0, 1, 1, 0, 0),
            ("default", "abort"): (0, 1, 0, 0, 0),
            ("default", "moving"): (1, 0, 0, 2, 0),
        }
        assert await totals(app, queue="other") == {("other", "threaded"): (2, 0, 0, 0, 0)}


async def test_a_cancelled_run_and_the_times_of_runs_are_counted(tmp_path: Path) -> None:
    app = Mita(f"sqlite:///{tmp_path / 'jobs.db'}")
    started = asyncio.Event()

    @app.task(name="long")
    async def long() -> None:
        started.set()
        await asyncio.sleep(60)

    @app.task(name="nap", queue="naps")
    async def nap() -> None:
        await asyncio.sleep(0.05)

    async with app:
        async with working(app):
            handle = await long.enqueue()
            await nap.after(0.05).enqueue()
            await asyncio.wait_for(started.wait(), 20)
            await app.cancel(handle.id)
            await until(lambda: counted(app, 2), "both runs are counted")
        assert (await totals(app))["default", "long"] == (0, 0, 0, 0, 1)
        [point] = await app.history(queue="naps")
        assert point.run_seconds >= 0.05
        assert 0 <= point.wait_seconds < 60


async def counted(app: Mita, count: int) -> bool:
    with suppress(StoreError):
        return sum(point.runs for point in await app.history()) >= count
    return False


async def test_a_worker_adds_its_runs_while_it_runs_and_calls_the_store_only_then(
    app: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_writer, "FLUSH_S", SHORT_FLUSH_S)
    flushes: list[int] = []
    whole = history_writer.HistoryWriter._flush

    async def flush(self: history_writer.HistoryWriter) -> None:
        flushes.append(len(self._tally._sums))
        await whole(self)

    monkeypatch.setattr(history_writer.HistoryWriter, "_flush", flush)

    @app.task(name="work")
    async def work() -> None: ...

    async with app, working(app):
        await app.enqueue_many([work.call() for _ in range(50)])
        await until(lambda: counted(app, 50), "the runs are shown while the worker runs")
        since = len(flushes)
        await until(lambda: len(flushes) > since + 3)
        assert sum(flushes[since:]) == 0, "nothing has happened, so there is nothing to send"
        assert await totals(app) == {("default", "work"): (50, 0, 0, 0, 0)}


async def test_what_the_store_does_not_take_is_sent_later(
    outage: Outage,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker goes on while its store is unreachable, and nothing is lost or counted twice."""
    monkeypatch.setattr(history_writer, "FLUSH_S", SHORT_FLUSH_S)
    app, may_end, failed = Mita(outage.url), asyncio.Event(), asyncio.Event()
    whole = RunTally.give_back

    def give_back(self: RunTally, counts: Sequence[RunCounts]) -> None:
        whole(self, counts)
        failed.set()

    monkeypatch.setattr(RunTally, "give_back", give_back)

    @app.task(name="work")
    async def work() -> None:
        await may_end.wait()

    async with app, working(app, lease=30) as worker:
        await app.enqueue_many([work.call() for _ in range(3)])
        await until(lambda: len(worker.running()) == 3)
        outage.cut()
        # as if these had been settled just before
        worker._tally.give_back([RunCounts(queue="q", task="t", succeeded=7, run_ms=70)])
        failed.clear()
        await asyncio.wait_for(failed.wait(), 30)
        assert len(worker.running()) == 3
        outage.open()
        may_end.set()
        await until(lambda: counted(app, 10), "all are counted")
    assert await totals(app) == {("q", "t"): (7, 0, 0, 0, 0), ("default", "work"): (3, 0, 0, 0, 0)}
    await app.close()


@pytest.mark.parametrize("error", [StoreError("not allowed", transient=False), KeyError("a bug")])
async def test_a_store_that_refuses_the_history_stops_no_worker_and_is_reported_once(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history_writer, "FLUSH_S", SHORT_FLUSH_S)
    app = Mita("memory://")
    asked: list[int] = []

    async def count_runs(_: MemoryStore, counts: Sequence[RunCounts]) -> NoReturn:
        asked.append(len(counts))
        raise error

    monkeypatch.setattr(MemoryStore, "count_runs", count_runs)

    @app.task
    async def work() -> str:
        return "done"

    with caplog.at_level(logging.WARNING, "mita.worker"):
        async with app, working(app):
            for _ in range(3):
                before = len(asked)
                assert await (await work.enqueue()).result(timeout=20) == "done"
                await until(lambda before=before: len(asked) > before)  # type: ignore[misc]
    said = [record for record in caplog.records if "history of runs" in record.message]
    assert len(said) == 1


async def test_a_store_that_hangs_does_not_hold_up_the_end_of_a_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history_writer, "FLUSH_S", SHORT_FLUSH_S)
    monkeypatch.setattr("mita.engine.worker.LAST_COUNT_S", 0.05)
    app, asked = Mita("memory://"), asyncio.Event()

    async def count_runs(_: MemoryStore, counts: Sequence[RunCounts]) -> None:
        asked.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(MemoryStore, "count_runs", count_runs)

    @app.task
    async def work() -> None: ...

    async with app, working(app):
        await (await work.enqueue()).result(timeout=20)
        await asyncio.wait_for(asked.wait(), 20)
    assert "could not count the last runs within 0.05 s" in caplog.text


async def test_the_jobs_of_flows_that_mita_runs_itself_are_not_counted(app: Mita) -> None:
    @app.task(name="part")
    async def part() -> int:
        return 1

    async with app:
        run = await app.group([part.call() for _ in range(3)]).enqueue()
        async with working(app):
            await run.wait(timeout=30)
        assert await totals(app) == {("default", "part"): (3, 0, 0, 0, 0)}


# ---------------------------------------------------------------- the tally alone

SUCCESS = success(b"", 0)
RETRIED = Verdict(state=State.QUEUED, counts=Counter.ATTEMPTS, error="no")
LOST = Verdict(state=State.QUEUED, counts=Counter.CRASHES)


def claim(queue: str = "q", task: str = "t", **more: Any) -> Claim:
    times = {"at": 1500, "due": 1000, "created": 1000}
    packed = dict.fromkeys(("payload", "options", "headers"), b"")
    return Claim(
        **{"id": "1", "token": 1, "priority": 5, **times, **packed, **more}, task=task, queue=queue
    )


def taken(tally: RunTally) -> dict[tuple[str, str], RunCounts]:
    return {(one.queue, one.task): one for one in tally.take()}


def test_the_tally_adds_up_counts_runs_and_waits() -> None:
    tally, start = RunTally(), Start("t", "q", 0, 0.25)
    batch = [
        Settlement(claim(), SUCCESS, 2.0, False, start, waited=0.25),
        Settlement(claim(), SUCCESS, 1.0, waited=0.5),
        Settlement(claim(due=9000), SUCCESS, 1.0),  # clocks may differ
        Settlement(claim(), RETRIED, 0.5, waited=0.1),
        Settlement(claim(), SUCCESS, 4.0, was_cancelled=True),
        Settlement(claim(), RELEASE),
        Settlement(claim("other", "t"), SUCCESS, 0.1),
    ]
    tally.settled(batch, [True] * len(batch))
    assert tally.ended == {"q": 5, "other": 1}
    assert taken(tally) == {
        ("q", "t"): RunCounts(
            queue="q", task="t", succeeded=3, retried=1, cancelled=1, run_ms=8500, wait_ms=2850
        ),
        ("other", "t"): RunCounts(queue="other", task="t", succeeded=1, run_ms=100, wait_ms=500),
    }
    assert taken(tally) == {}


def test_a_run_whose_token_was_stale_is_not_counted() -> None:
    tally = RunTally()
    tally.settled([Settlement(claim(), SUCCESS), Settlement(claim(), SUCCESS)], [False, True])
    assert taken(tally)["q", "t"].succeeded == 1


def test_a_run_of_a_dead_worker_counts_as_retried_and_has_no_times() -> None:
    tally = RunTally()
    tally.lost([Settlement(claim(), LOST), Settlement(claim(), LOST)], [True, False])
    assert taken(tally) == {("q", "t"): RunCounts(queue="q", task="t", retried=1)}
    assert tally.ended == {}


def test_pairs_beyond_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until an hour is over: then other pairs may be named."""
    monkeypatch.setattr(run_tally, "MOST_PAIRS", 3)
    now = [100.0]
    tally = RunTally(lambda: now[0])

    def run(*tasks: str) -> dict[str, int]:
        batch = [Settlement(claim(task=task), SUCCESS) for task in tasks]
        tally.settled(batch, [True] * len(batch))
        return {task: one.succeeded for (_, task), one in taken(tally).items()}

    assert run("a", "b", "c", "d", "e", "a") == {"a": 2, "b": 1, "c": 1, "": 2}
    assert run("d", "a") == {"": 1, "a": 1}
    now[0] += run_tally.NAMED_FOR_S
    assert run("a") == {"a": 1}
    assert run("d", "e", "f", "a") == {"d": 1, "e": 1, "f": 1, "": 1}


def test_what_is_given_back_is_added_to_what_was_counted_since() -> None:
    tally = RunTally()
    one = RunCounts(queue="q", task="t", succeeded=2, failed=1, run_ms=5, wait_ms=6)
    tally.give_back([one])
    tally.settled([Settlement(claim(), SUCCESS, 0.001)], [True])
    expected = RunCounts(queue="q", task="t", succeeded=3, failed=1, run_ms=6, wait_ms=506)
    assert taken(tally) == {("q", "t"): expected}


# ---------------------------------------------------------------- what it costs


def settlements(count: int) -> list[Settlement]:
    """Runs as a drain has them: of one task, half of them reported as started before."""
    start = Start("t", "q", 0, 0.0)
    return [
        Settlement(claim(), SUCCESS, 0.001, False, start if n % 2 else None) for n in range(count)
    ]


def test_a_batch_of_runs_costs_no_call_per_run() -> None:
    """However many runs a batch has, counting them calls the same few functions."""
    tally, calls = RunTally(), []
    for count in (10, 1000):
        batch, took = settlements(count), [True] * count
        tally.settled(batch, took)
        with calls_counted() as counted_calls:
            tally.settled(batch, took)
        calls.append(counted_calls[0])
    assert calls[0] == calls[1] <= 12
    assert taken(tally)["q", "t"].succeeded == 2 * 1010


async def test_a_drain_calls_the_store_once_in_a_while_and_not_for_each_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here no flush is due before the worker stops, so there is one call."""
    monkeypatch.setattr(history_writer, "FLUSH_S", 3600)
    app, sent = Mita("memory://"), []
    whole = MemoryStore.count_runs

    async def count_runs(store: MemoryStore, counts: Sequence[RunCounts]) -> None:
        sent.append([(one.task, one.succeeded) for one in counts])
        await whole(store, counts)

    monkeypatch.setattr(MemoryStore, "count_runs", count_runs)

    @app.task(name="work")
    async def work() -> None: ...

    async with app:
        await app.worker(until_empty=True).run()
        assert sent == []
        await app.enqueue_many([work.call() for _ in range(2000)])
        await app.worker(until_empty=True).run()
    assert sent == [[("work", 2000)]]


async def test_a_flush_is_one_statement_on_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = SqliteStore(tmp_path / "jobs.db"), []
    whole = SqliteContext.run

    def run_one(context: SqliteContext, name: str, /, **values: Any) -> int:
        run.append(name)
        return whole(context, name, **values)

    await store.open()
    monkeypatch.setattr(SqliteContext, "run", run_one)
    await store.count_runs([RunCounts(queue="q", task=f"t{n}", succeeded=1) for n in range(1000)])
    await store.close()
    assert run == ["count_runs"]
