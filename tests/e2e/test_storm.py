"""Everything at once: killed workers and producers, frozen workers, broken connections, killed
servers.

Nothing may be lost or stuck, and no fault may use up an attempt. `make soak` runs it with 5,000
jobs on each store."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from mita.errors import StoreError
from tests.waiting import until

from . import menu
from .deployments import Deployment, FileDeployment, deploy
from .harness import Process, Scene, scaled
from .program import LARGEST_BATCH, open_gate
from .stores import STORES

WORKERS = 4
JOBS_PER_ROUND = 40
LEASE_S = 4.0


Strike = Callable[[], Awaitable[None]]


class Storm:
    """One fault after the other, chosen by the seed, on the workers of a scene."""

    def __init__(self, scene: Scene, place: Deployment | FileDeployment) -> None:
        self.scene, self._place = scene, place
        self.pool = [self._worker() for _ in range(WORKERS)]
        self.counts: dict[str, int] = {}

    def _worker(self) -> Process:
        return self.scene.start(url=self._place.url_of_workers, worker={"concurrency": 8})

    def faults(self) -> dict[str, Strike]:
        faults: dict[str, Strike] = {
            "kill worker": self._kill_worker,
            "freeze worker": self._freeze_worker,
            "kill producer": self._kill_producer,
        }
        if isinstance(self._place, Deployment):
            faults |= {
                "cut": self._cut,
                "black hole": self._black_hole,
                "delay": self._delay,
                "kill server": self._kill_server,
            }
        return faults

    async def strike(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        await self.faults()[name]()

    async def _kill_worker(self) -> None:
        victim = self.scene.random.randrange(WORKERS)
        await self.scene.kill(self.pool[victim])
        self.pool[victim] = self._worker()

    async def _freeze_worker(self) -> None:
        victim = self.scene.random.choice(self.pool)
        await self.scene.freeze(victim)
        await asyncio.sleep(LEASE_S * self.scene.random.uniform(0.5, 1.5))  # the fault itself
        self.scene.thaw(victim)

    async def _kill_producer(self) -> None:
        """Kill a producer during its enqueues. The recorded ones are acknowledged; it is unknown
        whether the others are stored."""
        numbers = self.scene.numbers(5000)
        producer = self.scene.start("producer", numbers=numbers, ms=5)
        open_gate(self.scene.gate(str(producer.who)))
        await until(
            lambda: self.scene.lines("enqueued", who=producer.who), "the producer is at work"
        )
        await self.scene.kill(producer)
        acknowledged = self.scene.lines("enqueued", who=producer.who)
        self.scene.acknowledge(acknowledged)
        last = acknowledged[-1].n
        self.scene.unsure |= set(range(last + 1, last + 1 + LARGEST_BATCH))

    async def _cut(self) -> None:
        self._all_are_away()
        self._network.proxy.cut()

    async def _black_hole(self) -> None:
        self._all_are_away()
        self._network.proxy.black_hole()

    async def _delay(self) -> None:
        self._all_are_away()
        self._network.proxy.delay(0.2)
        await asyncio.sleep(2)  # the fault itself
        self._network.proxy.delay(0)

    async def _kill_server(self) -> None:
        self._all_are_away()
        self._network.kill_server()
        self.scene.server_kills.append(time.time())
        await asyncio.sleep(self.scene.random.uniform(0.1, 1.5))  # the fault itself
        await asyncio.to_thread(self._network.start_server)

    @property
    def _network(self) -> Deployment:
        assert isinstance(self._place, Deployment)
        return self._place

    def _all_are_away(self) -> None:
        for process in self.pool:
            self.scene.fault(process, "away")


@pytest.fixture(params=STORES)
async def storm(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storm]:
    place = await asyncio.to_thread(deploy, request.param, tmp_path)
    scene = Scene(tmp_path, place.url, request.node.user_properties, lease=LEASE_S)
    scene.unsynced_claims_s = place.unsynced_claims_s
    yield Storm(scene, place)
    await scene.close()
    place.close()


async def enqueue(scene: Scene, count: int) -> None:
    """Enqueue some jobs of every kind. If the server dies meanwhile, it is unknown whether they are
    stored."""
    first = scene.number()
    asked = menu.mixed(scene, count)
    try:
        await scene.enqueue(asked)
    except StoreError:
        scene.unsure |= set(range(first, scene.number()))


@pytest.mark.timeout(7200)
async def test_nothing_is_lost_or_stuck_and_no_fault_uses_up_an_attempt(storm: Storm) -> None:
    """I1 I2 I3 I4 I6 I8 I12 I13"""
    scene, rounds = storm.scene, scaled(len(storm.faults()), 125)
    order = [name for _ in range(rounds) for name in storm.faults()][:rounds]
    scene.random.shuffle(order)
    await scene.ready(*storm.pool)
    for name in order:
        work = asyncio.create_task(enqueue(scene, JOBS_PER_ROUND))
        # so that the fault meets jobs in every state
        await asyncio.sleep(scene.random.uniform(0, 0.3))
        await storm.strike(name)
        await work
    await enqueue_one_for_each_key(scene)
    await scene.finished(within=180)
    await scene.stop(*storm.pool, within=60)
    await scene.check()
    scene.tell(f"faults: {storm.counts}")


async def enqueue_one_for_each_key(scene: Scene) -> None:
    """Every key must be free again after the faults."""
    await scene.enqueue([menu.keyed(scene, f"k{number}") for number in range(5)])
