"""Pauses between restarts, and processes that do not stop in time."""

import asyncio
from collections.abc import Callable

import pytest

from mita.cli.supervisor import LONGEST_PAUSE_S, STABLE_AFTER_S, Child, Supervisor
from tests.waiting import until

from .conftest import Run


def test_the_pause_grows_with_every_early_end_and_is_zero_after_a_long_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("mita.cli.supervisor.time.monotonic", lambda: now)
    child = Child(1, [])
    child.started = now
    pauses = [child.pause() for _ in range(9)]
    assert pauses[:4] == [0.5, 1, 2, 4]
    assert pauses[-1] == LONGEST_PAUSE_S
    now += STABLE_AFTER_S
    assert child.pause() == 0
    child.started = now
    assert child.pause() == 0.5


def test_a_process_that_does_not_stop_in_time_is_killed(
    mita: Run, enqueue: Callable[..., str]
) -> None:
    id = enqueue("hang", "60")

    async def is_running() -> bool:
        said = await asyncio.to_thread(mita, "show", id, "--json")
        return bool(said.data["job"]["state"] == "running")

    async def run() -> int:
        supervisor = Supervisor(["worker", "shop:app", "--lease", "60"], 1, stop_timeout=0.3)
        running = asyncio.create_task(supervisor.run())
        await until(is_running)
        supervisor.request_stop()
        async with asyncio.timeout(60):
            return await running

    assert asyncio.run(run()) == 1
