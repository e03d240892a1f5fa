"""Each committed job of an outbox runs once, and in the order of its key, whatever is killed: at
each step of the relay, and at random with real processes and servers."""

import asyncio
import os
import random
import signal
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mita import Mita
from mita.contrib.outbox import Outbox
from mita.contrib.outbox.databases import SqliteOutboxConnection
from mita.contrib.outbox.relay import RowSender
from tests.e2e.harness import FORKS, SEED, SOAK, scaled
from tests.e2e.stores import STORES
from tests.stores.nats import servers as nats
from tests.stores.postgres.server import Server as PostgresServer
from tests.stores.postgres.shared import server as postgres_server
from tests.stores.redis import servers as redis
from tests.waiting import until, wait_until

from . import outbox_program as program
from .outbox_program import Shop

# -------------------------------------------------------------------- killed at each step


class Killed(BaseException):
    """The end of a relay, with everything that it still had to do."""


STEPS = ("_place", "_write_down", "_release")  # after each of them


async def relay_until(app: Mita, step: str) -> None:
    """Run a relay that is killed when it has done this step."""

    async def killed(self: Any, *args: Any) -> None:
        await usual(self, *args)
        raise Killed

    usual = getattr(RowSender, step)
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(RowSender, step, killed)
        await app.outbox.relay(await app._store(), "killed")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("store", STORES)
async def test_a_relay_that_is_killed_after_a_step(store: str, step: str, tmp_path: Path) -> None:
    """The job runs before the next relay comes, and its record is deleted at once (`keep=0`)."""
    outbox, runs = Outbox(f"sqlite:///{tmp_path}/shop.db", poll=0.01), list[int]()
    await outbox.create()
    with STORES[store](tmp_path) as url:
        plain, app = Mita(url, keep=0), Mita(url, keep=0, outbox=outbox)

        def mail(number: int) -> None:
            runs.append(number)

        for one in (plain, app):
            one.task(name="mail", resource="one")(mail)
        with sqlite3.connect(tmp_path / "shop.db") as connection:
            for number in range(3):
                app.tasks["mail"].using(connection).enqueue_sync(number)
        connection.close()
        await relay_until(app, step)
        await plain.worker(until_empty=True).run()
        assert runs == ([0, 1, 2] if step == "_release" else [])
        await app.worker(until_empty=True).run()
        assert runs == [0, 1, 2]
        assert (await outbox.view()).rows == 0
        await plain.worker(until_empty=True).run()
        assert runs == [0, 1, 2]
        await plain.close()
        await app.close()


