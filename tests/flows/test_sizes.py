"""Flows that are large, and results that are too large for their store."""

from pathlib import Path
from typing import Any

import pytest

from mita import FlowRun, Mita, Retry
from mita.flows import own_jobs
from mita.model.ending import Suspended
from mita.model.time import HOUR, When
from mita.rules.flow import FLOW_TASK, GATHER_TASK, step_id
from mita.stores.memory.store import MemoryStore
from mita.stores.sqlite.store import SqliteStore
from mita.testing import Lab, lab
from tests.counting import calls_counted
from tests.engine.conftest import working
from tests.engine.test_too_large import TIGHT
from tests.waiting import until


class Tasks:
    def __init__(self, app: Mita) -> None:
        @app.task
        async def member(n: int, characters: int) -> str:
            return str(n % 10) * characters

        @app.task
        async def total(texts: list[str]) -> int:
            return sum(len(text) for text in texts)

        self.member, self.total = member, total


async def has_ended(run: FlowRun) -> bool:
    record = await run.get()
    return record is not None and record.state != "running"


@pytest.fixture(params=TIGHT)
def tight(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mita:
    """An app on a store that takes little, about 50,000 bytes for a job."""
    return Mita(TIGHT[request.param](tmp_path, monkeypatch), retry=Retry(max_retries=0))


async def test_results_that_are_too_large_together(tight: Mita) -> None:
    """Each of the 150 members returns 1,500 bytes, and a hundred of them are gathered in one. A
    store takes them, or some job fails with the remedy, at once and for good."""
    async with tight as app:
        tasks = Tasks(app)
        calls = [tasks.member.call(n, 1500) for n in range(150)]
        run = await app.group(calls).then(tasks.total.call).enqueue()
        async with working(app):
            await until(lambda: has_ended(run), within=25)  # no patrol was needed
        record = await run.get()
        assert record is not None
        callback = await app.get(record.steps[-1].id)
        assert callback is not None
        if record.state == "succeeded":
            assert callback.result == 150 * 1500
            return
        assert record.state == "failed"
        errors = [record.error or "", *(step.error for step in record.steps)]
        assert any("store it elsewhere and return its name" in error for error in errors)
        failed = (await app.jobs(state="failed")).jobs
        assert {job.attempts for job in failed if job.task != "mita.flow"} == {1}


async def test_results_that_fit_are_all_there(tight: Mita) -> None:
    async with tight as app:
        tasks = Tasks(app)
        calls = [tasks.member.call(n, 100) for n in range(150)]
        run = await app.group(calls).then(tasks.total.call).enqueue()
        async with working(app):
            await run.wait(timeout=60)
        record = await run.get()
        assert record is not None
        done = await app.get(record.steps[-1].id)
        assert done is not None
        assert done.result == 15_000


# ---------------------------------------------------------------- many steps


def large_app(keep: int = 0) -> tuple[Mita, set[int]]:
    """An app with a task that fails for some numbers."""
    app, broken = Mita("memory://", keep=keep, retry=Retry(max_retries=0)), set[int]()

    @app.task(name="one")
    async def one(n: int) -> int:
        if n in broken:
            raise ValueError(f"{n} is broken")
        return n

    @app.task(name="total")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    return app, broken


async def calls_of_a_group(members: int) -> list[int]:
    """How many functions are called to enqueue a group with a callback, to cancel, retry, run and
    get it."""
    app, _ = large_app(keep=3600)
    one, total = app.tasks["one"], app.tasks["total"]
    async with lab(app) as it:
        with calls_counted() as enqueue:
            group = app.group([one.call(n) for n in range(members)]).then(total.call)
            run = await group.enqueue()
        with calls_counted() as cancel:
            assert await run.cancel() == members + 1
        await it.drain()
        with calls_counted() as retry:
            assert await run.retry() == members + 1
        with calls_counted() as runs:
            await it.advance(5)
        with calls_counted() as get:
            record = await run.get()
    assert record is not None
    assert record.state == "succeeded"
    return [calls[0] for calls in (enqueue, cancel, retry, runs, get)]


async def test_what_a_large_group_costs_is_linear() -> None:
    """Four times as many members take four times as many calls. `python -m benchmarks.flow_sizes`
    measures 10,000 and 100,000 members on real stores."""
    few, many = await calls_of_a_group(150), await calls_of_a_group(600)
    assert [more / less < 4.4 for less, more in zip(few, many, strict=True)] == [True] * 5


async def test_a_flow_with_counters_is_not_woken_by_them() -> None:
    """A counter tells its flow once: nobody takes it for a step that was retried."""
    app, _ = large_app(keep=60)
    async with lab(app) as it:
        run = await app.group([app.tasks["one"].call(n) for n in range(350)]).enqueue()
        await it.drain()
        record = await app.get(run.id)
    assert record is not None
    assert {line.kind for line in record.timeline} <= {"created", "started", "succeeded"}


async def test_a_patrol_knows_what_counters_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step has failed and told its counter, and the counter has not told the flow."""
    app, broken = large_app()
    broken |= {149}

    async def asleep(*_: object) -> Suspended:
        return Suspended(When(24 * HOUR))

    async with lab(app) as it:
        run = await app.group([app.tasks["one"].call(n) for n in range(150)]).enqueue()
        monkeypatch.setitem(own_jobs._RUN, GATHER_TASK, asleep)
        await it.advance(3600, raises=False)
        record = await run.get()
    assert record is not None
    assert record.state == "failed"


async def test_a_large_flow_that_is_retried_succeeds_when_its_steps_are_gone() -> None:
    app, broken = large_app()
    broken |= set(range(0, 250, 2))
    async with lab(app) as it:
        run = await app.group([app.tasks["one"].call(n) for n in range(250)]).enqueue()
        await it.drain(raises=False)
        record = await run.get()
        assert record is not None
        assert record.state == "failed"
        broken.clear()
        assert await run.retry() == 125
        await pruned_and_ended(app, it)
        assert await run.get() is None  # it has succeeded: a failed flow is kept


async def pruned_and_ended(app: Mita, it: Lab) -> None:
    """Run what is due, delete the records of what has succeeded, and let the flow end."""
    store = await app.open_store()
    await it.drain()
    await store.prune(1000, 0)
    await it.advance(60)
    await store.close()


async def test_a_large_flow_that_is_retried_before_it_has_ended_succeeds() -> None:
    """All steps are cancelled, and no worker has ended the flow when they are retried. Their
    records are gone when it ends."""
    app, _ = large_app()
    async with lab(app) as it:
        run = await app.group([app.tasks["one"].call(n) for n in range(250)]).enqueue()
        await run.cancel()
        assert await run.retry() == 250
        await pruned_and_ended(app, it)
        assert await run.get() is None  # a cancelled flow is kept


@pytest.mark.parametrize("deleted", ["while the flow runs", "after it has ended"])
async def test_a_step_of_a_large_flow_that_is_deleted_after_a_retry_has_not_succeeded(
    deleted: str,
) -> None:
    app, broken = large_app()
    broken |= {7, 8}
    async with lab(app) as it:
        run = await app.group([app.tasks["one"].call(n) for n in range(250)]).enqueue()
        await it.drain(raises=False)
        assert await run.retry() == 2  # both fail again
        is_running = deleted == "while the flow runs"
        await it.advance(0.5 if is_running else 60, raises=False)
        record = await run.get()
        assert record is not None
        assert record.state == ("running" if is_running else "failed")
        await app.delete(step_id(run.id, 8))
        broken.clear()
        await app.retry(step_id(run.id, 9))
        await pruned_and_ended(app, it)
        record = await run.get()
    assert record is not None
    assert record.state == "failed"


async def test_the_end_of_a_large_flow_that_was_retried_is_read_by_counter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All 600 members were cancelled and retried. Whether they have added steps is asked of their
    six counters, and not for each of them."""
    app, _ = large_app(keep=3600)
    read: list[str] = []
    whole = MemoryStore.once_values

    async def once_values(store: MemoryStore, id: str) -> dict[str, bytes]:
        read.append(id)
        return await whole(store, id)

    async with lab(app) as it:
        run = await app.group([app.tasks["one"].call(n) for n in range(600)]).enqueue()
        await run.cancel()
        await it.drain(raises=False)
        assert await run.retry() == 600
        monkeypatch.setattr(MemoryStore, "once_values", once_values)
        await it.advance(5)
        record = await run.get()
    assert record is not None
    assert record.state == "succeeded"
    assert len(read) < 100


async def test_a_flow_keeps_its_lease_while_it_looks_after_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look after many steps takes longer than a lease."""
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")
    extended: list[str] = []

    @app.task
    async def one() -> None:
        return

    look = own_jobs._RUN[FLOW_TASK]

    async def looks_long(tools: own_jobs.OwnTools, *rest: Any) -> Any:
        await until(lambda: len(extended) >= 5)  # that is longer than a lease
        return await look(tools, *rest)

    whole = SqliteStore.extend

    async def extend(store: SqliteStore, claims: Any, lease: int) -> Any:
        extended.extend(claim.id for claim in claims if claim.task == FLOW_TASK)
        return await whole(store, claims, lease)

    monkeypatch.setitem(own_jobs._RUN, FLOW_TASK, looks_long)
    monkeypatch.setattr(SqliteStore, "extend", extend)
    async with app:
        run = await app.group([one.call()]).enqueue()
        async with working(app, lease=0.6):
            await run.wait(timeout=60)
        record = await app.get(run.id)
    assert record is not None
    assert record.state == "succeeded"
    assert [line.kind for line in record.timeline] == ["created", "started", "succeeded"]


# ---------------------------------------------------------------- few steps


@pytest.mark.parametrize("steps", [1, 100, 101])
async def test_a_small_flow_is_stored_in_one_call(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite and PostgreSQL all of it is there or nothing, so nobody has to say that it is."""
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def one(n: int) -> int:
        return n

    async with app:
        store, told = await app._store(), list[int]()
        whole = store.arrive

        async def arrive(arrivals: list[Any]) -> Any:
            told.append(len(arrivals))
            return await whole(arrivals)

        monkeypatch.setattr(store, "arrive", arrive)
        run = await app.group([one.call(n) for n in range(steps)]).enqueue()
        assert told == ([] if steps <= 100 else [1])
        await app.worker(until_empty=True).run()
        record = await run.get()
    assert record is not None
    assert record.state == "succeeded"
