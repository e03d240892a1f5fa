"""Workers that end by themselves, and workers that exclude queues."""

import asyncio

import pytest

from mita import Every, Mita, Retry, UsageError

from .conftest import TIMEOUT_S, until_state, working


async def ends(app: Mita, **settings: object) -> None:
    """Run a worker until it ends by itself."""
    async with asyncio.timeout(TIMEOUT_S):
        await app.worker(poll=0.1, **settings).run()  # type: ignore[arg-type]


async def states(app: Mita, *ids: str) -> list[str]:
    return [record.state for id in ids if (record := await app.get(id)) is not None]


async def test_until_empty_ends_when_no_job_is_ready_or_running(app: Mita) -> None:
    """Jobs that other jobs enqueue and jobs that wait for a key are run; scheduled jobs and jobs
    of paused queues and held keys are not."""

    @app.task
    async def leaf() -> None: ...

    @app.task
    async def root() -> str:
        return (await leaf.enqueue()).id

    @app.task(resource="one")
    async def keyed() -> None: ...

    @app.task(resource="closed")
    async def held() -> None: ...

    @app.task(retry=Retry(max_retries=1, waits=(3600,)))
    async def fails() -> None:
        raise ValueError("later")

    @app.task(queue="quiet")
    async def quiet() -> None: ...

    await app.pause("quiet")
    await app.hold("closed", after=3600)
    first = await root.enqueue()
    keys = [(await keyed.enqueue()).id for _ in range(5)]
    left = [
        (await leaf.after(3600).enqueue()).id,
        (await fails.enqueue()).id,
        (await quiet.enqueue()).id,
    ]
    closed = await held.enqueue()
    await ends(app, until_empty=True)
    assert await states(app, first.id, await first.result(), *keys) == ["succeeded"] * 7
    assert await states(app, *left) == ["scheduled", "scheduled", "ready"]
    # how its store shows jobs that wait for a held key
    assert (await states(app, closed.id))[0] in ("blocked", "ready")


async def test_until_empty_waits_for_the_jobs_of_another_worker(app: Mita) -> None:
    go, started = asyncio.Event(), asyncio.Event()

    @app.task
    async def long() -> None:
        started.set()
        await go.wait()

    async with working(app, poll=0.1):
        job = await long.enqueue()
        await asyncio.wait_for(started.wait(), TIMEOUT_S)
        other = asyncio.create_task(ends(app, until_empty=True))
        done, _ = await asyncio.wait([other], timeout=0.5)
        assert not done
        go.set()
        await other
        await until_state(app, job.id, "succeeded")


async def test_until_empty_fires_the_repeats_that_are_due(app: Mita) -> None:
    ran: list[int] = []

    @app.task
    async def tick() -> None:
        ran.append(1)

    await app.repeat("tick", tick.call(), Every(3600))
    await app.repeats.trigger("tick")
    await ends(app, until_empty=True)
    assert ran == [1]


async def test_until_empty_ends_at_once_on_an_empty_store(app: Mita) -> None:
    await ends(app, until_empty=True)
    assert await app.counts() == {}
    assert await app.workers() == [], "it is no longer listed as a worker"


async def test_a_worker_with_max_jobs_ends_with_the_last_of_them(app: Mita) -> None:
    @app.task
    async def short() -> None:
        await asyncio.sleep(0.05)

    jobs = await app.enqueue_many([short.call() for _ in range(10)])
    await ends(app, max_jobs=4, concurrency=3, grace=0)
    found = await states(app, *(job.id for job in jobs))
    assert (found.count("succeeded"), found.count("ready")) == (4, 6)
    records = [await app.get(job.id) for job in jobs]
    assert {record.interruptions for record in records if record} == {0}


async def test_excluded_queues_are_left_for_other_workers(app: Mita) -> None:
    @app.task
    async def work() -> None: ...

    heavy, light = await work.options(queue="heavy").enqueue(), await work.enqueue()
    async with working(app, exclude=["heavy"], poll=0.1):
        await light.result(timeout=TIMEOUT_S)
        new = await work.options(queue="new").enqueue()
        await new.result(timeout=TIMEOUT_S)
        assert await states(app, heavy.id) == ["ready"]
    await ends(app, exclude=["heavy"], until_empty=True)
    assert await states(app, heavy.id) == ["ready"]
    await ends(app, until_empty=True)
    assert await states(app, heavy.id) == ["succeeded"]


def test_wrong_modes_are_refused() -> None:
    app = Mita("memory://")
    with pytest.raises(UsageError, match="but not both"):
        app.worker(["a"], exclude=["b"])
    with pytest.raises(UsageError, match=r"exclude='a': give a list"):
        app.worker(exclude="a")
    with pytest.raises(UsageError, match="max_jobs=0"):
        app.worker(max_jobs=0)
