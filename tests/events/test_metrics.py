"""Metrics: where they are served, what is in them, and that nothing hangs on them."""

import asyncio
import re
import socket
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mita import Every, Mita, Retry, StoreError, UsageError
from mita.events import counters
from mita.metrics import TABLE, depths
from mita.model.event import MoveReason
from mita.settings import Address
from mita.stores.memory import MemoryStore
from tests.engine.conftest import until_state, working
from tests.waiting import until

from .workload import sums

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "metrics.md"


def app_at(url: str = "memory://") -> Mita:
    app = Mita(url)

    @app.task(name="work")
    async def work(n: int = 0) -> None: ...

    return app


def long_task(app: Mita) -> tuple[asyncio.Event, Any]:
    """One that does not end by itself, and when it began."""
    began = asyncio.Event()

    @app.task
    async def long() -> None:
        began.set()
        await asyncio.sleep(3600)

    return began, long


class Counted:
    """An app whose metrics are in a registry, and what they say. A scrape may not be made on the
    loop."""

    def __init__(self) -> None:
        self.app, self.registry = app_at(), CollectorRegistry()
        self.work = self.app.tasks["work"]
        self.app.metrics(self.registry)

    async def told(self) -> Counter[str]:
        return await asyncio.to_thread(sums, self.registry)

    async def page(self) -> str:
        """The text that Prometheus reads."""
        return (await asyncio.to_thread(generate_latest, self.registry)).decode()


@pytest.fixture
async def counted() -> AsyncIterator[Counted]:
    counted = Counted()
    yield counted
    await counted.app.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def test_every_metric_of_the_table_is_there_and_no_other(counted: Counted) -> None:
    kinds = {described.name: described.kind.replace("unknown", "untyped") for described in TABLE}
    assert dict(re.findall(r"^# TYPE (\w+) (\w+)$", await counted.page(), re.MULTILINE)) == kinds


def test_the_guide_has_the_table() -> None:
    text = GUIDE.read_text()
    for described in TABLE:
        labels = ", ".join(f"`{label}`" for label in described.labels) or "none"
        assert f"| `{described.name}` | {described.kind} | {labels} | {described.help} |" in text
    assert len(re.findall(r"^\| `mita_\w+` \|", text, re.MULTILINE)) == len(TABLE)


async def test_a_worker_serves_them_at_its_address() -> None:
    app, port = app_at(), free_port()
    job = await app.tasks["work"].enqueue()
    async with working(app, metrics=f"127.0.0.1:{port}"):
        await until_state(app, job.id, "succeeded")

        def read() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                return str(page.read().decode())

        async def told() -> bool:
            return (
                'mita_finished_total{outcome="succeeded",queue="default",task="work"} 1.0'
                in await asyncio.to_thread(read)
            )

        await until(told)
        text = await asyncio.to_thread(read)
        assert 'mita_jobs{queue="default",state="succeeded"} 1.0' in text
        assert "mita_workers 1.0" in text
        assert "python_info" in text, "what else is in the usual registry is served as well"
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(read)
    await app.close()


async def test_a_port_in_use_is_named_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            UsageError, match=rf"127\.0\.0\.1:{port}.*--metrics 127\.0\.0\.1:{port + 1}"
        ):
            await app_at().worker(metrics=f"127.0.0.1:{port}").run()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
async def test_a_host_that_is_not_this_machine_is_named_with_the_remedy(host: str) -> None:
    with pytest.raises(
        UsageError, match=rf"{host}:9000: .*address of this machine: --metrics 127\.0\.0\.1:9000"
    ):
        await app_at().worker(metrics=f"{host}:9000").run()


@pytest.mark.parametrize(
    "wrong",
    ["[::1", "::1]:9000", "", "9000", "host", "host:", "host:port", "host:99999", "host:-1"],
)
def test_an_address_that_cannot_be_read_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        app_at().worker(metrics=wrong)


def test_addresses() -> None:
    assert str(Address.parse("localhost:9000")) == "localhost:9000"
    assert str(Address.parse("[::1]:9000")) == "[::1]:9000"
    assert Address.parse(":9000").port == 9000


