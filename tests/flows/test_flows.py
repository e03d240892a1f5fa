"""Flows in the lab."""

from datetime import timedelta
from typing import Any

import pytest

from mita import Job, JobCancelled, JobFailed, Mita, Retry, UsageError
from mita.model.outcome import CancelJob, DeleteJob
from mita.testing import lab


class Bench:
    """An app with tasks that record their calls."""

    def __init__(self) -> None:
        self.app = app = Mita("memory://", retry=Retry(max_retries=0))
        self.calls: list[str] = []
        self.broken: set[str] = set()

        @app.task
        async def fetch(url: str) -> str:
            self.seen(f"fetch {url}")
            return f"page {url}"

        @app.task
        async def count(text: str) -> int:
            self.seen(f"count {text}")
            return len(text)

        @app.task
        async def add(numbers: list[int], more: int = 0) -> int:
            self.seen(f"add {numbers} {more}")
            return sum(numbers) + more

        @app.task
        async def tell(what: str) -> None:
            self.seen(f"tell {what}")

        self.fetch, self.count, self.add, self.tell = fetch, count, add, tell

    def seen(self, what: str) -> None:
        self.calls.append(what)
        if what in self.broken:
            raise ValueError(f"{what} is broken")


async def test_a_step_gets_the_result_of_the_step_before_it() -> None:
    it = Bench()
    flow = it.app.flow("import")
    page = flow.add(it.fetch.call("x"))
    words = flow.add(it.count.call(page.result))
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain()
        assert await run.result(words) == len("page x")
        record = await run.get()
    assert it.calls == ["fetch x", "count page x"]
    assert record is not None
    assert (record.state, record.name) == ("succeeded", "import")
    assert [step.state for step in record.steps] == ["succeeded", "succeeded"]


async def test_fan_out_and_fan_in() -> None:
    it = Bench()
    flow = it.app.flow("import")
    parts = [flow.add(it.count.call("x" * n)) for n in range(10)]
    total = flow.add(it.add.call(flow.results(parts), parts[3].result))
    flow.add(it.tell.call("done"), after=[total])
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain()
        assert await run.result(total) == sum(range(10)) + 3
        await run.wait()
    assert it.calls[-2:] == ["add [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] 3", "tell done"]


async def test_results_in_another_order() -> None:
    it = Bench()
    flow = it.app.flow("f")
    one, two = flow.add(it.count.call("x")), flow.add(it.count.call("xx"))
    flow.add(it.add.call(flow.results([two, one, two])))
    async with lab(it.app) as at:
        await flow.enqueue()
        await at.drain()
    assert it.calls[-1] == "add [2, 1, 2] 0"


async def test_a_large_group_with_a_callback() -> None:
    it = Bench()
    async with lab(it.app) as at:
        run = (
            await it.app.group([it.count.call("x") for _ in range(250)]).then(it.add.call).enqueue()
        )
        await at.drain()
        await run.wait()
        record = await run.get()
    assert it.calls[-1] == f"add {[1] * 250} 0"
    assert it.calls.count("count x") == 250
    assert record is not None
    assert len(record.steps) == 251


async def test_a_chain() -> None:
    it = Bench()
    chain = it.app.chain(it.fetch.call("x"), it.count.call, it.tell.call("end"))
    async with lab(it.app) as at:
        run = await chain.enqueue()
        await at.drain()
        await run.wait()
        assert [await run.result(step) for step in chain.steps] == ["page x", 6, None]
    assert it.calls == ["fetch x", "count page x", "tell end"]


async def test_a_failure_cancels_what_follows_at_once() -> None:
    it = Bench()
    it.broken = {"fetch x"}
    flow = it.app.flow("import")
    page = flow.add(it.fetch.call("x"))
    words = flow.add(it.count.call(page.result))
    total = flow.add(it.add.call(flow.results([words])))
    other = flow.add(it.tell.call("other"))
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain(raises=False)
        record = await run.get()
        assert record is not None
        states = [step.state for step in record.steps]
        assert states == ["failed", "cancelled", "cancelled", "succeeded"]
        assert record.state == "failed"
        with pytest.raises(JobCancelled):
            await run.result(total)
        with pytest.raises(JobFailed, match="1 of its steps failed: 1"):
            await run.wait()
        why = await it.app.get(record.steps[1].id)
        assert why is not None
        assert why.timeline[-1].note.startswith("step 1 (fetch) failed: ValueError: fetch x")
    assert it.calls == ["fetch x", "tell other"] or it.calls == ["tell other", "fetch x"]
    assert other.number == 4


async def test_an_always_step_runs_however_others_end() -> None:
    it = Bench()
    seen: list[Any] = []

    @it.app.task
    async def report(job: Job) -> None:
        seen.extend((one.number, one.task, one.state, one.error) for one in await job.outcomes())

    it.broken = {"fetch x"}
    flow = it.app.flow("import")
    bad, good = flow.add(it.fetch.call("x")), flow.add(it.fetch.call("y"))
    flow.add(report.call(), after=[bad, good], always=True)
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain(raises=False)
        record = await run.get()
    assert record is not None
    assert record.steps[2].state == "succeeded"
    assert [one[:3] for one in seen] == [(1, "fetch", "failed"), (2, "fetch", "succeeded")]
    assert seen[0][3].startswith("ValueError: fetch x is broken")


async def test_retry_brings_back_what_was_cancelled() -> None:
    it = Bench()
    it.broken = {"fetch x"}
    flow = it.app.flow("import")
    page = flow.add(it.fetch.call("x"))
    words = flow.add(it.count.call(page.result))
    flow.add(it.add.call(flow.results([words])))
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain(raises=False)
        it.broken = set()
        assert await run.retry() == 3
        await at.drain()
        record = await run.get()
    assert record is not None
    assert [step.state for step in record.steps] == ["succeeded"] * 3
    assert record.state == "succeeded"
    assert it.calls == ["fetch x", "fetch x", "count page x", "add [6] 0"]


