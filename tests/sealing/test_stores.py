"""Encrypted jobs on every store: no plain value is stored, and the keys decide who can read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mita import Job, JobFailed, Keyring, Mita, UsageError
from mita.model.job import Job as StoredJob
from mita.sealing import SealedStore
from tests.waiting import until

from .conftest import NEW_RING, OLD_RING, RING, new_app

SECRET = "hunter2"


def with_tasks(app: Mita) -> Mita:
    """An app with a task that leaves a value of every kind in the store."""

    @app.task
    async def leave(job: Job, word: str) -> str:
        await job.progress(1, 2, f"progress {word}")
        await job.step("write", lambda: f"step {word}")
        answer = await job.wait_for("answer", type=str)
        if job.attempt == 1:
            raise ValueError(f"error {word}")
        return f"{answer} {word}"

    @app.task
    async def echo(word: str) -> str:
        return f"echo {word}"

    @app.task
    async def fail(word: str) -> None:
        raise ValueError(f"fail {word}")

    return app


@asynccontextmanager
async def running(app: Mita) -> AsyncIterator[None]:
    """A worker of this app."""
    worker = app.worker(poll=0.05)
    run = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await run


async def is_waiting(app: Mita, id: str) -> bool:
    record = await app.get(id)
    return record is not None and bool(record.waits_for)


async def seen_by_worker(app: Mita, id: str) -> bool:
    """Whether a worker had the job and gave it back."""
    record = await app.get(id)
    return record is not None and any(line.kind == "locked" for line in record.timeline)


async def stored_bytes(app: Mita, id: str) -> bytes:
    """Everything that the store itself has of a job."""
    sealed = await app.open_store()
    store = sealed.behind if isinstance(sealed, SealedStore) else sealed
    parts = list((await store.raw(id) or {}).values())
    parts += (await store.once_values(id)).values()
    parts += [f"{line.note} {line.error}".encode() for line in await store.timeline(id)]
    [job] = await store.find([id])
    assert isinstance(job, StoredJob)
    parts += [job.payload, job.result or b"", job.progress or b"", (job.error or "").encode()]
    await store.close()
    return b"".join(parts)


async def test_no_value_of_a_job_is_stored_as_it_is(url: str, tmp_path: Path) -> None:
    """Arguments, progress, steps, signals, errors and results, in the middle of a job and at its
    end."""
    async with with_tasks(new_app(url, RING)) as app:
        job = await app.tasks["leave"].enqueue(SECRET)
        async with running(app):
            await until(lambda: is_waiting(app, job.id))
            assert SECRET.encode() not in await stored_bytes(app, job.id)
            await app.signal(job.id, "answer", f"signal {SECRET}")
            answer = await job.result(timeout=20)
        assert answer == f"signal {SECRET} {SECRET}"
        assert SECRET.encode() not in await stored_bytes(app, job.id)
        record = await job.get()
        assert record is not None
        assert record.arguments == {"word": SECRET}
        assert record.failures[0].message == f"error {SECRET}"
        assert any(SECRET in line.note for line in record.timeline)
        assert record.steps[0].value == f"step {SECRET}"
        assert record.progress is not None
        assert record.progress.message == f"progress {SECRET}"
    files = [file.read_bytes() for file in tmp_path.glob("jobs.db*")]  # noqa: ASYNC240
    assert all(SECRET.encode() not in file for file in files)


async def test_other_arguments_are_encrypted_too(url: str) -> None:
    """They are bound to their job, also those of a job whose old arguments were bound to a key; a
    tool without the keyring cannot change them."""
    async with with_tasks(new_app(url, RING)) as app, new_app(url, None) as tool:
        echo = app.tasks["echo"]
        jobs = [await echo.after(60).enqueue("plain")]
        jobs += [await echo.options(unique="u", debounce=60).enqueue("plain")]
        with_tasks(tool)
        for job in jobs:
            with pytest.raises(UsageError, match="encrypted with the key 'new'"):
                await tool.amend(job.id, arguments={"word": SECRET})
            await app.amend(job.id, arguments={"word": SECRET})
            assert SECRET.encode() not in await stored_bytes(app, job.id)
            await app.reschedule(job.id, after=0)
        async with running(app):
            assert [await job.result(20) for job in jobs] == [f"echo {SECRET}"] * 2


async def test_without_the_keyring_a_job_is_shown_as_encrypted(url: str) -> None:
    async with with_tasks(new_app(url, RING)) as app:
        job = await app.tasks["fail"].enqueue(SECRET)
        async with running(app):
            with pytest.raises(JobFailed, match=SECRET):
                await job.result(timeout=20)
        async with new_app(url, None) as tool:
            record = await tool.get(job.id)
            assert record is not None
            assert record.arguments is None
            assert "'new'" in record.encrypted
            assert record.error == "Encrypted: with the key 'new'"
            assert SECRET not in repr(record)
            page = await app.jobs(error=f"fail {SECRET}")
            assert [found.id for found in page.jobs] == [job.id]


async def test_the_group_of_a_failed_job_shows_nothing_of_its_message(url: str) -> None:
    """A message could be guessed from its fingerprint. Who has the keys sees it."""
    async with with_tasks(new_app(url, RING)) as app:
        jobs = [await app.tasks["fail"].enqueue(word) for word in (SECRET, "swordfish")]
        async with running(app):
            for job in jobs:
                with pytest.raises(JobFailed):
                    await job.result(timeout=20)
        [group] = await app.dead_groups()
        assert (group.count, group.error_type) == (2, "ValueError")
        assert group.message in (f"fail {SECRET}".replace("2", "<number>"), "fail swordfish")
        assert len((await app.jobs(group=group.group)).jobs) == 2
        async with new_app(url, None) as tool:
            [hidden] = await tool.dead_groups()
            assert (hidden.group, hidden.count, hidden.frame) == (group.group, 2, "")
            assert hidden.message == "Encrypted: with the key 'new'"


async def test_a_job_waits_for_its_key_and_nothing_is_counted(url: str) -> None:
    """Then a worker that has the key runs it."""
    async with with_tasks(new_app(url, OLD_RING)) as app:
        job = await app.tasks["echo"].enqueue(SECRET)
        async with with_tasks(new_app(url, NEW_RING)) as other:
            async with running(other):
                await until(lambda: seen_by_worker(other, job.id))
            record = await other.get(job.id)
            assert record is not None
            assert (record.state, record.attempts, record.reschedules) == ("scheduled", 0, 0)
            [reason, *_] = await other.explain(job.id)
            assert reason.code == "encrypted"
            assert "'old'" in reason.text
        await app.reschedule(job.id, after=0)
        async with with_tasks(new_app(url, RING)) as rotated, running(rotated):
            assert await rotated.result(job.id, timeout=20) == f"echo {SECRET}"


async def test_plain_jobs_are_run_only_if_the_keyring_accepts_them(url: str) -> None:
    async with with_tasks(new_app(url, None)) as before:
        job = await before.tasks["echo"].enqueue("plain")
    async with with_tasks(new_app(url, RING)) as strict:
        async with running(strict):
            await until(lambda: seen_by_worker(strict, job.id))
        [reason, *_] = await strict.explain(job.id)
        assert "accept_plain=True" in reason.text
        await strict.reschedule(job.id, after=0)
    changing = Keyring("new", {"new": bytes(32)}, accept_plain=True)
    async with with_tasks(new_app(url, changing)) as app, running(app):
        assert await app.result(job.id, timeout=20) == "echo plain"


async def test_flows_pass_encrypted_results(url: str) -> None:
    async with with_tasks(new_app(url, RING)) as app:
        echo = app.tasks["echo"]
        run = await app.chain(echo.call(SECRET), echo.call, echo.call).enqueue()
        async with running(app):
            await run.wait(timeout=20)
        found = await run.get()
        assert found is not None
        [*_, last] = found.steps
        assert await app.result(last.id) == f"echo echo echo {SECRET}"
        assert SECRET.encode() not in await stored_bytes(app, last.id)
