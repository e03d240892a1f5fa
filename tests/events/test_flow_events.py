"""A flow is heard and counted when it starts and when it ends; Mita's own jobs are not."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from mita import Job, JobEvent, Mita, Retry
from mita.engine import flow_runs
from mita.events.batches import batches_of
from mita.events.flow_counters import MOST_FLOW_NAMES, OTHER_FLOWS, FlowCounts
from mita.events.signals import RunsSettled
from mita.model.event import EventBatch, Kind
from mita.model.flow import MOST_PREDECESSORS
from mita.model.job import Claim, State
from mita.model.outcome import Counter, Settlement, TimelineKind, Verdict
from mita.model.time import SECOND, When
from mita.rules.flow_plan import FlowSpec, pack_spec
from tests.engine.conftest import TIMEOUT_S, until_state, working
from tests.waiting import until

from .test_events import Log, listening
from .workload import sums

OWN = ("mita.flow", "mita.gather")


class Pages:
    """An app whose tasks fetch pages."""

    def __init__(self, app: Mita) -> None:
        @app.task(name="fetch", queue="web", retry=Retry(max_retries=0))
        async def fetch(page: int) -> int:
            if page < 0:
                raise ValueError("no such page")
            return page

        @app.task(name="total", queue="web")
        async def total(pages: list[int]) -> int:
            return sum(pages)

        self.fetch, self.total = fetch, total


def of_flow(log: Log, id: str) -> list[tuple[str, str, int, str]]:
    return [(one.kind, one.name, one.count, one.state) for one in log.heard if one.id == id]


async def until_counted(registry: CollectorRegistry, name: str, count: int = 1) -> None:
    async def counted() -> bool:
        return (await asyncio.to_thread(sums, registry))[name] >= count

    await until(counted)


async def test_the_start_and_the_end_of_a_flow_are_heard_and_counted(app: Mita) -> None:
    pages, registry = Pages(app), CollectorRegistry()
    app.metrics(registry)
    good = app.group([pages.fetch.call(n) for n in range(2)], name="good").then(pages.total.call)
    bad = app.group([pages.fetch.call(n) for n in (-1, 1)], name="bad").then(pages.total.call)
    async with listening(app) as log, working(app):
        runs = [await good.enqueue(), await bad.enqueue()]
        for run in runs:
            await log.until(run.id, "flow_ended")
        await until_state(app, f"{runs[1].id}.000003", "cancelled")
        await log.until(f"{runs[1].id}.000003", "cancelled")
        await until_counted(registry, "mita_finished_total:cancelled")
    told = await asyncio.to_thread(sums, registry)
    assert of_flow(log, runs[0].id) == [
        ("flow_started", "good", 3, ""),
        ("flow_ended", "good", 3, "succeeded"),
    ]
    assert of_flow(log, runs[1].id) == [
        ("flow_started", "bad", 3, ""),
        ("flow_ended", "bad", 3, "failed"),
    ]
    [end] = [one for one in log.heard if (one.kind, one.id) == ("flow_ended", runs[0].id)]
    record = await runs[0].get()
    assert record is not None
    assert record.finished is not None
    assert (end.queue, end.task, end.seconds >= 0) == ("web", "mita.flow", True)
    assert {one.kind for one in log.heard if one.task in OWN} == {"flow_started", "flow_ended"}
    assert {one.task for one in log.heard if one.kind == "cancelled"} == {"total"}
    assert told["mita_flows_started_total:good"] == told["mita_flows_started_total:bad"] == 1
    assert told["mita_flows_ended_total:good:succeeded"] == 1
    assert told["mita_flows_ended_total:bad:failed"] == 1
    assert told["mita_flow_seconds_count:good"] == 1
    assert told["mita_enqueued_total"] == 6, "the steps, and none of Mita's own jobs"
    assert told["mita_finished_total:succeeded"] == 4
    assert told["mita_finished_total:failed"] == told["mita_finished_total:cancelled"] == 1
    assert told["mita_rescheduled_total:sleep"] == 0


async def test_a_large_group_is_one_flow_and_its_gatherers_are_not_heard() -> None:
    heard: list[JobEvent] = []
    async with Mita("memory://") as app:
        pages, registry = Pages(app), CollectorRegistry()
        app.metrics(registry)
        listening = app.listen(heard.extend)
        members = MOST_PREDECESSORS + 1
        group = app.group([pages.fetch.call(n) for n in range(members)]).then(pages.total.call)
        async with working(app):
            run = await group.enqueue()
            await run.wait(60)
            await until_counted(registry, "mita_flows_ended_total:group:succeeded")
        listening.stop()
        labels = {
            sample.labels["task"]
            for metric in await asyncio.to_thread(lambda: list(registry.collect()))
            for sample in metric.samples
            if "task" in sample.labels
        }
    own = [(one.kind, one.count) for one in heard if one.task in OWN]
    assert own == [("flow_started", members + 1), ("flow_ended", members + 1)]
    assert labels == {"fetch", "total"}


async def test_a_flow_that_is_cancelled_reports_each_of_its_steps_and_its_end(app: Mita) -> None:
    pages, registry = Pages(app), CollectorRegistry()
    app.metrics(registry)
    async with listening(app) as log:
        run = await app.chain(pages.fetch.after(3600).call(1), pages.fetch.call(2)).enqueue()
        assert await run.cancel() == 2
        await log.until(f"{run.id}.000002", "cancelled")
        async with working(app):
            await log.until(run.id, "flow_ended")
    assert [one.state for one in log.heard if one.kind == "flow_ended"] == ["cancelled"]
    assert [one.task for one in log.heard if one.kind == "cancelled"] == ["fetch", "fetch"]
    told = await asyncio.to_thread(sums, registry)
    assert told["mita_finished_total:cancelled"] == 2
    assert told["mita_flows_ended_total:chain:cancelled"] == 1


async def test_a_person_who_cancels_the_job_of_a_flow_ends_the_flow_for_all_to_hear() -> None:
    heard: list[JobEvent] = []
    async with Mita("memory://") as app:
        pages, registry = Pages(app), CollectorRegistry()
        app.metrics(registry)
        listening = app.listen(heard.extend)
        first, second = [await app.chain(pages.fetch.call(n)).enqueue() for n in range(2)]
        await app.cancel(first.id)
        await app.cancel_many(task="mita.flow", all=True)
        listening.stop()
        told = await asyncio.to_thread(sums, registry)
    ends = [one for one in heard if one.kind == "flow_ended"]
    assert [(one.id, one.name, one.state, one.count) for one in ends] == [
        (run.id, "chain", "cancelled", 1) for run in (first, second)
    ]
    assert told["mita_flows_ended_total:chain:cancelled"] == 2


async def test_a_flow_that_is_retried_ends_again() -> None:
    broken, heard = [True], list[JobEvent]()
    async with Mita("memory://") as app:

        @app.task(retry=Retry(max_retries=0))
        async def flaky() -> None:
            if broken:
                raise ValueError(broken.pop())

        listening = app.listen(heard.extend, ["flow_started", "flow_ended"])
        async with working(app):
            run = await app.chain(flaky.call()).enqueue()
            await until_state(app, run.id, "failed")
            await run.retry()
            await until_state(app, run.id, "succeeded")
        listening.stop()
    assert [one.state or one.kind for one in heard] == ["flow_started", "failed", "succeeded"]


@pytest.mark.parametrize("by", ["run", "flow", "step"])
async def test_each_step_that_a_retry_brings_back_is_heard_once(by: str) -> None:
    heard: list[JobEvent] = []
    async with Mita("memory://") as app:
        pages = Pages(app)
        chain = app.chain(pages.fetch.call(-1), pages.fetch.call(1), pages.fetch.call(2))
        async with working(app):
            run = await chain.enqueue()
            await until_state(app, run.id, "failed")
        listening = app.listen(heard.extend, ["revived"])
        match by:
            case "run":
                assert await run.retry() == 3
            case "flow":
                assert await app.retry(run.id) == "done"
            case _:
                assert await app.retry(f"{run.id}.000001") == "done"
        listening.stop()
    steps = sorted(one.id for one in heard if one.task == "fetch")
    assert steps == [f"{run.id}.{number:06}" for number in (1, 2, 3)]


async def test_what_the_patrol_of_a_flow_cancels_is_heard_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the worker had died after it settled the step that failed."""

    dead = asyncio.Event()

    async def died(*_: object, **__: object) -> list[object]:
        dead.set()
        return []

    async with Mita("memory://") as app:
        pages, registry = Pages(app), CollectorRegistry()
        app.metrics(registry)
        async with listening(app) as log, working(app):
            with monkeypatch.context() as patch:
                patch.setattr(flow_runs, "conclude_settled", died)
                run = await app.chain(pages.fetch.call(-1), pages.fetch.call(2)).enqueue()
                async with asyncio.timeout(TIMEOUT_S):
                    await dead.wait()
            await app.reschedule(run.id, after=0)
            await log.until(f"{run.id}.000002", "cancelled")
            await log.until(run.id, "flow_ended")
        told = await asyncio.to_thread(sums, registry)
    assert told["mita_finished_total:cancelled"] == 1
    assert [one.state for one in log.heard if one.kind == "flow_ended"] == ["failed"]


