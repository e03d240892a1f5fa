"""Jobs that sleep go on with the code of the day on which they wake: what may change meanwhile."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from mita import Job, JobFailed, Mita, Retry
from mita.testing import lab

DAY = timedelta(days=1)
Code = Callable[[Job, "Steps"], Awaitable[str]]


class Steps:
    """What the steps have done, in their order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def act(self, what: str) -> str:
        self.done.append(what)
        return what


async def through(old: Code, new: Code) -> tuple[str, list[str]]:
    """Run the old code until it sleeps, and the new code after that. Returns the result, and what
    the steps have done."""
    app, steps, code = Mita("memory://", retry=Retry(max_retries=0)), Steps(), [old]

    @app.task
    async def work(job: Job) -> str:
        return await code[0](job, steps)

    async with lab(app) as it:
        job = await work.enqueue()
        await it.drain()
        code[0] = new
        await it.advance(3 * DAY, raises=False)
        return await job.result(), steps.done


async def old(job: Job, steps: Steps) -> str:
    one = await job.step("one", steps.act, "one")
    two = await job.step("two", steps.act, "two")
    await job.sleep(DAY)
    return f"{one} {two}"


async def test_another_order_of_steps() -> None:
    """Steps are found by name, and none is repeated."""

    async def new(job: Job, steps: Steps) -> str:
        two = await job.step("two", steps.act, "two")
        await job.sleep(DAY)
        one = await job.step("one", steps.act, "one")
        return f"{two} {one}"

    assert await through(old, new) == ("two one", ["one", "two"])


async def test_a_step_that_is_added_before_the_others_and_one_that_is_removed() -> None:
    async def new(job: Job, steps: Steps) -> str:
        zero = await job.step("zero", steps.act, "zero")
        two = await job.step("two", steps.act, "two")
        await job.sleep(DAY)
        return f"{zero} {two}"

    assert await through(old, new) == ("zero two", ["one", "two", "zero"])


async def test_a_step_with_another_name_runs_again() -> None:
    async def new(job: Job, steps: Steps) -> str:
        one = await job.step("the first", steps.act, "one")
        await job.sleep(DAY)
        return one

    assert await through(old, new) == ("one", ["one", "two", "one"])


async def test_a_step_that_returns_another_type() -> None:
    """It is no error of the new code, so the job keeps its steps for a version that reads them."""

    def length() -> int:
        return 3

    async def new(job: Job, steps: Steps) -> str:
        return f"{await job.step('one', length)} {steps.done}"

    with pytest.raises(JobFailed, match="stored result of step 'one' does not fit"):
        await through(old, new)


async def test_sleeps_with_names_may_change_their_order() -> None:
    async def before(job: Job, steps: Steps) -> str:
        await job.sleep(DAY, name="cool down")
        return steps.act("done")

    async def after(job: Job, steps: Steps) -> str:
        await job.sleep(timedelta(hours=1), name="a new one")
        steps.act("slept an hour")
        await job.sleep(DAY, name="cool down")
        return steps.act("done")

    result, done = await through(before, after)
    assert (result, done[-2:]) == ("done", ["slept an hour", "done"])


async def test_a_new_length_counts_for_new_sleeps_only() -> None:
    async def before(job: Job, steps: Steps) -> str:
        await job.sleep(DAY)
        return steps.act("old")

    async def after(job: Job, steps: Steps) -> str:
        await job.sleep(1000 * DAY)
        return steps.act("new")

    assert await through(before, after) == ("new", ["new"])
