"""A log of what providers did, and an app in memory."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mita import Mita


@pytest.fixture
async def app() -> AsyncIterator[Mita]:
    app = Mita("memory://")
    yield app
    await app.close()


@pytest.fixture
def log() -> list[str]:
    """What happened, in order."""
    return []


def untyped(task: Any) -> Any:
    """The task without its types: a type checker does not see `Depends` in an annotation, and would
    want the value from the caller."""
    return task
