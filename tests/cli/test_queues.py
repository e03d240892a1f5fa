"""`queues`, `pause`, `resume`, `hold`, `unhold`, `workers`, `repeats`."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from mita import Every, Mita
from tests.waiting import until

from .conftest import Run

Put = Callable[..., str]


def test_queues_show_depth_oldest_wait_and_pauses(mita: Run, enqueue: Put) -> None:
    enqueue("greet", "Ada")
    enqueue("greet", "Bo", "--after", "1h")
    enqueue("charge", "1", "5")
    mita("pause", "billing")
    queues = {queue["name"]: queue for queue in mita("queues", "--json").data["queues"]}
    assert (
        queues["default"]["ready"],
        queues["default"]["scheduled"],
        queues["default"]["paused"],
    ) == (1, 1, None)
    assert queues["default"]["oldest_seconds"] >= 0
    assert queues["billing"]["paused"].endswith("Z")
    header, billing, default = mita("queues").out.splitlines()
    assert header.split()[0] == "QUEUE"
    assert (billing.split()[0], billing.split()[-1]) == ("billing", "paused")
    assert default.split()[:3] == ["default", "1", "1"]


def test_without_queues_the_list_says_so(mita: Run) -> None:
    mita("migrate")
    assert "no queues yet" in mita("queues").out


def test_a_resumed_queue_runs_its_jobs(mita: Run, enqueue: Put) -> None:
    enqueue("greet", "Ada")
    assert mita("pause", "default").out == "default  paused\n"
    assert mita("resume", "default").out == "default  resumed\n"
    assert mita("queues", "--json").data["queues"][0]["paused"] is None


def test_pausing_an_unknown_queue_says_that_it_is_unknown(mita: Run, enqueue: Put) -> None:
    enqueue("greet", "Ada")
    said = mita("pause", "defualt", "default")
    assert (
        said.out
        == "defualt  paused (it has had no job so far; there are: default)\ndefault  paused\n"
    )
    assert mita("resume", "defualt", "--json").data == {
        "resumed": [{"name": "defualt", "known": True}]
    }


def test_an_odd_queue_name_is_refused(mita: Run) -> None:
    mita("migrate")
    said = mita("pause", "odd name")
    assert (said.code, "not a usable name" in said.err) == (2, True)


def test_a_resource_key_can_be_held_and_released(mita: Run, enqueue: Put) -> None:
    enqueue("charge", "42", "5")
    held = mita("hold", "account:42", "--after", "10m")
    assert held.code == 0
    assert "account:42  on hold in billing until" in held.out
    until = mita(
        "hold", "account:42", "--until", "2040-01-01T00:00:00Z", "--queue", "billing", "--json"
    ).data
    assert until == {"key": "account:42", "queues": ["billing"], "until": "2040-01-01T00:00:00Z"}
    assert mita("unhold", "account:42").out == "account:42  free in billing\n"


def test_a_hold_needs_a_time_and_a_queue(mita: Run) -> None:
    mita("migrate")
    assert mita("hold", "account:42").code == 2
    nowhere = mita("hold", "account:42", "--after", "5")
    assert (nowhere.code, "name the queue" in nowhere.err) == (2, True)


def test_live_workers_are_listed(mita: Run, enqueue: Put, project: Path) -> None:
    enqueue("greet", "Ada")
    assert "no worker is alive" in mita("workers").out
    app = Mita("sqlite:///jobs.db")

    async def look() -> None:
        worker = app.worker(["default"], name="box-1", concurrency=7)
        running = asyncio.create_task(worker.run())
        store = await app.open_store()
        await until(store.workers, "the worker is shown")
        said = await asyncio.to_thread(mita, "workers", "--json")
        table = await asyncio.to_thread(mita, "workers")
        worker.stop()
        await running
        await store.close()
        await app.close()
        [view] = said.data["workers"]
        assert (view["name"], view["slots"], view["queues"]) == ("box-1", 7, ["default"])
        assert "box-1" in table.out

    asyncio.run(look())
    assert mita("workers", "--json").data == {"workers": []}


@pytest.fixture
def digest(mita: Run, project: Path) -> None:
    """A repeat in the store."""
    app = Mita("sqlite:///jobs.db")

    @app.task
    async def digest() -> None: ...

    async def put() -> None:
        async with app:
            await app.repeat("digest", digest.call(), Every(3600))

    asyncio.run(put())


@pytest.mark.usefixtures("digest")
def test_repeats_are_listed_with_their_next_fire(mita: Run) -> None:
    said = mita("repeats")
    assert said.code == 0
    for part in ("digest", "active", "in 59 m", "every 1 h"):
        assert part in said.out
    assert mita("repeats", "ls", "--json").data["repeats"][0]["key"] == "digest"


@pytest.mark.usefixtures("digest")
def test_the_next_fires_are_shown(mita: Run) -> None:
    assert len(mita("repeats", "next", "digest", "-n", "3").out.splitlines()) == 3
    assert len(mita("repeats", "next", "digest", "--json").data["fires"]) == 10


@pytest.mark.usefixtures("digest")
def test_a_repeat_can_be_paused_resumed_triggered_and_removed(mita: Run) -> None:
    assert mita("repeats", "pause", "digest").out == "digest  paused\n"
    assert mita("repeats", "pause", "digest").code == 1
    assert mita("repeats", "resume", "digest").out == "digest  active\n"
    id = mita("repeats", "trigger", "digest", "--json").data["id"]
    assert mita("jobs", "--repeat", "digest", "--json").data["jobs"][0]["id"] == id
    assert mita("repeats", "rm", "digest").code == 0
    assert "no repeats" in mita("repeats").out


@pytest.mark.usefixtures("digest")
def test_an_unknown_repeat_is_not_found(mita: Run) -> None:
    said = mita("repeats", "trigger", "nosuch")
    assert (said.code, "there are: digest" in said.err) == (1, True)
    assert mita("repeats", "trigger").code == 2
