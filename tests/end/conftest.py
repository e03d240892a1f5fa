"""A scene on every store. What it tells is shown at the end of the run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .harness import Scene
from .stores import STORES


@pytest.fixture(params=STORES)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    with STORES[request.param](tmp_path) as url:
        scene = Scene(tmp_path, url, request.node.user_properties)
        yield scene
        await scene.close()


@pytest.fixture
async def file_scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """For what can only be done to a file."""
    with STORES["sqlite"](tmp_path) as url:
        scene = Scene(tmp_path, url, request.node.user_properties)
        yield scene
        await scene.close()
