"""Dead letters are replayed at a rate while the processes that do it are killed, and the server of
the store as well. Each is replayed exactly once.

Each job fails again at once, so a bulk run that forgot what it has done would replay it twice.
`make soak` runs it with 10,000 jobs on each store."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mita import BulkRecord, Retry
from mita.errors import StoreError
from mita.model.time import HOUR, MINUTE
from mita.testing.contract.given import fail
from tests.waiting import until

from .deployments import Deployment, FileDeployment, deploy
from .harness import SOAK, Process, Scene, scaled
from .stores import STORES

JOBS = scaled(300, 10_000)
RATE = 200
KILLS = scaled(3, 20)
# Where the process that runs the bulk run kills itself; "": the test kills it at any moment. After
# a retry it has not stored yet how far it is.
POINTS = ("retry.after", "", "retry.before")
ONCE = Retry(max_retries=0, max_crashes=1000)


class Replay:
    """A store with dead letters, a process that runs the bulk run, and one that runs the jobs."""

    def __init__(self, scene: Scene, place: Deployment | FileDeployment) -> None:
        self.scene, self.place = scene, place

    def start(self) -> None:
        """Start the processes; the first one dies while it stores its choice."""
        self.runner, self.worker = self._runner("remember.after"), self._worker()

    def _runner(self, point: str) -> Process:
        return self.scene.worker(queues=["mita.bulk"], concurrency=1, point=point)

    def _worker(self) -> Process:
        return self.scene.worker(queues=["dead"], concurrency=20)

    async def bury(self, count: int) -> list[str]:
        """Store so many jobs that have failed."""
        scene, store = self.scene, await self.scene.store()
        doomed = scene.works.doomed.options(retry=ONCE, queue="dead")
        handles = await scene.app.enqueue_many([doomed.call(scene.number()) for _ in range(count)])
        left = count
        while left:
            claims = (await store.claim(["dead"], min(left, 500), MINUTE, "undertaker")).claims
            await store.settle([fail(claim, keep=HOUR) for claim in claims])
            left -= len(claims)
        return [handle.id for handle in handles]

    async def record(self, id: str) -> BulkRecord | None:
        """The bulk run; None while the server is away."""
        try:
            found: BulkRecord | None = await self.scene.app.bulk(id)
        except StoreError:
            return None
        return found

    async def ended(self, id: str) -> BulkRecord:
        """The bulk run, once it has ended."""

        async def has_ended() -> BulkRecord | None:
            record = await self.record(id)
            return record if record is not None and record.finished is not None else None

        found = await until(has_ended, "the bulk run ends", within=scaled(60, 600))
        assert isinstance(found, BulkRecord)
        return found

    async def strike(self, number: int) -> None:
        """Let the process that runs the bulk run die, at times also the other one and the
        server. Another one goes on."""
        if self.runner.settings.point:
            await self.scene.died(self.runner, within=60)
        else:
            await asyncio.sleep(self.scene.random.uniform(0, 0.6))  # somewhere in a batch
            await self.scene.kill(self.runner)
        self.runner = self._runner("" if number == KILLS - 1 else POINTS[number % len(POINTS)])
        if number % 2:
            await self.scene.kill(self.worker)
            self.worker = self._worker()
        if number % 4 == 3 and isinstance(self.place, Deployment):
            self.place.kill_server()
            await asyncio.sleep(self.scene.random.uniform(0.1, 1.0))  # the fault itself
            await asyncio.to_thread(self.place.start_server)


@pytest.fixture(params=STORES if SOAK else ["sqlite"])
async def replay(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Replay]:
    place = await asyncio.to_thread(deploy, request.param, tmp_path)
    lease = 1.0 if request.param == "sqlite" else 4.0
    scene = Scene(tmp_path, place.url, request.node.user_properties, lease=lease)
    yield Replay(scene, place)
    await scene.close()
    place.close()


@pytest.mark.timeout(3600)
async def test_each_dead_letter_is_replayed_exactly_once(replay: Replay) -> None:
    scene = replay.scene
    ids = await replay.bury(JOBS)
    replay.start()
    begun = await scene.app.start_bulk("retry", rate=RATE, state="failed", queue="dead")
    for number in range(KILLS):
        await replay.strike(number)
    record = await replay.ended(begun.id)
    assert (record.state, record.total, record.done) == ("succeeded", JOBS, JOBS), record
    assert record.answers == {"done": JOBS}
    store = await scene.store()
    revived = [sum(line.kind == "revived" for line in await store.timeline(id)) for id in ids]
    assert revived == [1] * JOBS
    scene.tell(f"{JOBS:,} dead letters were replayed once each, through {KILLS} kills")
    await scene.stop(replay.runner, replay.worker)