def test_only_a_run_that_ends_the_job_of_a_flow_ends_the_flow() -> None:
    payload = pack_spec(FlowSpec("import", 3, 4, 3))

    def own(id: str, task: str = "mita.flow", packed: bytes = payload) -> Claim:
        return Claim(id, 1, 5000, task, "q", packed, b"", b"", 9, 4000, 4000)

    success, failure = Verdict(state=State.SUCCEEDED), Verdict(state=State.FAILED)
    patrol = Verdict(
        state=State.QUEUED,
        counts=Counter.RESCHEDULES,
        event=TimelineKind.SLEEPING,
        when=When(wait=SECOND),
    )
    crash = Verdict(state=State.QUEUED, counts=Counter.CRASHES, when=When(wait=SECOND))
    ends = [
        Settlement(own("done"), success),
        Settlement(own("failed"), failure),
        Settlement(own("asked"), success, was_cancelled=True),
        Settlement(own("stale"), success),
        Settlement(own("patrol"), patrol),
        Settlement(own("crashed"), crash),
        Settlement(own("gatherer", "mita.gather", b""), success),
        Settlement(own("unreadable", packed=b"what"), failure),
    ]
    took = [one.claim.id != "stale" for one in ends]
    for settled in (
        RunsSettled(ends, took, "w", 64_000),
        RunsSettled(ends, [True] * 8, "w", 64_000),
    ):
        told = [event for batch in batches_of(settled) for event in batch.events()]
        assert {one.kind for one in told} == {"flow_ended"}
        found = [(one.id, one.state, one.seconds) for one in told if one.id != "stale"]
        assert found == [
            ("done", "succeeded", 60.0),
            ("failed", "failed", 60.0),
            ("asked", "cancelled", 60.0),
        ]
        assert len(told) == 3 + all(settled.took)


