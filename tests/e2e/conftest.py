"""A scene on every store. What it reports is shown at the end of the test run."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .harness import Scene
from .stores import STORES

# The tests that run on every store in the daily run; the others run there on SQLite only, and on
# all stores under `make soak`: a server and six workers on two cores need their time.
ON_EVERY_STORE = {
    "test_a_job_that_kills_its_workers_fails_and_other_jobs_run",
    "test_signals_are_delivered_exactly_once_while_processes_are_killed",
    "test_handlers_that_sleep_or_wait_cost_nothing",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "MITA_SOAK" in os.environ:
        return
    left_out = [item for item in items if _is_for_the_soak(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _is_for_the_soak(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    if call is None or "scene" not in getattr(item, "fixturenames", ()):
        return False
    return (
        call.params.get("scene", "sqlite") != "sqlite"
        and getattr(item, "originalname", "") not in ON_EVERY_STORE
    )


@pytest.fixture(params=STORES)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """One store and its processes. A server shares the cores with its workers, so leases are
    longer there: only a fault of the test may lose one."""
    with STORES[request.param](tmp_path) as url:
        scene = Scene(
            tmp_path,
            url,
            request.node.user_properties,
            lease=1.0 if request.param == "sqlite" else 4.0,
        )
        yield scene
        await scene.close()


@pytest.fixture
async def nats_scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """For faults between two steps of a method on JetStream."""
    with STORES["nats"](tmp_path) as url:
        scene = Scene(tmp_path, url, request.node.user_properties, lease=4.0)
        yield scene
        await scene.close()


@pytest.fixture
async def file_scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """For faults that only a file can have."""
    with STORES["sqlite"](tmp_path) as url:
        scene = Scene(tmp_path, url, request.node.user_properties)
        yield scene
        await scene.close()
