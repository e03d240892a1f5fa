"""PgBouncer in transaction mode, the real one, where it is installed: each transaction may be
served by another session."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mita import Every, Mita
from mita.model.job import State
from mita.model.view import Health, JobFilter
from mita.stores.postgres import PostgresStore
from mita.testing.contract.given import QUEUE, claims, job, put, settled, succeed
from tests.stores import tied
from tests.waiting import until

from .server import PORT, Server
from .shared import fresh_url, server

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SETTINGS = """
[databases]
* = host={server} port={port} user=postgres
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 4
logfile = {folder}/log
pidfile = {folder}/pid
"""


class Pooler:
    """In a folder that goes away with it; owned as the server is, since it refuses to run as root
    too."""

    def __init__(self, behind: Server) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mita-pool-"))
        settings = self._folder / "settings.ini"
        settings.write_text(SETTINGS.format(server=behind.folder, port=PORT, folder=self._folder))
        for path in (self._folder, settings):
            shutil.chown(path, behind.data.owner(), behind.data.group())
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = tied.start(
            [str(PGBOUNCER), str(settings)], self._folder, **quiet, **behind._user
        )

    def url(self, namespace: str) -> str:
        return (
            f"postgresql://postgres@/postgres?host={self._folder}&port={PORT}&namespace={namespace}"
        )

    def await_ready(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(
                    f"postgresql://postgres@/postgres?host={self._folder}&port={PORT}"
                ).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture
def pooled() -> Iterator[str]:
    if PGBOUNCER is None:
        pytest.skip("there is no pgbouncer here")
    pooler = Pooler(server("pg18"))
    try:
        pooler.await_ready()
        yield pooler.url(fresh_url().rpartition("=")[2])
    finally:
        pooler.stop()


async def test_jobs_are_right_though_each_transaction_has_another_session(pooled: str) -> None:
    """I1 I3 I5"""
    stores = [PostgresStore(pooled) for _ in range(4)]
    for store in stores:
        await store.open()
    made = [
        receipt.id
        for receipt in await stores[0].enqueue([job(resource=f"r{n % 7}") for n in range(60)])
    ]
    made += [
        receipt.id for receipt in await stores[1].enqueue([job(unique=f"u{n}") for n in range(60)])
    ]
    took: list[str] = []

    async def work(store: PostgresStore) -> None:
        while len(took) < len(made):
            held = await claims(store, 5)
            took.extend(claim.id for claim in held)
            await settled(store, *(succeed(claim) for claim in held))

    async with asyncio.timeout(60):
        await asyncio.gather(*map(work, stores))
    assert sorted(took) == sorted(made)
    page = await stores[0].page(JobFilter(state=State.SUCCEEDED), None, 1000)
    assert {found.id for found in page.jobs} == set(made)
    for store in stores:
        await store.close()


async def test_workers_are_not_woken_and_the_doctor_says_so(pooled: str) -> None:
    store, other = PostgresStore(pooled), PostgresStore(pooled)
    await store.open()
    await other.open()
    while await store.wait([QUEUE], 0.05):
        pass
    await put(other)
    assert await store.wait([QUEUE], 0.5) == frozenset(), (
        "if this fails the pooler has learned it: tell the doctor"
    )
    assert len(await claims(store)) == 1, "a worker that polls finds it"
    [warning] = [finding for finding in await store.doctor() if finding.what == "pooler"]
    assert warning.health is Health.WARN
    assert "nobody is woken" in warning.found
    await store.close()
    await other.close()


async def test_a_worker_runs_jobs_and_repeats(pooled: str) -> None:
    async with Mita(pooled) as app:

        @app.task
        async def double(n: int) -> int:
            return 2 * n

        worker = app.worker()
        running = asyncio.create_task(worker.run())
        made = await app.enqueue_many([double.call(n) for n in range(20)])
        assert [await each.result(timeout=30) for each in made] == [2 * n for n in range(20)]
        await app.repeat("tick", double.call(1), Every(0.02), limit=3)

        async def finished() -> bool:
            return [repeat.state for repeat in await app.repeats.all()] == ["finished"]

        await until(finished)
        worker.stop()
        await running