async def test_retrying_the_failed_job_alone_brings_its_dependants_back() -> None:
    it = Bench()
    it.broken = {"fetch x"}
    async with lab(it.app) as at:
        run = await it.app.chain(it.fetch.call("x"), it.count.call).enqueue()
        await at.drain(raises=False)
        it.broken = set()
        record = await run.get()
        assert record is not None
        await it.app.retry(record.steps[0].id)
        await at.drain()
        record = await run.get()
    assert record is not None
    assert record.state == "succeeded"


async def test_cancelling_a_step_cancels_what_follows() -> None:
    it = Bench()
    async with lab(it.app) as at:
        run = await it.app.chain(it.fetch.call("x"), it.count.call, it.tell.call("x")).enqueue()
        record = await run.get()
        assert record is not None
        await it.app.cancel(record.steps[1].id)
        await at.drain()
        record = await run.get()
    assert record is not None
    assert [step.state for step in record.steps] == ["succeeded", "cancelled", "cancelled"]
    assert record.state == "cancelled"


async def test_cancelling_the_flow() -> None:
    it = Bench()
    async with lab(it.app) as at:
        run = await it.app.chain(it.fetch.call("x"), it.count.call).enqueue()
        assert await run.cancel("not needed") == 2
        await at.drain()
        record = await run.get()
    assert it.calls == []
    assert record is not None
    assert record.state == "cancelled"


async def test_a_step_that_was_deleted_does_not_hold_up_the_flow() -> None:
    """The patrol of the flow finds it."""
    it = Bench()
    async with lab(it.app) as at:
        run = await it.app.chain(it.fetch.call("x"), it.count.call).enqueue()
        record = await run.get()
        assert record is not None
        store = await it.app.open_store()
        await store.amend([record.steps[0].id], CancelJob(60_000))
        await store.amend([record.steps[0].id], DeleteJob())
        await at.advance(120)
        record = await run.get()
        await store.close()
    assert record is not None
    assert record.state == "cancelled"
    assert [step.state for step in record.steps] == [None, "cancelled"]


async def test_flows_that_cannot_be_built() -> None:
    it = Bench()
    one, two = it.app.flow("one"), it.app.flow("two")
    page = one.add(it.fetch.call("x"))
    silent = one.add(it.tell.call("x"))
    with pytest.raises(UsageError, match="has no steps"):
        await two.enqueue()
    with pytest.raises(UsageError, match="is a step of another flow than 'two'"):
        two.add(it.tell.call("x"), after=[page])
    with pytest.raises(UsageError, match="result of a step of another flow"):
        two.add(it.count.call(page.result))
    with pytest.raises(UsageError, match="step 2 has no result: task 'tell' returns None"):
        _ = silent.result
    with pytest.raises(UsageError, match="result of a step, which is known only in its flow"):
        await it.count.enqueue(page.result)
    with pytest.raises(UsageError, match=r"annotated list.*and <result of step 1> is str"):
        one.add(it.add.call(page.result))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a step of a flow has no unique key"):
        one.add(it.fetch.options(unique="u").call("x"))
    with pytest.raises(UsageError, match="a step with always=True starts even if others failed"):
        one.add(it.count.call(page.result), always=True)
    with pytest.raises(UsageError, match=r"leave out \.at"):
        one.add(it.tell.after(5).call("x"), after=[page])
    with pytest.raises(UsageError, match="is not a call"):
        one.add(it.tell)  # type: ignore[arg-type]
    async with lab(it.app):
        assert (await it.app.jobs()).jobs == ()


async def test_a_page_of_flows() -> None:
    it = Bench()
    async with lab(it.app) as at:
        for n in range(3):
            await it.app.chain(it.fetch.call(str(n)), it.count.call, name=f"c{n}").enqueue()
            at.clock.move_ms(1)
        first = await it.app.flows(limit=2)
        rest = await it.app.flows(after=first.after)
        assert {flow.state for flow in first.flows} == {"running"}
        await at.drain()
        states = {flow.state for flow in (await it.app.flows()).flows}
    names = [flow.name for flow in (*first.flows, *rest.flows)]
    assert sorted(names) == ["c0", "c1", "c2"]
    assert [flow.total for flow in first.flows] == [2, 2]
    assert states == {"succeeded"}


async def test_expiry_and_deadline_count_from_when_a_step_can_start() -> None:
    """However long its predecessors take."""
    it = Bench()

    @it.app.task
    async def wait_a_day(job: Job) -> str:
        await job.sleep(timedelta(days=1))
        return "x"

    hurried = it.count.options(expires=60, deadline=3600)
    chain = it.app.chain(wait_a_day.call(), hurried.call)
    async with lab(it.app) as at:
        run = await chain.enqueue()
        await at.advance(timedelta(days=2))
        assert await run.result(chain.steps[1]) == 1


async def test_a_waiting_step_that_a_person_reschedules_starts_no_earlier() -> None:
    """It gets its arguments in any case."""
    it = Bench()

    @it.app.task
    async def wait_an_hour(job: Job) -> str:
        await job.sleep(3600)
        return "xyz"

    chain = it.app.chain(wait_an_hour.call(), it.count.call)
    async with lab(it.app) as at:
        run = await chain.enqueue()
        await it.app.reschedule(f"{run.id}.000002", after=0)
        await at.advance(1800)
        assert it.calls == []
        await at.advance(3600)
        assert await run.result(chain.steps[1]) == 3
    assert it.calls == ["count xyz"]
