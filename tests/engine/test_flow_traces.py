"""The spans of flows, child jobs and durable steps: one trace for a whole flow."""

import asyncio
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from mita import Job, Mita, Retry
from mita.model.flow import MOST_PREDECESSORS
from mita.rules.flow import MOST_SPANS
from mita.testing import lab

from . import crunch
from .conftest import working
from .test_traces import Spans, facts, here, id_of, linked, spans

__all__ = ["here", "spans"]  # fixtures
ONE_TRY = Retry(max_retries=0)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def by_step(runs: Any) -> dict[int, ReadableSpan]:
    return {facts(span)["mita.step"]: span for span in runs}


def _in_order(runs: Any, task: str) -> list[ReadableSpan]:
    """The runs of this task, in the order of their starts. (Spans are exported when they end.)"""
    found = [span for span in runs if facts(span)["mita.task"] == task]
    return sorted(found, key=lambda span: span.start_time or 0)


async def test_a_flow_is_one_trace_and_its_steps_are_linked_on_every_store(
    app: Mita, spans: Spans
) -> None:
    @app.task
    async def fetch(page: int) -> int:
        return page

    @app.task
    def total(pages: list[int]) -> int:
        return sum(pages)

    @app.task(retry=ONE_TRY)
    async def check(value: int) -> None:
        raise ValueError(value)

    @app.task
    async def report() -> None: ...

    flow = app.flow("import")
    pages = [flow.add(fetch.call(n)) for n in range(2)]
    whole = flow.add(total.call(flow.results(pages)))
    checked = flow.add(check.call(whole.result))
    flow.add(report.call(), after=[checked], always=True)
    with trace.get_tracer("test").start_as_current_span("request") as request:
        run = await flow.enqueue()
    async with working(app):
        runs = by_step(await spans.runs(5))
    [enqueue] = spans.enqueues
    assert parent_of(enqueue) == request.get_span_context().span_id
    assert (enqueue.name, facts(enqueue)) == (
        "enqueue flow import",
        {
            "messaging.system": "mita",
            "messaging.operation.name": "enqueue",
            "messaging.operation.type": "send",
            "messaging.batch.message_count": 5,
            "mita.flow": run.id,
            "mita.flow.name": "import",
        },
    )
    assert {trace_of(span) for span in runs.values()} == {trace_of(enqueue)}
    assert {parent_of(span) for span in runs.values()} == {id_of(enqueue)}
    assert {facts(span)["mita.flow"] for span in runs.values()} == {run.id}
    assert linked(runs[1]) == linked(runs[2]) == []
    assert linked(runs[3]) == [id_of(runs[1]), id_of(runs[2])]
    assert linked(runs[4]) == [id_of(runs[3])]
    assert linked(runs[5]) == [id_of(runs[4])], "a step that failed is a predecessor, too"


async def test_a_flow_from_sync_code_belongs_to_the_trace_of_its_caller(
    here: Mita, spans: Spans
) -> None:
    @here.task
    async def send() -> None: ...

    def from_a_thread() -> int:
        with trace.get_tracer("test").start_as_current_span("request") as request:
            here.chain(send.call(), send.call()).enqueue_sync()
            return request.get_span_context().span_id

    request = await asyncio.to_thread(from_a_thread)
    await asyncio.to_thread(here.close_sync)
    await here.close()
    assert [parent_of(span) for span in spans.enqueues] == [request]


async def test_a_step_after_a_large_group_has_links_to_some_of_it(here: Mita, spans: Spans) -> None:
    @here.task
    async def one(n: int) -> int:
        return n

    @here.task
    async def count(values: list[int]) -> int:
        return len(values)

    members = MOST_PREDECESSORS + 1
    async with here, working(here):
        group = here.group([one.call(n) for n in range(members)]).then(count.call)
        await (await group.enqueue()).wait(60)
        runs = by_step(await spans.runs(members + 1))
    assert len(linked(runs[members + 1])) == MOST_SPANS
    assert set(linked(runs[members + 1])) <= {id_of(span) for span in runs.values()}
    assert len({trace_of(span) for span in runs.values()}) == 1


