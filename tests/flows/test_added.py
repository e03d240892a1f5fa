"""Steps that a running handler adds to its flow."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mita import FlowRecord, FlowRun, Job, JobCancelled, JobFailed, Mita, Retry
from mita.engine import inline, rejections
from mita.events import Emit
from mita.flows import additions, runs
from mita.model.ending import Lost
from mita.model.flow import AddedSteps
from mita.model.outcome import Settlement
from mita.ports.store import Store
from mita.rules.judge import Retention, judge
from mita.testing import lab

DAY = timedelta(days=1)


class Crawl:
    """An app whose task `scan` adds a step for each page, and one that adds them up."""

    def __init__(self) -> None:
        self.app = app = Mita("memory://", retry=Retry(max_retries=1))
        self.calls: list[str] = []
        self.broken: set[str] = set()

        @app.task
        async def count(text: str) -> int:
            self.seen(f"count {text}")
            return len(text)

        @app.task
        async def total(numbers: list[int]) -> int:
            self.seen(f"total {numbers}")
            return sum(numbers)

        @app.task
        async def scan(job: Job, pages: list[str]) -> str:
            parts = [await job.add(count.call(page)) for page in pages]
            await job.add(total.call(job.results(parts)))
            self.seen("scan")
            return "scanned"

        @app.task
        async def tell(what: str) -> None:
            self.seen(f"tell {what}")

        self.count, self.total, self.scan, self.tell = count, total, scan, tell

    def seen(self, what: str) -> None:
        self.calls.append(what)
        if what in self.broken:
            raise ValueError(f"{what} is broken")


async def shown(run: FlowRun) -> FlowRecord:
    """The record of a flow that is in the store."""
    record = await run.get()
    assert record is not None
    return record


def states(record: FlowRecord) -> list[str]:
    """The tasks and states of the steps that were added."""
    return [f"{step.task} {step.state}" for step in record.steps if step.added_by is not None]


async def test_the_flow_ends_with_the_steps_that_were_added() -> None:
    it = Crawl()
    flow = it.app.flow("crawl")
    scan = flow.add(it.scan.call(["a", "bb"]))
    flow.add(it.tell.call(scan.result))
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain()
        await run.wait()
        record = await shown(run)
    assert sorted(it.calls[1:]) == ["count a", "count bb", "tell scanned", "total [1, 2]"]
    assert states(record) == ["count succeeded", "count succeeded", "total succeeded"]
    assert {step.added_by for step in record.steps[2:]} == {record.steps[0].id}
    assert record.total == 2


async def test_a_run_that_fails_adds_nothing() -> None:
    it = Crawl()
    it.broken = {"scan"}
    async with lab(it.app) as at:
        run = await it.app.chain(it.scan.call(["a"])).enqueue()
        await at.drain(raises=False)
        assert it.calls == ["scan"]
        assert states(await shown(run)) == []
        it.broken = set()
        await at.advance(DAY)  # its retry
        await run.wait()
    assert it.calls == ["scan", "scan", "count a", "total [1]"]


async def test_an_added_step_that_fails_fails_the_flow_and_can_be_retried() -> None:
    it = Crawl()
    it.broken = {"count a"}
    async with lab(it.app) as at:
        run = await it.app.chain(it.scan.call(["a", "bb"])).enqueue()
        await at.advance(DAY, raises=False)
        with pytest.raises(JobFailed, match="some of the steps that step 1 added failed"):
            await run.wait()
        record = await shown(run)
        assert states(record) == ["count failed", "count succeeded", "total cancelled"]
        it.broken = set()
        assert await run.retry() == 2
        await at.drain()
        await run.wait()
        assert (await shown(run)).state == "succeeded"
    assert it.calls[-2:] == ["count a", "total [1, 2]"]


async def test_an_added_step_that_is_retried_brings_its_flow_back() -> None:
    it = Crawl()
    it.broken = {"count a"}
    async with lab(it.app) as at:
        run = await it.app.chain(it.scan.call(["a"])).enqueue()
        await at.advance(DAY, raises=False)
        assert (await shown(run)).state == "failed"
        it.broken = set()
        await it.app.retry((await shown(run)).steps[1].id)
        await at.drain()
        await run.wait()


async def test_cancelling_the_flow_cancels_what_was_added() -> None:
    it = Crawl()
    it.broken = {"count a"}
    async with lab(it.app) as at:
        run = await it.app.chain(it.scan.call(["a"])).enqueue()
        await at.drain(raises=False)  # `count` waits for its retry
        assert await run.cancel() == 2
        await at.drain()
        with pytest.raises(JobCancelled):
            await run.wait()
        assert states(await shown(run)) == ["count cancelled", "total cancelled"]


async def test_added_steps_add_steps() -> None:
    app = Mita("memory://")
    visited: list[str] = []

    @app.task
    async def visit(job: Job, page: str, depth: int) -> None:
        visited.append(page)
        if depth:
            for link in "ab":
                await job.add(visit.call(page + link, depth - 1))

    async with lab(app) as at:
        run = await app.chain(visit.call("/", 3)).enqueue()
        await at.drain()
        await run.wait()
        record = await shown(run)
    assert len(visited) == len(set(visited)) == 1 + 2 + 4 + 8
    assert len(record.steps) == 15


async def test_many_steps_add_many() -> None:
    """More than one counter, here and in what is added."""
    it = Crawl()
    async with lab(it.app) as at:
        calls = [it.scan.call(["x"]) for _ in range(120)] + [it.scan.call(["x"] * 150)]
        run = await it.app.group(calls).enqueue()
        await at.drain()
        await run.wait()
        record = await shown(run)
    assert it.calls.count("count x") == 120 + 150
    assert it.calls.count("total [1]") == 120
    assert it.calls.count(f"total {[1] * 150}") == 1
    assert len(record.steps) == 121 + 2 * 120 + 151


async def test_a_retried_step_adds_after_its_counter_has_ended() -> None:
    it = Crawl()
    it.broken = {"scan", "count x"}
    async with lab(it.app) as at:
        calls: Sequence[Any] = [it.tell.call("x")] * 120
        run = await it.app.group([it.scan.call(["x"]), *calls]).enqueue()
        await at.advance(DAY, raises=False)
        assert (await shown(run)).state == "failed"
        it.broken = {"count x"}
        assert await run.retry() == 1
        await at.drain(raises=False)
        assert (await shown(run)).state == "running"  # until what was added has ended
        it.broken = set()
        await at.advance(DAY)
        await run.wait()
    assert it.calls[-2:] == ["count x", "total [1]"]


async def test_what_was_retried_counts_when_its_records_are_gone() -> None:
    """The flow goes on for days after the retry, and nobody keeps the steps for so long."""
    it = Crawl()
    it.broken = {"tell x", "scan", "count y"}

    @it.app.task
    async def nap(job: Job) -> None:
        await job.sleep(2 * DAY)

    async with lab(it.app) as at:
        calls = [it.tell.call("x"), it.scan.call(["y"]), it.scan.call(["z"]), nap.call()]
        run = await it.app.group(calls).enqueue()
        await at.advance(3600, raises=False)
        it.broken = {"count y"}
        await run.retry()
        await at.advance(3600, raises=False)
        it.broken = set()
        await run.retry()
        await at.advance(DAY)
        for step in (await shown(run)).steps:
            if step.state == "succeeded":
                await it.app.delete(step.id)
        assert (await shown(run)).state == "running"
        await at.advance(2 * DAY)
        await run.wait()


# ---------------------------------------------------------------- workers that die


async def test_a_worker_that_dies_after_its_counter_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler is not called again, and the added steps run once."""
    it = Crawl()
    died: list[str] = []

    async def settle(store: Store, batch: Sequence[Settlement], keep: Retention) -> Any:
        if batch[0].claim.task == "scan" and not died:
            died.append("scan")
            lost = judge(batch[0].claim, Lost(), keep, 0.0)
            batch = [replace(batch[0], verdict=lost, added=None)]
        return await settled(store, batch, keep)

    settled = rejections.settle
    monkeypatch.setattr(inline, "settle", settle)
    async with lab(it.app) as at:
        run = await it.app.chain(it.scan.call(["a"]), it.tell.call).enqueue()
        await at.advance(DAY)
        await run.wait()
        assert (await shown(run)).state == "succeeded"
    assert died
    assert sorted(it.calls) == ["count a", "scan", "tell scanned", "total [1]"]


