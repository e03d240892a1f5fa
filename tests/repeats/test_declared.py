"""Repeats that the code declares, and workers that start with them."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from mita import Every, Mita


async def test_a_declared_repeat_that_is_over_does_not_stop_a_worker_from_starting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "mita.repeats")
    app = Mita("memory://")

    @app.repeats(Every(60), key="alive")
    @app.repeats(Every(60), key="over", end_before=datetime.now(UTC) - timedelta(days=1))
    @app.task
    async def digest() -> None: ...

    await app.repeats.put_declared()
    assert [repeat.key for repeat in await app.repeats.all()] == ["alive"]
    assert "'over' would never fire" in caplog.text
