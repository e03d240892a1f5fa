"""However a step ends, its flow knows at once: no patrol is needed."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mita import Answer, FlowRun, Job, Mita, Retry
from mita.engine.lease_keeper import LeaseKeeper
from mita.errors import Rejected
from mita.model.ending import Raised
from mita.model.outcome import CancelJob, RescheduleJob, Settlement
from mita.model.record import FlowRecord
from mita.model.time import NOW
from mita.ports.store import Store
from mita.rules.judge import judge
from mita.testing import lab
from mita.testing.clock import FakeClock
from tests.waiting import until


class Ground:
    """An app, and how its jobs are run until none is ready. The patrol of a flow comes after 30
    seconds, so a flow that has ended after `run` was told."""

    def __init__(
        self, app: Mita, run: Callable[[], Awaitable[Any]], clock: FakeClock | None = None
    ) -> None:
        self.app, self.run, self.clock = app, run, clock
        self.calls: list[str] = []
        self.broken: set[str] = set()

        @app.task
        async def work(name: str) -> str:
            self.calls.append(name)
            if name in self.broken:
                raise ValueError(f"{name} is broken")
            return name

        @app.task
        async def then(text: str) -> str:
            self.calls.append(f"then {text}")
            return text

        self.work, self.then = work, then

    async def chain(self, first: Any) -> FlowRun:
        """A flow of this call, one that gets its result, and one that runs in any case."""
        flow = self.app.flow("f")
        step = flow.add(first)
        flow.add(self.then.call(step.result))
        flow.add(self.work.call("always"), after=[step], always=True)
        run: FlowRun = await flow.enqueue()
        return run

    async def ended(self, run: FlowRun) -> tuple[str, list[str]]:
        """The state of the flow and of its steps."""
        await self.run()
        return shown(await run.get())


def shown(record: FlowRecord | None) -> tuple[str, list[str]]:
    assert record is not None
    return str(record.state), [str(step.state) for step in record.steps]


@pytest.fixture(params=["lab", "sqlite"])
async def it(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    app = Mita(f"sqlite:///{tmp_path}/jobs.db", retry=Retry(max_retries=0, max_crashes=0))
    if request.param == "lab":
        async with lab(app) as at:
            yield Ground(app, lambda: at.drain(raises=False), at.clock)
    else:
        async with app:
            yield Ground(app, lambda: app.worker(until_empty=True).run())


CANCELLED = ("cancelled", ["cancelled", "cancelled", "succeeded"])
FAILED = ("failed", ["failed", "cancelled", "succeeded"])


async def passed(it: Ground, seconds: float) -> None:
    """Wait until so much time has passed in the store."""
    store = await it.app.open_store()
    end = await store.now() + seconds * 1000
    if it.clock is not None:
        it.clock.move_ms(round(seconds * 1000))

    async def is_over() -> bool:
        return await store.now() >= end

    await until(is_over)
    await store.close()


# ---------------------------------------------------------------- in a claim


async def test_a_step_that_expires(it: Ground) -> None:
    run = await it.chain(it.work.options(expires=0.05).call("x"))
    await passed(it, 0.1)
    assert await it.ended(run) == CANCELLED
    assert it.calls == ["always"]


async def test_a_step_whose_deadline_is_over(it: Ground) -> None:
    run = await it.chain(it.work.options(deadline=0.05).call("x"))
    await passed(it, 0.1)
    assert await it.ended(run) == FAILED
    assert it.calls == ["always"]


async def test_a_step_that_waits_for_its_key_and_is_replaced(it: Ground) -> None:
    await it.app.hold("gpu", after=60)
    first = await it.chain(it.work.options(resource="gpu").call("old"))
    await it.run()
    assert shown(await first.get())[0] == "running"
    await it.work.options(resource="gpu", when_busy="replace").enqueue("new")
    assert await it.ended(first) == CANCELLED
    assert it.calls == ["always"]


async def test_a_step_that_is_skipped_because_its_key_is_busy(it: Ground) -> None:
    await it.app.hold("gpu", after=60)
    run = await it.chain(it.work.options(resource="gpu", when_busy="skip").call("x"))
    assert await it.ended(run) == CANCELLED
    assert it.calls == ["always"]


async def test_a_step_whose_worker_died_too_often(tmp_path: Path) -> None:
    """The worker that takes it over tells its flow."""
    app = Mita(f"sqlite:///{tmp_path}/jobs.db", retry=Retry(max_retries=0, max_crashes=0))
    async with app:
        it = Ground(app, lambda: asyncio.sleep(0))
        run = await it.chain(it.work.call("x"))
        store = await app.open_store()
        claimed = await store.claim(["default"], 1, 20, "a worker that dies")
        assert len(claimed.claims) == 1
        await passed(it, 0.05)
        worker = app.worker(lease=0.5)
        running = asyncio.create_task(worker.run())

        async def has_ended() -> bool:
            return shown(await run.get())[0] != "running"

        await until(has_ended, within=25)
        worker.stop()
        await running
        assert shown(await run.get()) == FAILED
        await store.close()


async def test_a_step_that_is_cancelled_while_it_fails(it: Ground) -> None:
    """Its worker has not learned of the cancel when it puts the job back for a retry."""

    @it.app.task(retry=Retry(max_retries=3))
    async def unlucky(job: Job) -> str:
        store = await it.app.open_store()
        await store.amend([job.id], CancelJob(60_000))
        await store.close()
        raise ValueError("unlucky")

    run = await it.chain(unlucky.call())
    assert await it.ended(run) == CANCELLED


async def test_a_step_that_is_cancelled_after_it_has_told_the_next_steps(
    it: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handler has succeeded, and the next steps know that: the cancel comes too late."""
    kind = type(await it.app._store())
    whole, both = kind.arrive, kind.settle_and_claim
    asked: list[Answer] = []

    async def cancel_senders(store: Any, arrivals: Any) -> None:
        for sender in {one.sender for one in arrivals if one.sender.endswith(".000001")}:
            asked.extend(await store.amend([sender], CancelJob(60_000)))

    async def arrive(store: Any, arrivals: Any) -> Any:
        answers = await whole(store, arrivals)
        await cancel_senders(store, arrivals)
        return answers

    async def settle_and_claim(store: Any, settlements: Any, *args: Any) -> Any:
        """The worker has decided to tell them with the settlement."""
        await cancel_senders(store, [told for one in settlements for told in one.arrivals])
        return await both(store, settlements, *args)

    monkeypatch.setattr(kind, "arrive", arrive)
    monkeypatch.setattr(kind, "settle_and_claim", settle_and_claim)
    run = await it.chain(it.work.call("x"))
    assert await it.ended(run) == ("succeeded", ["succeeded"] * 3)
    assert asked == [Answer.ASKED]
    assert sorted(it.calls) == ["always", "then x", "x"]


