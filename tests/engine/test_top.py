"""`mita top` works on every store that another process can reach."""

import asyncio
import json

import pytest

from mita import Job, Mita
from mita.cli import main
from tests.waiting import until

from .conftest import working


async def test_top_shows_queues_workers_and_progress_of_every_store(
    app: Mita, capsys: pytest.CaptureFixture[str]
) -> None:
    if app.url.scheme == "memory":
        return  # other processes cannot read it
    seen = asyncio.Event()

    @app.task(queue="web")
    async def crawl(job: Job) -> None:
        await job.progress(5, 10, "half of it")
        await seen.wait()

    @app.task(queue="mail")
    async def send() -> None: ...

    place = ["--url", app.url.text, "--namespace", app.url.namespace]
    picture: dict[str, list[dict[str, object]]] = {}

    async def looks_right() -> bool:
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["top", "--json", *place]) == 0
        picture.update(json.loads(capsys.readouterr().out))
        [worker] = picture["workers"] or [{}]
        return bool(worker.get("rates")) and [job["progress"] for job in picture["jobs"]] == [
            [5, 10, "half of it"]
        ]

    async with working(app, name="box", concurrency=7, lease=1):
        await crawl.enqueue()
        await app.enqueue_many([send.call() for _ in range(20)])
        await send.after(3600).enqueue()
        try:
            await until(looks_right)
        finally:
            seen.set()
    queues = {queue["name"]: (queue["depth"], queue["running"]) for queue in picture["queues"]}
    assert queues == {"mail": (1, 0), "web": (0, 1)}
    [worker] = picture["workers"]
    assert (worker["name"], worker["slots"], bool(worker["version"])) == ("box", 7, True)