async def test_a_store_that_hangs_does_not_hang_a_scrape(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    await counted.work.enqueue()
    monkeypatch.setattr(depths, "STORE_WAIT_S", 0.05)

    async def hangs() -> Any:
        await asyncio.sleep(3600)

    store = await asyncio.to_thread(counted.app._portal, counted.app._pool.store())
    monkeypatch.setattr(store, "queues", hangs)
    told = await counted.told()
    assert told["mita_enqueued_total"] == 1
    assert "mita_workers" not in told


async def test_a_scrape_asks_the_store_at_most_once_a_second(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = await asyncio.to_thread(counted.app._portal, counted.app._pool.store())
    asked, real = [], store.queues

    async def asking() -> Any:
        asked.append(1)
        return await real()

    monkeypatch.setattr(store, "queues", asking)
    monkeypatch.setattr(depths, "FRESH_S", 3600.0)
    for _ in range(3):
        await counted.told()
    assert len(asked) == 1


async def test_label_sets_are_bounded(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MOST_LABELS", 3)
    for n in range(20):
        await counted.work.options(queue=f"q{n}").enqueue()
    text = await counted.page()
    assert text.count("mita_enqueued_total{") == 4
    assert 'mita_enqueued_total{queue="(others)",task="(others)"} 17.0' in text


async def test_repeats_and_the_schedulers_lock_are_counted(counted: Counted) -> None:
    async with working(counted.app):
        await counted.app.repeat("tick", counted.work.call(), Every(0.02), missed="once", limit=3)

        async def fired() -> bool:
            return (await counted.told())["mita_repeat_fires_total:once"] == 3

        await until(fired)
    told = await counted.told()
    assert told["mita_scheduler_lock:acquired"] == told["mita_scheduler_lock:released"] == 1
    assert told["mita_lateness_seconds_count"] == told["mita_started_total"] == 3


async def test_a_lock_that_another_holds_is_told_from_one_that_nobody_holds(
    counted: Counted,
) -> None:
    first, second = (counted.app.scheduler(poll=0.02) for _ in range(2))
    running = [asyncio.create_task(one.run()) for one in (first, second)]

    async def held() -> bool:
        return (await counted.told())["mita_scheduler_lock:held"] >= 3

    await until(held)
    first.stop()
    second.stop()
    await asyncio.gather(*running)
    assert (await counted.told())["mita_scheduler_lock:acquired"] >= 1


async def test_each_operation_that_the_store_cannot_do_is_counted(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreError("the store is away", transient=True)

    job = await counted.work.after(60).enqueue()
    with monkeypatch.context() as patch:
        for name in ("amend", "enqueue", "settle"):
            patch.setattr(MemoryStore, name, away)
        for call in (
            counted.app.reschedule(job.id, after=1),
            counted.app.cancel(job.id),
            counted.work.enqueue(),
        ):
            with pytest.raises(StoreError, match="away"):
                await call
    await counted.app.cancel(job.id)
    told = await counted.told()
    assert (told["mita_store_errors_total:amend"], told["mita_store_errors_total:enqueue"]) == (
        2,
        1,
    )
    assert sum(n for name, n in told.items() if name.startswith("mita_store_errors_total")) == 3


async def test_a_store_that_cannot_be_opened_is_counted(tmp_path: Path) -> None:
    app, registry = Mita("redis://127.0.0.1:1/0"), CollectorRegistry()
    app.metrics(registry)
    with pytest.raises(StoreError):
        await app.counts()
    assert (await asyncio.to_thread(sums, registry))["mita_store_errors_total:open"] >= 1


async def test_a_job_that_is_retried_often_is_one_retried_job(counted: Counted) -> None:
    @counted.app.task(retry=Retry(max_retries=3, waits=(0.0,)))
    async def fail() -> None:
        raise ValueError("no")

    async with working(counted.app):
        for job in [await fail.enqueue() for _ in range(2)]:
            await until_state(counted.app, job.id, "failed")
    told = await counted.told()
    assert (told["mita_retries_total"], told["mita_retried_jobs_total"]) == (6, 2)


async def test_a_move_in_time_is_no_failure(counted: Counted) -> None:
    """What is put back by a shutdown counts as moved, and neither as failed nor as retried."""
    began, long = long_task(counted.app)
    await long.enqueue()
    async with working(counted.app, grace=0.01):
        await began.wait()
    told = await counted.told()
    assert told[f"mita_rescheduled_total:{MoveReason.SHUTDOWN}"] == 1
    assert told["mita_finished_total:failed"] == told["mita_retries_total"] == 0


async def test_a_cancelled_run_ends_as_cancelled(counted: Counted) -> None:
    began, long = long_task(counted.app)
    job = await long.enqueue()
    async with working(counted.app):
        await began.wait()
        await counted.app.cancel(job.id)
        await until_state(counted.app, job.id, "cancelled")
    told = await counted.told()
    assert told["mita_finished_total:cancelled"] == told["mita_started_total"] == 1


async def test_a_registry_gets_the_metrics_once(counted: Counted) -> None:
    counted.app.metrics(counted.registry)
    await counted.work.enqueue()
    assert (await counted.told())["mita_enqueued_total"] == 1