async def test_signals_and_children_are_counted_with_their_task() -> None:
    async with Mita("memory://") as app:
        registry = CollectorRegistry()
        app.metrics(registry)

        @app.task(name="child")
        async def child() -> int:
            return 1

        @app.task(name="parent")
        async def parent(job: Job) -> None:
            await job.run(child.call())
            await job.wait_for("go")

        async with working(app):
            job = await parent.enqueue()
            assert await app.signal(job.id, "go") == "done"
            assert await app.signal(job.id, "go") == "taken"
            await job.result(30)
        found = {
            (sample.name, sample.labels["task"]): sample.value
            for metric in await asyncio.to_thread(lambda: list(registry.collect()))
            for sample in metric.samples
            if sample.name in ("mita_signals_total", "mita_children_total") and sample.value
        }
    assert found == {("mita_signals_total", "parent"): 1, ("mita_children_total", "child"): 1}


def test_flows_of_too_many_names_are_counted_together() -> None:
    counts, total = FlowCounts(), FlowCounts()
    for n in range(MOST_FLOW_NAMES + 5):
        counts.start(f"flow {n}")
        ids, state = [str(n)], "succeeded"
        counts.end(
            EventBatch(Kind.FLOW_ENDED, ids=ids, seconds=[2.0], name=f"flow {n}", state=state)
        )
    for _ in range(2):
        counts.add_to(total)
    assert total.started[OTHER_FLOWS] == total.ended[OTHER_FLOWS, "succeeded"] == 10
    assert total.seconds[OTHER_FLOWS].total == 20.0
    assert len(total.started) == MOST_FLOW_NAMES + 1