# ---------------------------------------------------------------- by people


async def test_cancel_many(it: Ground) -> None:
    runs = [await it.chain(it.work.call(f"x{n}")) for n in range(3)]
    result = await it.app.cancel_many(task="then")
    assert (result.matched, result.answers) == (3, {Answer.DONE: 3})
    for run in runs:
        assert await it.ended(run) == ("cancelled", ["succeeded", "cancelled", "succeeded"])


async def test_cancel_many_of_first_steps_cancels_what_follows(it: Ground) -> None:
    runs = [await it.chain(it.work.call(f"x{n}")) for n in range(3)]
    first = [record.steps[0].id for run in runs if (record := await run.get()) is not None]
    for id in first:
        await it.app.cancel(id)
    for run in runs:
        assert await it.ended(run) == CANCELLED
    assert it.calls == ["always"] * 3


async def test_cancel_many_leaves_a_flow_to_end_with_its_steps(it: Ground) -> None:
    run = await it.chain(it.work.call("x"))
    result = await it.app.cancel_many(all=True)
    assert result.matched == 3
    assert await it.ended(run) == ("cancelled", ["cancelled"] * 3)


@pytest.mark.parametrize("keep", [0, 60])
async def test_cancelled_steps_that_are_not_kept(tmp_path: Path, keep: int) -> None:
    app = Mita(f"sqlite:///{tmp_path}/jobs.db", keep_failed=keep)
    async with app:
        it = Ground(app, lambda: app.worker(until_empty=True).run())
        run = await it.chain(it.work.call("x"))
        record = await run.get()
        assert record is not None
        await app.cancel(record.steps[0].id)
        await it.run()
        assert it.calls == ["always"]
        record = await run.get()
        gone = ["None", "None", "succeeded"]
        if keep:
            assert shown(record) == CANCELLED
        else:
            assert record is None or shown(record)[1] == gone


async def test_retry_many_brings_back_what_was_cancelled(it: Ground) -> None:
    it.broken = {"x0", "x1"}
    runs = [await it.chain(it.work.call(f"x{n}")) for n in range(3)]
    for run in runs[:2]:
        assert await it.ended(run) == FAILED
    it.broken = set()
    result = await it.app.retry_many(task="work")
    assert (result.matched, result.answers) == (2, {Answer.DONE: 2})
    for run in runs:
        assert await it.ended(run) == ("succeeded", ["succeeded"] * 3)
    assert sorted(it.calls) == sorted(
        ["x0", "x1", "x2", "x0", "x1", "then x0", "then x1", "then x2", *["always"] * 3]
    )


