"""Processes that are killed between two steps, and what the next one makes of it: on every store
that processes can share."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mita import Cron, Every, Mita
from mita.model.job import Asked, State
from mita.model.repeat import Repeat, RepeatState
from mita.model.time import HOUR
from mita.ports.store import Store
from mita.testing.contract.given import claim_one
from tests.waiting import until

from .dying import RANGE, app_on
from .given import KEY, Scene
from .stores import SHARED, address, handle

HOME = Path(__file__).parents[2]


class Place:
    """A store that processes share."""

    def __init__(self, scene: Scene, where: list[str]) -> None:
        self.scene, self.where = scene, where

    async def killed(self, what: str) -> None:
        """Run a process until it has killed itself."""
        command = [sys.executable, "-m", "tests.repeats.dying", what, *self.where]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=HOME, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(60):
                _, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == -signal.SIGKILL, said.decode()


@pytest.fixture(params=SHARED)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    url, namespace = address(request.param, tmp_path)
    async with AsyncExitStack() as stack:

        def made() -> Store:
            return handle(request.param, url, namespace)

        app = Mita(store=made)
        stack.push_async_callback(app.close)
        scene = Scene(app, await app._pool.store(), made, stack)
        yield Place(scene, [request.param, url, namespace])


async def test_what_a_killed_scheduler_did_not_cancel_is_cancelled_by_the_next(
    place: Place,
) -> None:
    """It was killed after its fire. No fire comes after that one: the next scheduler repairs it
    when it starts."""
    scene = place.scene
    first = await scene.store.now() - HOUR - HOUR // 2
    await scene.stands(Every(3600), first, overlap="cancel", limit=2, missed="once")
    assert await scene.fire() == 1
    running = await claim_one(scene.store)
    repeat = await scene.repeat()
    # its second and last fire is due now
    await scene.store.remove_repeats([KEY])
    due = await scene.store.now()
    again = Repeat(key=KEY, spec=repeat.spec, cursor=due, count=1, last=first)
    await scene.store.put_repeat(again)
    await place.killed("after a fire")
    old, new = await scene.jobs()
    assert (old.id, old.state, old.asked) == (running.id, State.RUNNING, None)
    assert (new.fire_time, (await scene.repeat()).state) == (due, RepeatState.FINISHED)

    async def is_cancelled() -> bool:
        return (await scene.jobs())[0].asked is Asked.CANCEL

    alone = scene.app.scheduler(lock=0, poll=0.05)
    working = asyncio.create_task(alone.run())
    await until(is_cancelled, "the next scheduler cancels the old run")
    alone.stop()
    await working
    assert [job.state for job in await scene.jobs()][1] is State.QUEUED, "the newest is left alone"


async def test_a_killed_backfill_can_be_run_again(place: Place) -> None:
    scene = place.scene
    await scene.app.repeat(KEY, scene.digest.call(), Cron("0 9 * * *"))
    await place.killed("in a backfill")
    made = await scene.fired()
    assert len(made) == 8
    result = await scene.app.repeats.backfill(KEY, **RANGE)
    assert (len(result.windows), result.enqueued) == (31, 23)
    fired = await scene.fired()
    assert len(fired) == len(set(fired)) == 31


async def test_a_worker_that_is_killed_before_its_report_leaves_one_out(place: Place) -> None:
    """Its job has failed all the same, and the next failures are counted: never one twice."""
    scene = place.scene
    async with app_on(*place.where) as app:
        await app.repeat(KEY, app.tasks["digest"].call(), Every(3600), pause_after=2)
    await scene.app.repeats.trigger(KEY)
    await place.killed("after a settle")
    [job] = await scene.jobs()
    assert job.state is State.FAILED
    assert (await scene.repeat()).failures == 0
    await scene.app.repeats.trigger(KEY)
    await scene.app.repeats.trigger(KEY)
    async with app_on(*place.where) as app:
        await app.worker(schedule=False, poll=0.05, until_empty=True).run()
    repeat = await scene.repeat()
    assert (repeat.state, repeat.failures) == (RepeatState.PAUSED, 2)
    assert "no such list" in repeat.pause_reason
