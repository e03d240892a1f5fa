"""What is shown of flows: `app.flows` counts the steps that have ended, `run.get` names steps."""

import pytest

from mita import Job, Mita, Retry, UsageError
from mita.client import flow_records
from mita.testing import lab


class Bench:
    """An app whose task `part` fails while its number is in `broken`."""

    def __init__(self) -> None:
        self.app = app = Mita("memory://", retry=Retry(max_retries=0))
        self.broken: set[int] = set()

        @app.task
        async def part(number: int) -> int:
            if number in self.broken:
                raise ValueError("broken")
            return number

        @app.task
        async def add(numbers: list[int]) -> int:
            return sum(numbers)

        @app.task
        async def split(job: Job) -> int:
            await job.add(part.call(1))
            return 1

        self.part, self.add, self.split = part, add, split


async def counts(app: Mita) -> tuple[int, int, int, bool]:
    [flow] = (await app.flows()).flows
    return flow.ended, flow.failed, flow.total, flow.exact


@pytest.mark.parametrize("members", [3, 250])
async def test_the_steps_that_ended_are_counted_and_a_retried_one_counts_as_it_is_now(
    members: int,
) -> None:
    it = Bench()
    it.broken = {1, 2}
    async with lab(it.app) as at:
        calls = [it.part.call(n) for n in range(members)]
        run = await it.app.group(calls).then(it.add.call).enqueue()
        assert await counts(it.app) == (0, 0, members + 1, True)
        await at.drain(raises=False)
        assert await counts(it.app) == (members + 1, 2, members + 1, True)
        record = await run.get()
        assert record is not None
        assert (record.ended, record.failed) == (members + 1, 2)
        it.broken = {2}
        await it.app.pause("default")
        await run.retry()
        assert await counts(it.app) == (members - 2, 0, members + 1, True)
        await it.app.resume("default")
        await at.drain(raises=False)
        assert await counts(it.app) == (members + 1, 1, members + 1, True)


async def test_the_count_of_a_large_flow_that_runs_may_be_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow_records, "_MOST_COUNTERS", 2)
    it = Bench()
    async with lab(it.app):
        await it.app.group([it.part.call(n) for n in range(250)]).enqueue()
        assert await counts(it.app) == (0, 0, 250, False)


async def test_a_step_of_many_predecessors_names_steps() -> None:
    """Not the jobs that gather them."""
    it = Bench()
    async with lab(it.app):
        run = await it.app.group([it.part.call(n) for n in range(250)]).then(it.add.call).enqueue()
        record = await run.get()
    assert record is not None
    assert record.steps[-1].after == ((1, 250),)


async def test_steps_that_were_added_are_not_counted_but_their_adder_ends_with_them() -> None:
    it = Bench()
    it.broken = {1}
    async with lab(it.app) as at:
        run = await it.app.chain(it.split.call()).enqueue()
        await it.app.pause("default")
        assert await counts(it.app) == (0, 0, 1, True)
        await it.app.resume("default")
        await at.drain(raises=False)
        assert await counts(it.app) == (1, 0, 1, True)
        record = await run.get()
    assert record is not None
    assert [step.state for step in record.steps] == ["succeeded", "failed"]


async def test_a_wrong_page_is_refused() -> None:
    it = Bench()
    async with lab(it.app):
        with pytest.raises(UsageError, match="is not the end of a page"):
            await it.app.flows(after="x y")
        with pytest.raises(UsageError, match="a page has 1 to 1000"):
            await it.app.flows(limit=0)