async def test_retry_many_of_all_failed_jobs(it: Ground) -> None:
    """The failed flow is a job, too: it comes back with its steps, and is not counted."""
    it.broken = {"x"}
    run = await it.chain(it.work.call("x"))
    assert await it.ended(run) == FAILED
    it.broken = set()
    assert (await it.app.retry_many(all=True)).answers == {Answer.DONE: 1}
    assert await it.ended(run) == ("succeeded", ["succeeded"] * 3)


async def test_retry_many_of_cancelled_steps(it: Ground) -> None:
    run = await it.chain(it.work.call("x"))
    await it.app.cancel_many(all=True)
    await it.run()
    assert (await it.app.retry_many(state="cancelled")).answers == {Answer.DONE: 3}
    assert await it.ended(run) == ("succeeded", ["succeeded"] * 3)
    assert it.calls.index("x") < it.calls.index("then x")


async def test_reschedule_of_a_failed_step_brings_back_what_was_cancelled(it: Ground) -> None:
    it.broken = {"x"}
    run = await it.chain(it.work.call("x"))
    assert await it.ended(run) == FAILED
    it.broken = set()
    record = await run.get()
    assert record is not None
    assert await it.app.reschedule(record.steps[0].id, after=0) is Answer.DONE
    assert await it.ended(run) == ("succeeded", ["succeeded"] * 3)


async def test_cancel_and_retry_by_the_id_of_the_flow(it: Ground) -> None:
    run = await it.chain(it.work.call("x"))
    assert await it.app.cancel(run.id) is Answer.DONE
    assert await it.ended(run) == ("cancelled", ["cancelled"] * 3)
    assert await it.app.cancel(run.id) is Answer.TOO_LATE
    assert await it.app.retry(run.id) is Answer.DONE
    assert await it.ended(run) == ("succeeded", ["succeeded"] * 3)


async def test_cancelling_a_job_that_counts_steps_cancels_the_flow(it: Ground) -> None:
    run = await it.app.group([it.work.call(str(n)) for n in range(150)]).enqueue()
    assert (await it.app.cancel_many(task="mita.gather")).answers == {Answer.DONE: 2}
    state, steps = await it.ended(run)
    assert (state, set(steps)) == ("cancelled", {"cancelled"})
    assert it.calls == []


async def test_delete_of_a_step_that_ended_unnoticed(it: Ground) -> None:
    """A process died after it had cancelled the step, and before it told the flow."""
    run = await it.chain(it.work.call("x"))
    record = await run.get()
    assert record is not None
    store = await it.app.open_store()
    await store.amend([record.steps[0].id], CancelJob(60_000))
    await store.close()
    assert await it.app.delete(record.steps[0].id) is Answer.DONE
    state, steps = await it.ended(run)
    assert (state, steps) == ("cancelled", ["None", "cancelled", "succeeded"])


async def test_delete_many_of_steps_that_ended_unnoticed(it: Ground) -> None:
    runs = [await it.chain(it.work.call(f"x{n}")) for n in range(2)]
    first = [record.steps[0].id for run in runs if (record := await run.get()) is not None]
    store = await it.app.open_store()
    await store.amend(first, CancelJob(60_000))
    await store.close()
    assert (await it.app.delete_many(state="cancelled")).answers == {Answer.DONE: 2}
    for run in runs:
        assert await it.ended(run) == ("cancelled", ["None", "cancelled", "succeeded"])


async def test_a_cancel_in_bulk_cancels_the_children_of_jobs(it: Ground) -> None:
    @it.app.task
    async def parent(job: Job) -> str:
        return await job.run(it.work.after(3600).call("child"))

    run = await it.chain(parent.call())
    plain = await parent.enqueue()
    await it.run()
    assert (await it.app.cancel_many(task="parent")).answers == {Answer.DONE: 2}
    children = (await it.app.jobs(task="work", state="cancelled")).jobs
    assert len(children) == 2
    assert await it.ended(run) == CANCELLED
    assert (await it.app.get(plain.id)).state == "cancelled"  # type: ignore[union-attr]


