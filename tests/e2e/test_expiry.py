"""Jobs that expire, with real workers that are killed meanwhile."""

from typing import Any

from mita.model.job import Job, State
from mita.model.time import SECOND
from mita.model.view import JobFilter
from tests.waiting import until

from .harness import Scene, scaled

EXPIRES_S = 2.0
PLACES = 4  # that two workers have together
WORK_S = 3 * EXPIRES_S  # of all jobs together, so most of them must expire


async def test_no_job_starts_after_it_has_expired_and_none_is_lost(scene: Scene) -> None:
    """I1: each job either ran, and started in time, or is cancelled as expired, and never ran."""
    nap_ms = 100
    count = scaled(round(PLACES * WORK_S * 1000 / nap_ms), 2000)
    workers = [scene.worker(concurrency=PLACES // 2) for _ in range(2)]
    await scene.ready(*workers)
    task = scene.works.nap.options(expires=EXPIRES_S)
    await scene.app.enqueue_many([task.call(n, nap_ms) for n in range(1, count + 1)])
    await until(lambda: scene.lines("start", who=workers[0].who), "the first worker runs a job")
    await scene.kill(workers[0])
    workers.append(scene.worker(concurrency=PLACES // 2))
    await scene.finished()
    await scene.stop(*workers[1:])

    jobs = {job.id: job for job in await everything(scene)}
    assert len(jobs) == count
    starts = scene.lines("start")
    assert all(line.at - line.due <= EXPIRES_S * SECOND for line in starts)
    ran = {line.job for line in starts}
    ended = {id for id, job in jobs.items() if job.state is State.SUCCEEDED}
    expired = {id for id, job in jobs.items() if job.state is State.CANCELLED}
    assert ended | expired == jobs.keys(), "no job has another end"
    assert expired, "most of them had to wait for too long"
    assert ended <= ran
    # a job of the worker that was killed may expire after its first run
    crashed = {id for id, job in jobs.items() if job.crashes}
    assert not (expired & ran) - crashed
    store = await scene.store()
    for id in expired:
        assert (await store.timeline(id))[-1].kind == "expired"


async def everything(scene: Scene) -> list[Job]:
    store, found, after = await scene.store(), [], None
    while True:
        page: Any = await store.page(JobFilter(), after, 1000)
        found += page.jobs
        if (after := page.after) is None:
            return found
