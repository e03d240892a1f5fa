"""A job that is too large for its store ends with a visible error, and other jobs are not
affected."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mita import All, Every, Job, JobRecord, Mita, Retry, UsageError
from mita.client.repeat_spec import repeat_spec
from mita.engine.run_context import RunContext
from mita.engine.scheduler import fire_due
from mita.model.repeat import Repeat
from mita.model.time import HOUR, Moment
from mita.rules.display import as_datetime
from mita.rules.schedule import spec
from mita.stores.memory import MemoryStore
from mita.stores.postgres.server import arrays
from tests.contract.stores import tight_redis_server, tighten_sqlite
from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers
from tests.waiting import until

from .conftest import until_state, working

Tighten = Callable[[Path, pytest.MonkeyPatch], str]


def _memory(_: Path, patch: pytest.MonkeyPatch) -> str:
    patch.setattr("mita.stores.memory.MemoryStore", partial(MemoryStore, room=50_000))
    return "memory://"


def _sqlite(folder: Path, patch: pytest.MonkeyPatch) -> str:
    tighten_sqlite(patch)
    return f"sqlite:///{folder / 'jobs.db'}"


def _postgres(_: Path, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(arrays, "LARGEST_ARRAY_CHARS", 200_000)
    return postgres_servers.fresh_url()


def _redis(_: Path, __: pytest.MonkeyPatch) -> str:
    return f"{tight_redis_server().url}?namespace={redis_servers.fresh_namespace()}"


def _nats(_: Path, __: pytest.MonkeyPatch) -> str:
    return f"{nats_servers.tight().url}?namespace=engine_{nats_servers.fresh_namespace()}"


TIGHT: dict[str, Tighten] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
    "nats": _nats,
}


@pytest.fixture(params=TIGHT)
async def app(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Mita]:
    """An app whose store accepts only small jobs."""
    app = Mita(TIGHT[request.param](tmp_path, monkeypatch), payload_limit=10_000_000)
    yield app
    await app.close()


async def room(app: Mita) -> int:
    store = await app._pool.store()
    assert store.room is not None
    return store.room


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker does not check the size of a result, so that the store rejects it."""

    def unchecked_context(*args: Any) -> RunContext:
        made = RunContext(*args)
        made.room = None
        return made

    monkeypatch.setattr("mita.engine.executor.RunContext", unchecked_context)


async def succeeded(app: Mita, ids: list[str]) -> None:
    """Check that these jobs ran once and succeeded."""
    for id in ids:
        record = await until_state(app, id, "succeeded")
        assert (record.attempts, record.crashes, record.interruptions) == (0, 0, 0)
        assert [line.kind for line in record.timeline] == ["created", "started", "succeeded"]


@pytest.mark.usefixtures("unchecked")
async def test_a_result_that_the_store_rejects_fails_only_its_job(app: Mita) -> None:
    """I12 I15"""
    size = 3 * await room(app)

    @app.task
    async def fat() -> str:
        return "x" * size

    @app.task
    async def lean() -> str:
        return "y"

    before = [job.id for job in await app.enqueue_many([lean.call() for _ in range(5)])]
    large = await fat.enqueue()
    beside = [job.id for job in await app.enqueue_many([lean.call() for _ in range(5)])]
    async with working(app, concurrency=20):
        record = await until_state(app, large.id, "failed")
        after = await lean.enqueue()
        await succeeded(app, [*before, *beside, after.id])
    assert "the store did not take the result of" in record.error
    assert "store it elsewhere and return its name" in record.error
    assert record.attempts == 1, "another run would give the same"
    assert [line.kind for line in record.timeline] == ["created", "started", "failed"]