async def test_a_cancel_in_bulk_looks_for_children_only_where_a_worker_was(
    it: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People have moved these jobs, and none of them ever ran."""
    await it.app.enqueue_many([it.work.after(3600).call(f"x{n}") for n in range(3)])
    moved = await it.app.reschedule_many(task="work", after=7200)
    assert moved.answers == {Answer.DONE: 3}
    store = await it.app.open_store()

    async def unwanted(_: Store, id: str) -> dict[str, bytes]:
        raise AssertionError(f"{id} has no children")

    monkeypatch.setattr(type(store), "once_values", unwanted)
    assert (await it.app.cancel_many(task="work")).answers == {Answer.DONE: 3}


async def test_a_cancel_of_the_flow_cancels_the_children_of_its_steps(it: Ground) -> None:
    @it.app.task
    async def parent(job: Job) -> str:
        return await job.run(it.work.after(3600).call("child"))

    run = await it.app.chain(parent.call(), it.then.call).enqueue()
    await it.run()
    assert await run.cancel() == 2
    assert len((await it.app.jobs(task="work", state="cancelled")).jobs) == 1
    assert (await it.ended(run))[0] == "cancelled"


# ---------------------------------------------------------------- at the end of a worker


async def test_a_step_that_is_settled_while_its_worker_is_killed(it: Ground) -> None:
    """The lease keeper settles what is left when the event loop is blocked."""
    run = await it.chain(it.work.call("x"))
    store = await it.app.open_store()
    [claim] = (await store.claim(["default"], 1, 60_000, "w")).claims
    verdict = judge(claim, Raised("ValueError: x", final=True), it.app.kept, 0.0)
    keeper: Any = LeaseKeeper.__new__(LeaseKeeper)
    keeper._retention = it.app.kept
    await keeper._settle(store, [Settlement(claim, verdict)])
    await store.close()
    assert await it.ended(run) == FAILED


# ---------------------------------------------------------------- damaged records


async def test_a_step_that_has_lost_its_place(tmp_path: Path) -> None:
    """Nobody knows whom it should tell: the patrol of its flow counts it as gone."""
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")
    async with app:
        it = Ground(app, lambda: app.worker(until_empty=True).run())
        run = await it.chain(it.work.call("x"))
        record = await run.get()
        assert record is not None
        with sqlite3.connect(tmp_path / "jobs.db") as file:
            file.execute("update _mita_job set options = x'c1' where id = ?", (record.steps[0].id,))
        file.close()
        for _ in range(2):
            await it.run()
            await patrol(await app.open_store(), run)
        assert await it.ended(run) == ("cancelled", ["succeeded", "cancelled", "succeeded"])


async def patrol(store: Store, run: FlowRun) -> None:
    """Let the flow look after its steps now."""
    await store.amend([run.id], RescheduleJob(NOW))
    await store.close()


# ---------------------------------------------------------------- what a store rejects


MOST_BYTES = 1000  # that the store in these tests takes of what a job tells another


@pytest.mark.parametrize(("size", "what"), [(1500, "one"), (50, "together")])
async def test_a_step_that_tells_too_much_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, what: str
) -> None:
    """SQLite tells and settles many steps in one operation. One that is rejected does not stop the
    others. If only the results of all are too much, the job that gathers them fails."""
    app = Mita(f"sqlite:///{tmp_path}/jobs.db", retry=Retry(max_retries=0))

    def check(arrivals: Any) -> None:
        if any(len(one.value) > MOST_BYTES for one in arrivals):
            raise Rejected("too large")

    kind = type(await app._store())
    tell, both = kind.arrive, kind.settle_and_claim

    async def arrive(store: Any, arrivals: Any) -> Any:
        check(arrivals)
        return await tell(store, arrivals)

    async def settle_and_claim(store: Any, settlements: Any, *args: Any) -> Any:
        check([told for one in settlements for told in one.arrivals])
        return await both(store, settlements, *args)

    monkeypatch.setattr(kind, "arrive", arrive)
    monkeypatch.setattr(kind, "settle_and_claim", settle_and_claim)

    @app.task
    async def make(n: int) -> str:
        return "x" * (size if what == "together" or n == 5 else 1)

    @app.task
    async def total(parts: list[str]) -> int:
        return sum(map(len, parts))

    async with app:
        run = await app.group([make.call(n) for n in range(120)]).then(total.call).enqueue()
        await app.worker(until_empty=True).run()
        state, steps = shown(await run.get())
        assert (state, steps[-1]) == ("failed", "cancelled")
        failed = [number for number, step in enumerate(steps) if step == "failed"]
        assert failed == ([5] if what == "one" else [])
        assert set(steps[:-1]) - {"failed"} == {"succeeded"}
        task = "make" if what == "one" else "mita.gather"
        for job in (await app.jobs(task=task, state="failed")).jobs:
            assert "store it elsewhere and return its name" in str(job.error)
