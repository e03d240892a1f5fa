"""Flows and durable handlers in the lab: a moved clock drives them to their end."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mita import Job, JobCancelled, JobFailed, Mita, Retry
from mita.engine import inline
from mita.model.flow import MOST_PREDECESSORS
from mita.testing import lab

DAY = timedelta(days=1)


class Shop:
    """An app whose flow waits for a person."""

    def __init__(self) -> None:
        self.app = app = Mita("sqlite:///never-opened.db", retry=Retry(max_retries=0))
        self.calls: list[str] = []

        @app.task
        async def fetch(page: int) -> int:
            self.calls.append(f"fetch {page}")
            if page < 0:
                raise ValueError("no such page")
            return page

        @app.task
        async def approve(job: Job, total: int) -> str:
            await job.sleep(DAY)
            by = await job.wait_for("approval", timeout=7 * DAY, type=str)
            return f"{total} by {by}"

        @app.task
        async def total(job: Job, pages: list[int]) -> int:
            self.calls.append("total")
            return await job.run(add.call(pages))

        @app.task
        def add(pages: list[int]) -> int:
            return sum(pages)

        @app.task
        async def report(job: Job) -> None:
            states = [one.state.value for one in await job.outcomes()]
            self.calls.append(f"report {' '.join(states)}")

        self.fetch, self.total, self.approve, self.report = fetch, total, approve, report

    def flow(self, pages: Sequence[int]) -> Any:
        flow = self.app.flow("import")
        fetched = [flow.add(self.fetch.call(page)) for page in pages]
        whole = flow.add(self.total.call(flow.results(fetched)))
        approved = flow.add(self.approve.call(whole.result))
        flow.add(self.report.call(), after=[approved], always=True)
        return flow, approved


async def test_a_flow_with_a_child_a_sleep_and_a_signal() -> None:
    shop = Shop()
    flow, approved = shop.flow([1, 2])
    async with lab(shop.app) as it:
        run = await flow.enqueue()
        # two pages; the total until its child, and again; the child; the approval until its sleep
        assert await it.drain() == 6
        assert await it.advance(2 * DAY) == 1
        step = (await run.get()).steps[approved.number - 1]
        assert await it.signal(step.id, "approval", "Ada") == "done"
        assert await it.signal(step.id, "approval", "Bo") == "taken"
        assert await it.drain() == 2
        assert await run.result(approved) == "3 by Ada"
        record = await run.get()
    assert record.state == "succeeded"
    assert record.finished - record.created == 2 * DAY
    assert shop.calls == ["fetch 1", "fetch 2", "total", "total", "report succeeded"]


async def test_a_wait_inside_a_flow_times_out_days_later() -> None:
    shop = Shop()
    flow, approved = shop.flow([1])
    async with lab(shop.app) as it:
        run = await flow.enqueue()
        await it.advance(8 * DAY, raises=False)
        with pytest.raises(JobFailed, match="no signal 'approval' came"):
            await run.result(approved)
        with pytest.raises(JobFailed):
            await run.wait()
        record = await run.get()
    assert record.finished - record.created == 8 * DAY
    assert shop.calls[-1] == "report failed"


async def test_a_group_that_needs_gatherers_and_one_member_that_fails() -> None:
    shop = Shop()
    members = 2 * MOST_PREDECESSORS + 50
    async with lab(shop.app) as it:
        flow, approved = shop.flow([*range(members - 1), -1])
        run = await flow.enqueue()
        assert await it.drain(raises=False) == members + 1, "Mita's own jobs are no runs"
        with pytest.raises(JobCancelled):
            await run.result(approved)
        record = await run.get()
    assert record.state == "failed"
    assert shop.calls[-1] == "report cancelled"


async def test_the_patrol_of_a_flow_finds_an_end_that_was_told_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the worker had died after it settled the job that failed."""
    shop = Shop()

    async def died(*_: object, **__: object) -> list[Any]:
        return []

    async with lab(shop.app) as it:
        run: Any = await shop.app.chain(shop.fetch.call(-1), shop.fetch.call(2)).enqueue()
        with monkeypatch.context() as patch:
            patch.setattr(inline, "conclude_settled", died)
            assert await it.drain(raises=False) == 1
        assert [step.state for step in (await run.get()).steps] == ["failed", "waiting"]
        assert await it.advance(60) == 0
        record = await run.get()
    assert (record.state, [step.state for step in record.steps]) == (
        "failed",
        ["failed", "cancelled"],
    )
    assert record.finished - record.created <= timedelta(seconds=60)
