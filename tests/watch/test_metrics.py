"""Metrics: where they are served, what is in them, and that nothing hangs on them."""

import asyncio
import re
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mita import Every, Mita, UsageError
from mita.metrics import TABLE, depths
from mita.model.event import Reason
from mita.settings import Address
from mita.watch import tally
from tests.engine.conftest import until, until_state, working

from .workload import sums

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "metrics.md"


def memory_app() -> Mita:
    app = Mita("memory://")

    @app.task(name="work")
    async def work(n: int = 0) -> None: ...

    return app


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def names(registry: CollectorRegistry) -> dict[str, str]:
    """Every name in the text that Prometheus reads, and its type."""
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", generate_latest(registry).decode(), re.MULTILINE))


async def test_every_metric_of_the_table_is_there_and_no_other() -> None:
    app, registry = memory_app(), CollectorRegistry()
    app.metrics(registry)
    kinds = {described.name: described.kind.replace("unknown", "untyped") for described in TABLE}
    assert await asyncio.to_thread(names, registry) == kinds
    await app.close()


def test_the_guide_has_the_table() -> None:
    text = GUIDE.read_text()
    for described in TABLE:
        labels = ", ".join(f"`{label}`" for label in described.labels) or "none"
        assert f"| `{described.name}` | {described.kind} | {labels} | {described.help} |" in text
    assert len(re.findall(r"^\| `mita_\w+` \|", text, re.MULTILINE)) == len(TABLE)


async def test_a_worker_serves_them_at_its_address() -> None:
    app, port = memory_app(), free_port()
    job = await app.tasks["work"].enqueue()
    async with working(app, metrics=f"127.0.0.1:{port}"):
        await until_state(app, job.id, "succeeded")

        def read() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                return str(page.read().decode())

        async def told() -> bool:
            return 'mita_finished_total{outcome="succeeded",queue="default",task="work"} 1.0' in await asyncio.to_thread(
                read
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
        with pytest.raises(UsageError, match=rf"127\.0\.0\.1:{port}.*--metrics 127\.0\.0\.1:{port + 1}"):
            await memory_app().worker(metrics=f"127.0.0.1:{port}").run()


@pytest.mark.parametrize("wrong", ["", "9000", "host", "host:", "host:port", "host:99999", "host:-1"])
def test_an_address_that_cannot_be_read_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        memory_app().worker(metrics=wrong)


def test_addresses() -> None:
    assert str(Address.parse("localhost:9000")) == "localhost:9000"
    assert str(Address.parse("[::1]:9000")) == "[::1]:9000"
    assert Address.parse(":9000").port == 9000


async def test_a_store_that_hangs_does_not_hang_a_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    app, registry = memory_app(), CollectorRegistry()
    app.metrics(registry)
    await app.tasks["work"].enqueue()
    monkeypatch.setattr(depths, "LONGEST", 0.05)

    async def hangs() -> Any:
        await asyncio.sleep(3600)

    store = await asyncio.to_thread(app._portal, app._store_here())
    monkeypatch.setattr(store, "queues", hangs)
    told = await asyncio.to_thread(sums, registry)
    assert told["mita_enqueued_total"] == 1
    assert "mita_workers" not in told
    await app.close()


async def test_a_scrape_asks_the_store_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    app, registry = memory_app(), CollectorRegistry()
    app.metrics(registry)
    store: Any = await asyncio.to_thread(app._portal, app._store_here())
    asked, real = [], store.queues

    async def counted() -> Any:
        asked.append(1)
        return await real()

    monkeypatch.setattr(store, "queues", counted)
    monkeypatch.setattr(depths, "FRESH", 3600.0)
    for _ in range(3):
        await asyncio.to_thread(sums, registry)
    assert len(asked) == 1
    await app.close()


async def test_label_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST_LABELS", 3)
    app, registry = memory_app(), CollectorRegistry()
    app.metrics(registry)
    for n in range(20):
        await app.tasks["work"].options(queue=f"q{n}").enqueue()
    text = (await asyncio.to_thread(generate_latest, registry)).decode()
    assert text.count("mita_enqueued_total{") == 4
    assert 'mita_enqueued_total{queue="(others)",task="(others)"} 17.0' in text
    await app.close()


async def test_repeats_and_the_schedulers_lock_are_counted() -> None:
    app, registry = memory_app(), CollectorRegistry()
    app.metrics(registry)
    async with working(app):
        await app.repeat("tick", app.tasks["work"].call(), Every(0.02), missed="once", limit=3)

        async def fired() -> bool:
            return (await asyncio.to_thread(sums, registry))["mita_repeat_fires_total:once"] == 3

        await until(fired)
    told = await asyncio.to_thread(sums, registry)
    assert told["mita_scheduler_lock:acquired"] == told["mita_scheduler_lock:released"] == 1
    assert told["mita_lateness_seconds_count"] == told["mita_started_total"] == 3
    await app.close()


async def test_a_move_in_time_is_no_failure() -> None:
    """What is put back by a shutdown counts as moved, and neither as failed nor as retried."""
    app, registry = Mita("memory://"), CollectorRegistry()
    app.metrics(registry)
    began = asyncio.Event()

    @app.task
    async def long() -> None:
        began.set()
        await asyncio.sleep(3600)

    await long.enqueue()
    async with working(app, grace=0.01):
        await began.wait()
    told = await asyncio.to_thread(sums, registry)
    assert told[f"mita_rescheduled_total:{Reason.SHUTDOWN}"] == 1
    assert told["mita_finished_total:failed"] == told["mita_retries_total"] == 0
    await app.close()


async def test_a_cancelled_run_ends_as_cancelled() -> None:
    app, registry = Mita("memory://"), CollectorRegistry()
    app.metrics(registry)
    began = asyncio.Event()

    @app.task
    async def long() -> None:
        began.set()
        await asyncio.sleep(3600)

    job = await long.enqueue()
    async with working(app):
        await began.wait()
        await app.cancel(job.id)
        await until_state(app, job.id, "cancelled")
    told = await asyncio.to_thread(sums, registry)
    assert told["mita_finished_total:cancelled"] == told["mita_started_total"] == 1
    await app.close()


async def test_a_registry_gets_the_metrics_once() -> None:
    app, registry = memory_app(), CollectorRegistry()
    app.metrics(registry)
    app.metrics(registry)
    await app.tasks["work"].enqueue()
    assert (await asyncio.to_thread(sums, registry))["mita_enqueued_total"] == 1
    await app.close()