async def test_once_values_errors_and_a_result_that_are_too_large_together_end_only_their_job(
    app: Mita,
) -> None:
    """I12 I15: each of them fits, and together they may not."""
    most = await room(app)

    @app.task(retry=Retry(max_retries=3, base=0))
    async def fat(job: Job) -> str:
        await job.once("first", lambda: "x" * (most // 2))
        await job.progress(job.attempt, 4, "m" * 1000)
        if job.attempt < 4:
            raise ValueError("é" * 2000 + str(job.attempt))
        return "y" * (most * 4 // 5)

    @app.task
    async def lean() -> None: ...

    large = await fat.enqueue()
    beside = [job.id for job in await app.enqueue_many([lean.call() for _ in range(20)])]
    async with working(app, concurrency=20):
        await succeeded(app, beside)

        async def ended() -> JobRecord | None:
            record = await app.get(large.id)
            return record if record and record.state in ("succeeded", "failed") else None

        record = await until(ended)
        await succeeded(app, [(await lean.enqueue()).id])
    if record.state == "failed":
        assert "did not take the result" in (record.error or "")
    assert (record.attempts, record.crashes) == (3 if record.state == "succeeded" else 4, 0)


async def test_a_once_value_that_is_too_large_fails_its_job_and_is_computed_once(app: Mita) -> None:
    """I15: another run would do the work again, in vain."""
    size = 3 * await room(app)
    made = []

    def large() -> str:
        made.append(1)
        return "x" * size

    @app.task(retry=Retry(max_retries=3, base=0))
    async def fat(job: Job) -> None:
        await job.once("large", large)

    async with working(app):
        record = await until_state(app, (await fat.enqueue()).id, "failed")
    assert record.error.startswith("mita.Rejected: ")
    assert (record.attempts, len(made)) == (1, 1)


async def test_a_catch_up_that_is_too_large_for_one_call_uses_several(app: Mita) -> None:
    """I7: one job for each window, and none is lost."""
    size = await room(app) // 2

    @app.task
    async def digest(text: str) -> None: ...

    first = await missed(app, digest.call("x" * size), 30)
    store = await app._pool.store()
    while (await fire_due(store))[1] == 0:
        pass
    [repeat] = await store.list_repeats()
    assert (repeat.state, repeat.count, repeat.reason) == ("active", 30, "")
    page = await app.jobs(repeat="digest")
    made = sorted(job.fire_time for job in page.jobs if job.fire_time is not None)
    assert made == [as_datetime(first + n * HOUR) for n in range(30)]


async def test_a_repeat_whose_job_the_store_rejects_is_parked_and_others_fire(
    app: Mita,
) -> None:
    """I15: the server's limit was lowered after the repeat was stored."""
    size = await room(app)

    @app.task
    async def digest(text: str) -> None: ...

    with pytest.raises(UsageError, match=r"'digest'.*bytes.*room for"):
        await app.repeat("heavy", digest.call("x" * size), Every(3600))
    await missed(app, digest.call("x" * size), 2, "heavy")
    await missed(app, digest.call("x"), 2, "light")
    store = await app._pool.store()
    while (await fire_due(store))[1] == 0:
        pass
    heavy, light = await store.list_repeats()
    assert (light.count, light.state) == (2, "active")
    assert (heavy.count, heavy.state) == (0, "parked")
    assert "store the data elsewhere" in heavy.reason


async def missed(app: Mita, call: Any, windows: int, key: str = "digest") -> Moment:
    """Store an hourly repeat that has missed this many windows. Returns the first of them."""
    store = await app._pool.store()
    first = await store.now() - windows * HOUR + HOUR // 2
    wanted = repeat_spec(call, Every(3600), {"missed": All(1000)})
    await store.put_repeat(Repeat(key=key, spec=spec.pack(wanted), cursor=first))
    return first


# ---------------------------------------------------------------- a rule of the database


def forbid_in_sqlite(url: str, id: str, what: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        database.execute(
            f"create trigger no before update on _mita_job when old.id = '{id}' and {what} "
            "begin select raise(abort, 'a rule of the house'); end"
        )
    database.close()


def forbid_in_postgres(url: str, id: str, what: str) -> None:
    server, _, space = url.rpartition("&namespace=")
    with psycopg.connect(server) as database:
        database.execute(
            f"create function {space}.no() returns trigger language plpgsql as "
            "$$ begin raise exception 'a rule of the house'; end $$"
        )
        database.execute(
            f"create trigger no before update on {space}._job for each row "
            f"when (old.id::text = '{id}' and {what}) execute function {space}.no()"
        )


RULES: dict[str, tuple[Callable[[Path], str], Callable[[str, str, str], None]]] = {
    "sqlite": (lambda folder: f"sqlite:///{folder / 'jobs.db'}", forbid_in_sqlite),
    "postgres": (lambda _: postgres_servers.fresh_url(), forbid_in_postgres),
}


@pytest.mark.parametrize("store", RULES)
async def test_a_verdict_that_a_database_rule_forbids_fails_only_its_job(
    store: str, tmp_path: Path
) -> None:
    make, forbid = RULES[store]
    url = make(tmp_path)
    app = Mita(url)

    @app.task
    async def work() -> str:
        return "x"

    jobs = [job.id for job in await app.enqueue_many([work.call() for _ in range(9)])]
    forbid(url, jobs[4], "new.state = 'succeeded'")
    async with working(app, concurrency=9):
        record = await until_state(app, jobs[4], "failed")
        await succeeded(app, [id for id in jobs if id != jobs[4]])
    await app.close()
    assert "a rule of the house" in record.error


@pytest.mark.parametrize("store", RULES)
async def test_progress_that_is_rejected_does_not_fail_its_run(store: str, tmp_path: Path) -> None:
    """I6: it is a report."""
    make, forbid = RULES[store]
    url = make(tmp_path)
    app = Mita(url)

    @app.task
    async def work(job: Job) -> str:
        for n in range(3):
            await job.progress(n, 3)
        return "x"

    job = await work.enqueue()
    forbid(url, job.id, "new.progress is not null")
    async with working(app):
        await succeeded(app, [job.id])
    await app.close()


@pytest.mark.parametrize("store", RULES)
async def test_a_job_that_cannot_be_settled_does_not_block_others(
    store: str, tmp_path: Path
) -> None:
    """It waits until its lease expires."""
    make, forbid = RULES[store]
    url = make(tmp_path)
    app = Mita(url)

    @app.task
    async def work() -> str:
        return "x"

    jobs = [job.id for job in await app.enqueue_many([work.call() for _ in range(9)])]
    forbid(url, jobs[4], "new.state <> 'running'")
    async with working(app, concurrency=9):
        await succeeded(app, [id for id in jobs if id != jobs[4]])
        await succeeded(app, [(await work.enqueue()).id])
        record = await app.get(jobs[4])
    await app.close()
    assert record is not None
    assert record.state == "running"
