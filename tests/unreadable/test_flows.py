"""I15: flows of which a part cannot be read. The flow ends, with a reason at the part that cannot
be read; other flows and the pages of flows do not stop for it."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mita import Mita, Retry
from mita.cli.doctor import unreadable_flows
from mita.model.flow import Arrival, FlowPlace
from mita.model.job import NewJob
from mita.ports.ids import new_id
from mita.ports.store import Store
from mita.rules.flow import FLOW_TASK, GATHER_TASK, step_id
from mita.rules.options import with_flow
from mita.stores.postgres.context import RoundTrip
from mita.stores.postgres.resources import aside
from mita.testing import lab
from tests.engine.conftest import working
from tests.waiting import until

from .test_every_field import STORES

GARBAGE = (b"\xc1", b"\xff\xfe", b"\x90", b"\x93\x01\x02\x03", b"\x91" * 2000)
LONG_S = 3 * 3600
MEMBERS = 120  # so many that jobs gather them
Spoil = Callable[[NewJob, bytes], NewJob]


def own_payload(job: NewJob, garbage: bytes) -> NewJob:
    return replace(job, payload=garbage) if job.task == FLOW_TASK else job


def own_options(job: NewJob, garbage: bytes) -> NewJob:
    return replace(job, options=garbage) if job.task == FLOW_TASK else job


def gathering_options(job: NewJob, garbage: bytes) -> NewJob:
    return replace(job, options=garbage) if job.task == GATHER_TASK else job


def member_options(job: NewJob, garbage: bytes) -> NewJob:
    return replace(job, options=garbage) if job.id.endswith(".000001") else job


def member_payload(job: NewJob, garbage: bytes) -> NewJob:
    return replace(job, payload=garbage) if job.id.endswith(".000001") else job


def callback_options(job: NewJob, garbage: bytes) -> NewJob:
    return replace(job, options=garbage) if job.task == "add" else job


def callback_payload(job: NewJob, garbage: bytes) -> NewJob:
    return replace(job, payload=garbage) if job.task == "add" else job


class Bench:
    """An app with a group and a callback."""

    def __init__(self, url: str = "memory://") -> None:
        self.app = app = Mita(url, retry=Retry(max_retries=0))

        @app.task
        async def count(n: int) -> int:
            return n

        @app.task
        async def add(numbers: list[int]) -> int:
            return sum(numbers)

        self.count, self.add = count, add

    async def enqueue(self, members: int) -> Any:
        calls = [self.count.call(n) for n in range(members)]
        return await self.app.group(calls).then(self.add.call).enqueue()


async def check_shown(app: Mita, run: Any) -> None:
    """Everything that only looks must answer."""
    record = await run.get()
    assert record is not None
    assert record.state not in ("running", "succeeded") or record.finished is not None
    assert len((await app.flows()).flows) == 2
    for job in (await app.jobs(limit=1000)).jobs[::20]:
        assert job.finished is not None, job
        assert await app.get(job.id) is not None
        await app.explain(job.id)
    await app.explain(run.id)


@pytest.mark.parametrize("members", [3, MEMBERS])
@pytest.mark.parametrize(
    "spoil",
    [
        own_payload,
        own_options,
        gathering_options,
        member_options,
        member_payload,
        callback_options,
        callback_payload,
    ],
)
async def test_a_flow_with_a_job_that_cannot_be_read_ends(
    spoil: Spoil, members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for garbage in GARBAGE if members < MEMBERS else GARBAGE[:1]:
        it = Bench()
        async with lab(it.app) as at:
            healthy = await it.enqueue(members)
            store = await it.app._store()
            whole = store.enqueue

            async def enqueue(jobs: Any) -> Any:
                return await whole([spoil(job, garbage) for job in jobs])  # noqa: B023

            store.enqueue = enqueue  # type: ignore[method-assign]
            broken = await it.enqueue(members)
            store.enqueue = whole  # type: ignore[method-assign]
            await at.advance(LONG_S, raises=False)
            await healthy.wait(timeout=1)
            left = [job for job in (await it.app.jobs(limit=1000)).jobs if job.finished is None]
            assert not left, (garbage, left[:3])
            await check_shown(it.app, broken)


@pytest.mark.parametrize("members", [3, MEMBERS])
@pytest.mark.parametrize("garbage", [one for one in GARBAGE if one != b"\x90"])
async def test_a_value_that_was_told_and_cannot_be_read_fails_its_receiver(
    garbage: bytes, members: int
) -> None:
    """A step, the flow itself, and a job that gathers others."""
    it = Bench()
    numbers = {"step": members + 1, "flow": 0} | ({"gather": members + 2} if members > 100 else {})
    for what, number in numbers.items():
        async with lab(it.app) as at:
            await it.enqueue(members)
            run = await it.enqueue(members)
            store = at._inline._store
            sender = step_id(run.id, 1)
            id = step_id(run.id, number)
            [receiver] = await store.find([id])
            assert receiver is not None
            await store.arrive([Arrival(receiver.queue, id, sender, garbage, 1000)])
            await at.advance(LONG_S, raises=False)
            left = [job for job in (await it.app.jobs(limit=1000)).jobs if job.finished is None]
            assert not left, (what, left[:3])
            await check_shown(it.app, run)
            ended = await it.app.get(id)
            assert ended is not None
            assert ended.state == "failed", (what, ended)
            assert "cannot be read" in (ended.error or "")


@pytest.mark.parametrize("name", STORES)
async def test_the_doctor_names_a_flow_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    """On a real worker: the flow is parked with its reason, and a healthy flow beside it ends."""
    url, _ = STORES[name](tmp_path, 0)
    it = Bench(url)
    async with it.app as app:
        store, id = await app._store(), new_id()
        options = with_flow(b"", FlowPlace(id, 0, 1))
        lost = NewJob(id=id, task=FLOW_TASK, queue="default", payload=b"\xc1", options=options)
        await store.enqueue([lost])
        healthy = await it.enqueue(3)
        async with working(app, poll=0.1):
            await healthy.wait(timeout=60)
            await until(lambda: ended(store, id), "the flow is parked")
        record = await app.get(id)
        assert record is not None
        assert (record.state, len((await app.flows()).flows)) == ("failed", 2)
        assert "cannot be read" in (record.error or "")
        [finding] = await unreadable_flows(store)
        assert id in finding.found


async def ended(store: Store, id: str) -> bool:
    [job] = await store.find([id])
    return job is not None and job.finished is not None


async def _damage(_: Store, path: Path, step: str) -> None:
    """The next claim finds a row that it cannot read."""
    with sqlite3.connect(path) as connection:
        connection.execute("update _mita_job set created = 'explode' where id = ?", (step,))
    connection.close()


async def _set_aside(store: Any, _: Path, step: str) -> None:
    """PostgreSQL takes hardly any value that cannot be read. This is what a claim would do."""

    def act(_: Any) -> Any:
        yield RoundTrip(aside([(step, "it cannot be read")]), last=True)

    await store._short.run(act, repeatable=True)


@pytest.mark.parametrize(("kind", "spoil"), [("sqlite", _damage), ("postgres", _set_aside)])
async def test_a_flow_ends_soon_if_one_of_its_steps_is_set_aside(
    kind: str, spoil: Any, tmp_path: Path
) -> None:
    """It does not wait for its patrol: the worker stops when no job is due."""
    url, _ = STORES[kind](tmp_path, 0)
    it = Bench(url)
    async with it.app:
        run = await it.enqueue(3)
        path = Path(url.removeprefix("sqlite:///"))
        await spoil(await it.app._store(), path, step_id(run.id, 1))
        await it.app.worker(until_empty=True).run()
        record = await run.get()
        assert record is not None
        assert [step.state for step in record.steps] == ["failed", *["succeeded"] * 2, "cancelled"]
        assert (record.state, record.finished is not None) == ("failed", True)
