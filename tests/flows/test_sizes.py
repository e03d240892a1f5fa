"""Flows that are large, and results that are too large for their store."""

from pathlib import Path

import pytest

from mita import FlowRun, Mita, Retry
from tests.engine.conftest import working
from tests.engine.test_too_large import TIGHT
from tests.waiting import until


class Tasks:
    def __init__(self, app: Mita) -> None:
        @app.task
        async def member(n: int, characters: int) -> str:
            return str(n % 10) * characters

        @app.task
        async def total(texts: list[str]) -> int:
            return sum(len(text) for text in texts)

        self.member, self.total = member, total


async def has_ended(run: FlowRun) -> bool:
    record = await run.get()
    return record is not None and record.state != "running"


@pytest.fixture(params=TIGHT)
def tight(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mita:
    """An app on a store that takes little, about 50,000 bytes for a job."""
    return Mita(TIGHT[request.param](tmp_path, monkeypatch), retry=Retry(max_retries=0))


async def test_results_that_are_too_large_together(tight: Mita) -> None:
    """Each of the 150 members returns 1,500 bytes, and a hundred of them are gathered in one. A
    store takes them, or some job fails with the remedy, at once and for good."""
    async with tight as app:
        tasks = Tasks(app)
        calls = [tasks.member.call(n, 1500) for n in range(150)]
        run = await app.group(calls).then(tasks.total.call).enqueue()
        async with working(app):
            await until(lambda: has_ended(run), within=25)  # no patrol was needed
        record = await run.get()
        assert record is not None
        callback = await app.get(record.steps[-1].id)
        assert callback is not None
        if record.state == "succeeded":
            assert callback.result == 150 * 1500
            return
        assert record.state == "failed"
        errors = [record.error or "", *(step.error for step in record.steps)]
        assert any("store it elsewhere and return its name" in error for error in errors)
        failed = (await app.jobs(state="failed")).jobs
        assert {job.attempts for job in failed if job.task != "mita.flow"} == {1}


async def test_results_that_fit_are_all_there(tight: Mita) -> None:
    async with tight as app:
        tasks = Tasks(app)
        calls = [tasks.member.call(n, 100) for n in range(150)]
        run = await app.group(calls).then(tasks.total.call).enqueue()
        async with working(app):
            await run.wait(timeout=60)
        record = await run.get()
        assert record is not None
        done = await app.get(record.steps[-1].id)
        assert done is not None
        assert done.result == 15_000
