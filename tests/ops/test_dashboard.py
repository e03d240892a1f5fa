"""The dashboard: every query over metrics that exist, every metric somewhere on it, and all of it
on a real scrape."""

import asyncio
import itertools
import json
import re
import shutil
import string
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mita import Every, Job, Mita, Rate, Retry, StoreError
from mita.contrib.outbox import Outbox
from mita.metrics import TABLE
from mita.stores.memory import MemoryStore
from tests.engine.conftest import working
from tests.events.workload import Workload
from tests.waiting import until

from .dashboard import FILE, PANELS, text
from .metrics import known, unknown
from .promql import NAME, Data, Series
from .rules import firing, rules

QUERIES = {
    f"{panel.title}: {legend}": query for panel in PANELS for legend, query in panel.queries.items()
}
STEP = 60.0


def as_prometheus_sees(query: str) -> str:
    """With Grafana's own variables filled in."""
    return query.replace("$__rate_interval", "5m").replace("$queue", ".*").replace("$task", ".*")


def test_the_file_is_what_the_panels_say() -> None:
    assert FILE.read_text() == text(), "run: python -m tests.ops.dashboard"


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_names_only_what_there_is(name: str) -> None:
    assert unknown(as_prometheus_sees(QUERIES[name])) == []


def test_every_metric_is_on_it() -> None:
    shown = " ".join(QUERIES.values())
    assert [metric.name for metric in TABLE if metric.name not in shown] == []


def test_a_name_that_is_wrong_would_be_noticed() -> None:
    assert unknown("rate(mita_retried_total[5m])") == ["mita_retried_total"]
    assert unknown('mita_jobs{queue="a", task="b"}') == ["mita_jobs{task}"]
    assert unknown("sum by (reason) (mita_started_total)") == ["by (reason)"]


def test_grafana_has_what_it_needs_to_draw_it() -> None:
    """By the documentation of its JSON model: no Grafana is at hand to open it."""
    board = json.loads(FILE.read_text())
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", board["uid"])
    assert isinstance(board["schemaVersion"], int)
    variables = {one["name"]: one["type"] for one in board["templating"]["list"]}
    assert variables == {"datasource": "datasource", "queue": "query", "task": "query"}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == len(PANELS)
    for panel in panels:
        assert panel["type"] in ("stat", "timeseries")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"] in ("short", "ops", "s", "percentunit")
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == [*string.ascii_uppercase[: len(refs)]]
        used = {
            name for target in panel["targets"] for name in re.findall(r"\$(\w+)", target["expr"])
        }
        assert used <= {*variables, "__rate_interval"}


def test_no_panel_lies_on_another() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in json.loads(FILE.read_text())["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for cell in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@pytest.mark.parametrize("name", QUERIES)
def test_a_legend_names_what_its_query_keeps(name: str) -> None:
    kept = re.search(r"by \(([^)]*)\)", QUERIES[name])
    assert set(re.findall(r"{{(\w+)}}", name)) <= set(kept[1].split(", ") if kept else [])


async def scraped(registry: CollectorRegistry) -> str:
    return (await asyncio.to_thread(generate_latest, registry)).decode()


async def recorded(folder: Path) -> list[str]:
    """Two scrapes of a process that runs jobs of every kind: before, and when all is done but one
    that waits."""
    outbox = Outbox(f"sqlite:///{folder}/shop.db")
    await outbox.create()
    app, registry = Mita("memory://", outbox=outbox), CollectorRegistry()
    app.metrics(registry)
    work = Workload(app, 200, seed=7)

    @app.task(name="tick", queue="free")
    async def tick() -> None: ...

    @app.task(name="shaky", queue="free", retry=Retry(max_retries=0))
    async def shaky() -> None:
        raise ValueError("it shakes")

    @app.task(name="spaced", queue="free", rate=Rate(20))
    async def spaced() -> None: ...

    @app.task(name="parent", queue="free")
    async def parent(job: Job) -> None:
        await job.run(tick.call())
        await job.wait_for("go")

    async def away(*_: object) -> None:
        raise StoreError("the store is away")

    async with app:
        await app.limit_queue("free", concurrency=500, rate=Rate(1000, burst=1000))
        await app.enqueue_many([spaced.call() for _ in range(3)])
        with pytest.MonkeyPatch.context() as patch, suppress(StoreError):
            patch.setattr(MemoryStore, "pause", away)
            await app.pause("free")
        await work._walk.enqueue("s")
        await app.repeat("tick", tick.call(), Every(0.05))
        await app.repeat("late", tick.call(), Every(0.01), limit=1)
        await app.repeat("shaky", shaky.call(), Every(0.05), pause_after=1)
        await asyncio.sleep(0.1)  # nobody is there for its first windows
        async with working(app, name="box"):
            await until(lambda: _has(registry, 'mita_repeat_fires_total{policy="skip"'))
            await until(lambda: _has(registry, "mita_repeat_windows_dropped_total"))
            await until(lambda: _has(registry, "mita_repeats_paused_total"))
            await until(lambda: _has(registry, "mita_limit_wait_seconds_count"))
            await app.signal((await parent.enqueue()).id, "go")
            await app.chain(tick.call(), name="import").enqueue()
            await until(lambda: _has(registry, "mita_children_total"))
            await until(lambda: _has(registry, "mita_flow_seconds_count"))
            pages = [await scraped(registry)]
            await work._enqueue()
            await until(
                lambda: _has(
                    registry, 'mita_finished_total{outcome="failed",queue="free",task="walk"}'
                )
            )
            await until(lambda: _has(registry, "mita_retry_exhausted_total"))
            await app.repeats.remove("tick")
            pages.append(await scraped(registry))
    return pages


async def _has(registry: CollectorRegistry, start: str) -> bool:
    """A series that begins so and is not zero."""
    return any(
        line.startswith(start) and not line.endswith(" 0.0")
        for line in (await scraped(registry)).splitlines()
    )


def series_of(pages: list[str]) -> list[Series]:
    found: dict[str, Series] = {}
    for n, page in enumerate(pages):
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels = {NAME: sample.name, **sample.labels}
                series = found.setdefault(str(sorted(labels.items())), Series(labels, []))
                series.samples.append((n * STEP, float(sample.value)))
    return list(found.values())


async def test_every_query_has_an_answer_in_a_real_scrape(tmp_path: Path) -> None:
    pages = await recorded(tmp_path)
    series = series_of(pages)
    assert {one.labels[NAME] for one in series} == set(known())
    for one in series:
        assert set(one.labels) - {NAME} <= known()[one.labels[NAME]]
    data = Data(series)
    empty = [
        name for name, query in QUERIES.items() if not data.ask(as_prometheus_sees(query), STEP)
    ]
    assert empty == []
    assert [rule.name for rule in rules() if firing(rule, data, STEP, STEP)] == [], (
        "all is well in that minute"
    )
    if (promtool := shutil.which("promtool")) is not None:
        told = await asyncio.to_thread(
            subprocess.run,
            [promtool, "check", "metrics"],
            input=pages[-1],
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stdout + told.stderr