async def test_a_worker_that_dies_before_its_counter_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler is called again, and what its first run has stored is removed."""
    it = Crawl()
    died: list[str] = []

    async def store_added(
        store: Store, settlement: Settlement, added: AddedSteps, keep: Retention, emit: Emit
    ) -> Settlement:
        if died:
            return await stored(store, settlement, added, keep, emit)
        died.append("scan")
        await additions._enqueue(store, added, b"", emit)
        return replace(settlement, verdict=judge(settlement.claim, Lost(), keep, 0.0), added=None)

    stored = additions.store_added
    monkeypatch.setattr(runs, "store_added", store_added)
    async with lab(it.app) as at:
        run = await it.app.chain(it.scan.call(["a"])).enqueue()
        await at.advance(DAY)
        await run.wait()
        alive = [job for job in (await it.app.jobs(limit=100)).jobs if job.state != "succeeded"]
    assert died
    assert it.calls == ["scan", "scan", "count a", "total [1]"]
    assert alive == []


# ---------------------------------------------------------------- wrong uses


async def fails_with(it: Crawl) -> str:
    """Run the task `wrong` in a flow, and return its error."""
    async with lab(it.app) as at:
        await it.app.chain(it.app.tasks["wrong"].call()).enqueue()
        await at.drain(raises=False)
        [error] = {job.error for job in (await it.app.jobs(task="wrong")).jobs}
    return error or ""


async def test_a_job_in_no_flow_adds_nothing() -> None:
    it = Crawl()
    async with lab(it.app) as at:
        job = await it.scan.enqueue(["a"])
        await at.drain(raises=False)
        record = await job.get()
    assert record is not None
    assert "is in no flow, so it can add no steps: enqueue it as a step" in (record.error or "")


async def test_an_added_step_has_no_time_of_its_own() -> None:
    it = Crawl()

    @it.app.task
    async def wrong(job: Job) -> None:
        await job.add(it.tell.after(60).call("x"))

    assert "an added step starts when the step that adds it has succeeded" in await fails_with(it)


async def test_an_added_step_comes_after_steps_of_the_same_run() -> None:
    it = Crawl()
    other = it.app.flow("other").add(it.tell.call("x"))

    @it.app.task
    async def wrong(job: Job) -> None:
        await job.add(it.tell.call("x"), after=[other])

    assert "is a step of another flow" in await fails_with(it)


async def test_a_run_does_not_add_and_complete_in_a_transaction() -> None:
    it = Crawl()

    @it.app.task
    async def wrong(job: Job) -> None:
        await job.add(it.tell.call("x"))
        await job.complete_in(object())

    assert "a run cannot add steps (job.add) and complete its job" in await fails_with(it)


async def test_a_sync_handler_adds_steps() -> None:
    it = Crawl()

    @it.app.task
    def scan_sync(job: Job) -> None:
        part = job.add_sync(it.count.call("a"))
        job.add_sync(it.total.call(job.results([part])), after=[part])

    async with lab(it.app) as at:
        run = await it.app.chain(scan_sync.call()).enqueue()
        await at.drain()
        await run.wait()
    assert it.calls == ["count a", "total [1]"]
