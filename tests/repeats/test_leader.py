"""A leader process that is stopped for longer than its lock and then continues, on every store."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from mita import All, Every, Mita
from mita.ports.store import Store
from tests.waiting import until

from .given import Scene
from .stores import SHARED, address, handle

LOCK = 0.5
KEYS = 5
HOME = Path(__file__).parents[2]


class Process:
    """A scheduler process. Its output goes into a file, so that it never waits for a reader."""

    def __init__(self, arguments: list[str], said: Path) -> None:
        self._said = said
        with said.open("wb") as out:
            command = [sys.executable, "-m", "tests.repeats.process", *arguments]
            self._process = subprocess.Popen(command, cwd=HOME, stdout=out, stderr=out)

    @property
    def said(self) -> str:
        return self._said.read_text()

    @property
    def leads(self) -> bool:
        """Whether it leads, by its last log line. On a busy machine a lock of half a second may
        also change its holder without a fault."""
        return self.said.rfind("is now the repeat leader") > self.said.rfind("was away too long")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(20)
        finally:
            self._process.kill()


@pytest.fixture(params=SHARED)
async def shared(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Scene, list[str]]]:
    url, namespace = address(request.param, tmp_path)
    async with AsyncExitStack() as stack:

        def made() -> Store:
            return handle(request.param, url, namespace)

        app = Mita(store=made)
        stack.push_async_callback(app.close)
        scene = Scene(app, await app._pool.store(), made, stack)
        yield scene, [request.param, url, namespace, str(LOCK)]


async def freeze(scene: Scene, process: Process) -> None:
    """Stop it, but not inside a transaction: on an SQLite file that would stop all processes."""
    while True:
        process.signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(0.5):
                await scene.store.leave("nobody")
            return
        except TimeoutError:
            process.signal(signal.SIGCONT)
            await asyncio.sleep(0.013)


async def test_a_leader_that_continues_after_its_lock_expired_fires_nothing_twice(
    shared: tuple[Scene, list[str]], tmp_path: Path
) -> None:
    """I7"""
    scene, arguments = shared
    for n in range(KEYS):
        await scene.app.repeat(f"k{n}", scene.digest.call(), Every(0.02), missed=All(10_000))
    three = [Process(arguments, tmp_path / f"said-{n}") for n in range(3)]
    try:

        async def fires(least: int) -> None:
            async def enough() -> bool:
                return (await scene.repeat("k0")).count >= least

            await until(enough, f"{least} fires; {[process.said for process in three]}", 90)

        async def all_there() -> bool:
            return all("handles signals now" in process.said for process in three)

        await until(all_there, "three processes have started", 90)
        await fires(20)
        leader = next((process for process in three if process.leads), three[0])
        await freeze(scene, leader)
        before = (await scene.repeat("k0")).count
        await asyncio.sleep(3 * LOCK)
        await fires(before + 20)
        assert any(process.leads for process in three if process is not leader), (
            "one of the others took over"
        )
        leader.signal(signal.SIGCONT)
        await fires((await scene.repeat("k0")).count + 20)
    finally:
        codes = [process.end() for process in three]
    assert codes == [0, 0, 0], [process.said for process in three]
    for n in range(KEYS):
        times = await scene.fired(f"k{n}")
        assert {later - earlier for earlier, later in pairwise(times)} == {20}
        assert len(times) == (await scene.repeat(f"k{n}")).count
