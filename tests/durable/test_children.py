"""Child jobs in the lab."""

import pytest

from mita import Job, JobCancelled, JobFailed, Mita, Retry
from mita.model.outcome import CancelJob, DeleteJob
from mita.testing import lab


def new_app() -> Mita:
    return Mita("memory://", retry=Retry(max_retries=1, base=1, jitter="none"))


async def test_a_parent_gets_the_result_of_its_child() -> None:
    app, calls = new_app(), list[str]()

    @app.task
    async def charge(account: str, cents: int) -> str:
        calls.append("charge")
        return f"receipt {account} {cents}"

    @app.task
    async def onboard(job: Job) -> str:
        calls.append("onboard")
        return await job.run(charge.call("a", 1999))

    async with lab(app) as it:
        job = await onboard.enqueue()
        await it.drain()
        assert await job.result() == "receipt a 1999"
        record = await app.get(job.id)
    assert calls == ["onboard", "charge", "onboard"]
    assert record is not None
    assert record.attempts == 0


async def test_a_child_that_fails_raises_in_the_parent() -> None:
    app, seen = new_app(), list[str]()

    @app.task
    async def bad() -> None:
        raise ValueError("no money")

    @app.task
    async def parent(job: Job) -> str:
        try:
            await job.run(bad.call())
        except JobFailed as error:
            seen.append(error.error.splitlines()[0])
        return "compensated"

    async with lab(app) as it:
        job = await parent.enqueue()
        await it.advance(10, raises=False)
        assert await job.result() == "compensated"
    assert seen == ["ValueError: no money"]


async def test_children_one_after_the_other_and_by_name() -> None:
    app, order = new_app(), list[int]()

    @app.task
    async def double(n: int) -> int:
        order.append(n)
        return 2 * n

    @app.task
    async def parent(job: Job) -> int:
        one = await job.run(double.call(1))
        two = await job.run(double.call(one), name="second")
        if job.attempt == 1:
            raise ValueError("once more")
        return two

    async with lab(app) as it:
        job = await parent.enqueue()
        await it.advance(10, raises=False)
        assert await job.result() == 4
    assert order == [1, 2]


async def test_a_child_of_a_child() -> None:
    app = new_app()

    @app.task
    async def leaf(n: int) -> int:
        return n + 1

    @app.task
    async def middle(job: Job, n: int) -> int:
        return await job.run(leaf.call(n)) + 10

    @app.task
    def top(job: Job) -> int:
        return job.run_sync(middle.call(1)) + 100

    async with lab(app) as it:
        job = await top.enqueue()
        await it.drain()
        assert await job.result() == 112


async def test_cancelling_a_parent_cancels_its_children() -> None:
    app, ran = new_app(), list[str]()

    @app.task
    async def leaf() -> None:
        ran.append("leaf")

    @app.task
    async def middle(job: Job) -> None:
        await job.run(leaf.after(60).call())

    @app.task
    async def top(job: Job) -> None:
        await job.run(middle.call())

    async with lab(app) as it:
        job = await top.enqueue()
        await it.drain()
        await app.cancel(job.id)
        await it.advance(200)
        states = {one.task: one.state for one in (await app.jobs()).jobs}
    assert ran == []
    assert states == {"top": "cancelled", "middle": "cancelled", "leaf": "cancelled"}


async def test_a_child_that_is_cancelled_raises_in_the_parent() -> None:
    app = new_app()

    @app.task
    async def child() -> None: ...

    @app.task(retry=Retry(max_retries=0))
    async def parent(job: Job) -> None:
        with pytest.raises(JobCancelled):
            await job.run(child.after(60).call())

    async with lab(app) as it:
        job = await parent.enqueue()
        await it.drain()
        [waiting] = (await app.jobs(task="child")).jobs
        await app.cancel(waiting.id)
        await it.advance(100)
        await job.result()


async def test_a_child_that_was_deleted_does_not_hold_up_its_parent() -> None:
    """The parent looks after it from time to time."""
    app = new_app()

    @app.task
    async def child() -> None: ...

    @app.task(retry=Retry(max_retries=0))
    async def parent(job: Job) -> str:
        try:
            await job.run(child.after(60).call())
        except JobCancelled:
            return "gone"
        return "there"

    async with lab(app) as it:
        job = await parent.enqueue()
        await it.drain()
        [waiting] = (await app.jobs(task="child")).jobs
        store = await app.open_store()
        await store.amend([waiting.id], CancelJob(60_000))
        await store.amend([waiting.id], DeleteJob())
        await store.close()
        await it.advance(50)
        assert await job.result() == "gone"


async def test_a_child_with_a_unique_key_is_refused() -> None:
    app = new_app()

    @app.task(unique="u")
    async def child() -> None: ...

    @app.task(retry=Retry(max_retries=0))
    async def parent(job: Job) -> None:
        await job.run(child.call())

    async with lab(app) as it:
        job = await parent.enqueue()
        await it.drain(raises=False)
        with pytest.raises(JobFailed, match="a child has no unique key"):
            await job.result()