async def test_a_relay_that_lost_its_lock_runs_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the row, and another relay sends it. The job runs and its record is deleted
    before the first relay goes on."""
    outbox, runs = Outbox(f"sqlite:///{tmp_path}/shop.db", poll=0.01), list[int]()
    await outbox.create()
    app = Mita("memory://", keep=0, outbox=outbox)
    has_read, may_go_on, has_sent = (asyncio.Event() for _ in range(3))

    @app.task(name="mail")
    async def mail() -> None:
        runs.append(1)

    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        mail.using(connection).enqueue_sync()
    usual = RowSender._send

    async def slow(self: Any, *args: Any) -> None:
        if self._relay == "slow":
            has_read.set()
            await may_go_on.wait()
        await usual(self, *args)
        if self._relay == "slow":
            has_sent.set()

    async def lock(*_: object) -> bool:
        return True

    monkeypatch.setattr(RowSender, "_send", slow)
    monkeypatch.setattr(SqliteOutboxConnection, "lock", lock)
    first = asyncio.create_task(outbox.relay(await app._store(), "slow"))
    await has_read.wait()
    await app.worker(until_empty=True).run()
    assert runs == [1]
    may_go_on.set()
    await has_sent.wait()
    first.cancel()
    await app.worker(until_empty=True).run()
    assert runs == [1]
    assert (await app.jobs()).jobs == ()


async def test_a_fault_of_the_relay_does_not_end_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(f"sqlite:///{tmp_path}/shop.db", poll=0.01)
    await outbox.create()
    app, faults = Mita("memory://", outbox=outbox), list[int]()

    @app.task(name="mail")
    async def mail() -> int:
        return 7

    async def fault(*_: object) -> None:
        faults.append(1)
        raise ZeroDivisionError

    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        job = mail.using(connection).enqueue_sync()
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    with monkeypatch.context() as patch:
        patch.setattr(RowSender, "_send", fault)
        await until(lambda: faults)
    assert await job.result(timeout=30) == 7
    worker.stop()
    await running


# -------------------------------------------------------------------- a storm of real processes


class Restarted:
    """A server of jobs that a test kills and starts again, and its URL. In the long form of the
    test, so is the server of the database, if it has one."""

    def __init__(self, server: Any, database: PostgresServer | None = None) -> None:
        self._server, self._database = server, database
        self.url: str = server.start().url
        self.count = 0

    def restart(self) -> None:
        self.count += 1
        if self._database is not None and self.count % 2:
            self._database.kill()
            self._database.launch()
            self._database.await_ready()
            return
        self._server.kill()
        self._server.start()

    def stop(self) -> None:
        end = getattr(self._server, "remove", None) or self._server.stop
        end()
        if self._database is not None:
            self._database.stop()


@contextmanager
def sqlite_and_redis(folder: Path) -> Iterator[tuple[str, Restarted]]:
    durable = ("--appendonly", "yes", "--appendfsync", "always")
    server = Restarted(redis.Server(redis.bundled(), *durable))
    try:
        yield f"sqlite:///{folder}/shop.db", server
    finally:
        server.stop()


@contextmanager
def postgres_and_nats(_: Path) -> Iterator[tuple[str, Restarted]]:
    own = PostgresServer("pg18").start() if SOAK else None
    server = Restarted(nats.Server(), own)
    try:
        yield (own or postgres_server("pg18")).fresh("shop"), server
    finally:
        server.stop()


PAIRS: dict[str, Callable[[Path], AbstractContextManager[tuple[str, Restarted]]]] = {
    "sqlite and redis": sqlite_and_redis,
    "postgres and nats": postgres_and_nats,
}
WRITERS = 4
EXACT = ("sqlite and redis",)  # NATS starts the jobs of a key as they become ready
WORKERS = 2


class Storm:
    """Writers, workers, and two relays that are killed again and again."""

    def __init__(self, shop: Shop, chance: random.Random, workers: int) -> None:
        self.shop, self._chance = shop, chance
        self.kills = 0
        self.writers = [self._start(program.write, n) for n in range(WRITERS)]
        self._workers = [self._start(program.work) for _ in range(workers)]
        self._relays = [self._start(program.relay) for _ in range(2)]

    def _start(self, role: Callable[..., None], *args: int) -> Any:
        process = FORKS.Process(target=role, args=(self.shop, *args), daemon=True)
        process.start()
        return process

    def kill_a_relay(self) -> None:
        at = self._chance.randrange(len(self._relays))
        os.kill(self._relays[at].pid, signal.SIGKILL)
        self._relays[at].join()
        self._relays[at] = self._start(program.relay)
        self.kills += 1

    def end(self) -> None:
        for process in (*self.writers, *self._workers, *self._relays):
            process.kill()
            process.join()


@pytest.mark.parametrize("pair", PAIRS)
def test_a_storm(pair: str, tmp_path: Path, record_property: Callable[[str, Any], None]) -> None:
    chance = random.Random(SEED)
    with PAIRS[pair](tmp_path) as (database, store):
        shop = Shop(database, store.url, str(tmp_path), scaled(12, 125), SEED)
        program.prepare(shop)
        storm = Storm(shop, chance, WORKERS)
        try:
            while any(writer.is_alive() for writer in storm.writers) or storm.kills < 3:
                time.sleep(chance.uniform(0.05, 0.4))
                storm.kill_a_relay()
                if storm.kills % 10 == 2:
                    store.restart()
            wait_until(lambda: all_have_run(shop), within=120)
            committed, runs = program.committed(shop), program.runs(shop)
        finally:
            storm.end()
    told = f"{len(committed)} committed, {storm.kills} kills, {store.count} restarts"
    record_property("told", f"seed {SEED}: {told}")
    assert len(committed) > shop.transactions, "all writers have worked"
    whats = [run.what for run in runs]
    assert set(whats) <= set(committed), "a job ran that was rolled back"
    assert sorted(whats) == sorted(committed), "each ran once"
    for numbers in by_key(whats).values():
        if pair in EXACT:
            assert numbers == sorted(numbers), "they started in the order of their commits"
    for key, sent in by_key([run.what for run in sorted(runs, key=arrival)]).items():
        assert sent == sorted(sent), f"the jobs of {key} were sent in the order of their commits"


def by_key(whats: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for what in whats:
        key, _, number = what.partition(" ")
        found[key].append(int(number))
    return found


def arrival(run: program.Run) -> tuple[int, int]:
    """When the store got the job; those of one millisecond cannot be told apart."""
    return int(run.created), int(run.what.partition(" ")[2])


def all_have_run(shop: Shop) -> bool:
    return set(program.committed(shop)) <= {run.what for run in program.runs(shop)}
