"""Bulk runs on encrypted jobs."""

from pathlib import Path

import pytest

from mita import JobFailed, Mita
from mita.sealing import SealedStore
from tests.waiting import until

from .conftest import RING, new_app
from .test_stores import running

SECRET = "hunter2"


def with_task(app: Mita) -> Mita:
    @app.task
    async def login(word: str) -> str:
        if not word:
            raise ValueError("no word")
        return f"hello {word}"

    return app


async def failed(app: Mita) -> str:
    job = await app.tasks["login"].enqueue("")
    async with running(app):
        with pytest.raises(JobFailed):
            await job.result(20)
    return job.id


async def has_ended(app: Mita, id: str) -> bool:
    record = await app.bulk(id)
    return record is not None and record.finished is not None


async def test_arguments_of_a_bulk_run_are_encrypted_and_so_are_those_of_its_jobs(
    tmp_path: Path,
) -> None:
    async with with_task(new_app(f"sqlite:///{tmp_path}/jobs.db", RING)) as app:
        id = await failed(app)
        begun = await app.start_bulk("retry", task="login", arguments={"word": SECRET})
        sealed = await app.open_store()
        assert isinstance(sealed, SealedStore)
        for stored in await sealed.behind.find([begun.id, id]):
            assert SECRET.encode() not in stored.payload
        async with running(app):
            await until(lambda: has_ended(app, begun.id))
            assert await app.result(id, 20) == f"hello {SECRET}"
        [stored] = await sealed.behind.find([id])
        assert SECRET.encode() not in stored.payload
        await sealed.close()
        record = await app.bulk(begun.id)
        assert record is not None
        assert record.answers == {"done": 1}
    files = [file.read_bytes() for file in tmp_path.glob("jobs.db*")]  # noqa: ASYNC240
    assert all(SECRET.encode() not in file for file in files)


async def test_a_tool_without_the_keyring_can_start_one(tmp_path: Path) -> None:
    """A worker that only accepts encrypted jobs runs it. What a worker has started, the tool cannot
    read."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with with_task(new_app(url, RING)) as app, new_app(url, None) as tool:
        id = await failed(app)
        begun = await tool.start_bulk("retry", task="login")
        async with running(app):
            await until(lambda: has_ended(tool, begun.id))
            job = await app.get(id)
            assert job is not None
            assert "revived" in [line.kind for line in job.timeline]
        ours = await app.start_bulk("delete", state="failed")
        record = await tool.bulk(ours.id)
        assert record is not None
        assert (record.verb, record.filters) == ("", {})
        assert len((await tool.bulks()).bulks) == 2
