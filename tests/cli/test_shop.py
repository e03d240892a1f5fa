"""The store of the dashboard's demo has everything that a page can show, and the same each time."""

from pathlib import Path

from mita.cli.demo.shop import seed_shop, shop_app
from mita.model.record import DisplayState, JobRecord
from mita.model.repeat import RepeatState


async def seeded(path: Path) -> list[JobRecord]:
    url = f"sqlite:///{path}"
    await seed_shop(url)
    async with shop_app(url) as app:
        return list((await app.jobs(limit=1000)).jobs)


async def test_the_shop_has_jobs_in_every_state_and_something_of_everything(tmp_path: Path) -> None:
    jobs = await seeded(tmp_path / "shop.db")
    assert {job.state for job in jobs} == set(DisplayState)
    assert len({job.error.partition("\n")[0] for job in jobs if job.error}) > 5
    assert any(job.progress for job in jobs)
    assert any(job.tags for job in jobs)
    async with shop_app(f"sqlite:///{tmp_path}/shop.db") as app:
        flows = {flow.state.value for flow in (await app.flows()).flows}
        assert flows == {"running", "succeeded", "failed", "cancelled"}
        assert {one.state for one in await app.repeats()} == {
            RepeatState.ACTIVE,
            RepeatState.PAUSED,
        }
        keys = await app.resources()
        assert any(key.held_until for key in keys)
        assert any(key.limit for key in keys)
        queues = await app.queues()
        assert any(queue.paused for queue in queues)
        assert any(queue.limit for queue in queues)
        assert len(await app.workers()) == 3
        [refund] = (await app.jobs(task="refund")).jobs
        whole = await app.get(refund.id)
        assert whole is not None
        assert [one.name for one in whole.waits_for] == ["approval"]


async def test_two_shops_are_alike(tmp_path: Path) -> None:
    """How many jobs of a task end how depends a little on the time of day, and not what there
    is to see."""
    one, other = [await seeded(tmp_path / name) for name in ("one.db", "other.db")]

    def kinds(jobs: list[JobRecord]) -> set[tuple[str, str]]:
        return {(job.task, job.queue) for job in jobs}

    assert kinds(one) == kinds(other)
    assert {job.state for job in one} == {job.state for job in other}
