"""Children that failed, and are retried by a person: alone, or with their parent."""

from typing import Any

import pytest

from mita import Job, JobFailed, Mita, Retry
from mita.testing import lab


class Family:
    """An app with a child that fails until it is `healed`, and what was called."""

    def __init__(self) -> None:
        self.app = Mita("memory://", retry=Retry(max_retries=2, base=1, jitter="none"))
        self.calls: list[str] = []
        self.healed = False

        @self.app.task(retry=Retry(max_retries=0))
        async def child() -> str:
            self.calls.append("child")
            if not self.healed:
                raise ValueError("no money")
            return "receipt"

        @self.app.task
        async def parent(job: Job) -> str:
            self.calls.append("parent")
            return await job.run(child.call())

        @self.app.task
        async def named(job: Job) -> str:
            self.calls.append("parent")
            return await job.run(child.call(), name=f"charge {job.attempt}")

        @self.app.task
        async def saga(job: Job) -> str:
            try:
                await job.run(child.call())
            except JobFailed:
                await job.step("undo", lambda: self.calls.append("undo"))
            if not self.healed:
                raise ValueError("something else")
            return "undone"

        @self.app.task
        async def grandparent(job: Job) -> str:
            return await job.run(parent.call())

        self.child, self.parent, self.named = child, parent, named
        self.saga, self.grandparent = saga, grandparent

    async def state(self, id: str) -> str:
        record = await self.app.get(id)
        assert record is not None
        return str(record.state)


@pytest.fixture
async def family() -> Family:
    return Family()


async def child_of(family: Family, parent: str, task: str = "child") -> Any:
    [child] = [job for job in (await family.app.jobs(task=task)).jobs if job.id.startswith(parent)]
    return child


async def test_the_failure_of_a_child_uses_up_no_retry_of_its_parent(family: Family) -> None:
    """Every later run would get the same failure at once."""
    async with lab(family.app) as it:
        job = await family.parent.enqueue()
        await it.drain(raises=False)
        assert await family.state(job.id) == "failed"
    assert family.calls == ["parent", "child", "parent"]


async def test_a_child_with_a_name_may_be_another_one_in_the_next_run(family: Family) -> None:
    async with lab(family.app) as it:
        job = await family.named.enqueue()
        await it.drain(raises=False)
        family.healed = True
        await it.advance(60, raises=False)
        assert await job.result() == "receipt"
    assert family.calls.count("child") == 2


async def test_a_retry_of_the_parent_retries_the_child_whose_failure_was_its_own(
    family: Family,
) -> None:
    async with lab(family.app) as it:
        job = await family.parent.enqueue()
        await it.drain(raises=False)
        for _ in range(2):  # it fails once more, and can be retried once more
            await family.app.retry(job.id)
            await it.drain(raises=False)
            assert await family.state(job.id) == "failed"
        family.healed = True
        await family.app.retry(job.id)
        await it.drain()
        assert await job.result() == "receipt"
    assert family.calls.count("child") == 4


async def test_a_retry_reaches_the_children_of_children(family: Family) -> None:
    async with lab(family.app) as it:
        job = await family.grandparent.enqueue()
        await it.drain(raises=False)
        assert await family.state(job.id) == "failed"
        family.healed = True
        await family.app.retry(job.id)
        await it.drain()
        assert await job.result() == "receipt"


async def test_a_child_that_was_retried_alone_counts_when_its_parent_is_retried(
    family: Family,
) -> None:
    async with lab(family.app) as it:
        job = await family.parent.enqueue()
        await it.drain(raises=False)
        family.healed = True
        await family.app.retry((await child_of(family, job.id)).id)
        await it.drain()
        assert await family.state(job.id) == "failed"
        await family.app.retry(job.id)
        await it.drain()
        assert await job.result() == "receipt"
    assert family.calls.count("child") == 2


async def test_a_failure_that_the_parent_has_caught_stays(family: Family) -> None:
    """What it did because of the failure is done. To run the child again would contradict it."""
    async with lab(family.app) as it:
        job = await family.saga.enqueue()
        await it.advance(60, raises=False)
        assert await family.state(job.id) == "failed"
        family.healed = True
        await family.app.retry(job.id)
        await it.drain()
        assert await job.result() == "undone"
    assert family.calls == ["child", "undo"]


async def test_a_cancel_reaches_the_child_for_which_a_parent_waits_again(family: Family) -> None:
    async with lab(family.app) as it:
        job = await family.parent.enqueue()
        await it.drain(raises=False)
        child = await child_of(family, job.id)
        await family.app.retry(child.id, after=3600)
        await family.app.retry(job.id)
        await it.drain()
        assert "child" in (await family.app.explain(job.id))[0].text
        await family.app.cancel(job.id)
        assert await family.state(child.id) == "cancelled"