async def test_steps_that_a_handler_adds_are_in_the_trace_of_its_flow(
    here: Mita, spans: Spans
) -> None:
    @here.task
    async def fetch() -> None: ...

    @here.task
    async def split(job: Job) -> None:
        await job.add(fetch.call())

    async with here, working(here):
        await (await here.chain(split.call()).enqueue()).wait(60)
        runs = await spans.runs(2)
    [adder] = _in_order(runs, "split")
    [added] = _in_order(runs, "fetch")
    assert {parent_of(adder), parent_of(added)} == {id_of(spans.enqueues[0])}
    assert linked(added) == [id_of(adder)]


async def test_the_run_of_a_child_is_a_child_of_the_run_that_started_it(
    app: Mita, spans: Spans
) -> None:
    @app.task
    async def child(n: int) -> int:
        return n

    @app.task
    def parent(job: Job) -> int:
        return job.run_sync(child.call(1))

    async with working(app):
        job = await parent.enqueue()
        assert await job.result(60) == 1
        runs = await spans.runs(3)
    [below] = [span for span in runs if facts(span)["mita.task"] == "child"]
    first, second = _in_order(runs, "parent")
    assert (trace_of(below), parent_of(below)) == (trace_of(first), id_of(first))
    assert facts(below)["mita.parent"] == job.id
    assert linked(first) == linked(second) == [id_of(spans.enqueues[0])]


async def test_a_child_of_a_handler_process_is_in_its_trace(tmp_path: Path, spans: Spans) -> None:
    async with (
        crunch.app.using(f"sqlite:///{tmp_path}/jobs.db") as app,
        working(app, handler_processes=1),
    ):
        assert await (await crunch.add_elsewhere.enqueue(1, 2)).result(60) == 3
        runs = await spans.runs(3)
    [below] = [span for span in runs if facts(span)["mita.task"] == "add"]
    first, _ = _in_order(runs, "add_elsewhere")
    assert (trace_of(below), parent_of(below)) == (trace_of(first), id_of(first))


async def test_a_durable_step_is_a_span_inside_its_run_once(here: Mita, spans: Spans) -> None:
    failures = ["hunter2"]

    def charge(account: int) -> int:
        if failures:
            raise ValueError(failures.pop())
        return account

    @here.task(secret=True, retry=Retry(max_retries=1, waits=(0.0,)))
    async def buy(job: Job) -> int:
        await job.step("look", lambda: 1)
        return await job.step("charge", charge, 7)

    async with lab(here) as it:
        await buy.enqueue()
        assert await it.drain(raises=False) == 2
    first, second = spans.of(SpanKind.CONSUMER)
    steps = spans.of(SpanKind.INTERNAL)
    assert [(span.name, parent_of(span), span.status.status_code) for span in steps] == [
        ("step look", id_of(first), StatusCode.UNSET),
        ("step charge", id_of(first), StatusCode.ERROR),
        ("step charge", id_of(second), StatusCode.UNSET),
    ]
    assert facts(steps[1])["error.type"] == "ValueError"
    assert "hunter2" not in "".join(span.to_json() for span in steps)


async def test_spans_that_cannot_be_read_only_remove_links(here: Mita, spans: Spans) -> None:
    from mita.traces import running, tracer

    used = tracer()
    assert used is not None

    @here.task
    async def send() -> None: ...

    async with lab(here):
        run = await here.chain(send.call()).enqueue()
        store = await here._store()
        [claim] = (await store.claim(["default"], 1, 60_000, "w")).claims
        assert claim.id == f"{run.id}.000001"
        with running(used, claim, [b"what is this", bytes(25)]):
            pass
    [span] = spans.of(SpanKind.CONSUMER)
    assert linked(span) == []
