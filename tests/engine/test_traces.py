"""Spans of enqueues and runs, as OpenTelemetry's own SDK collects them."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mita import Abort, Job, Mita, Reschedule, Retry
from mita.traces import tracer
from tests.waiting import until

from . import crunch
from .conftest import until_state, working

ONCE_MORE = Retry(max_retries=1, waits=(0.0,))


class Spans:
    """The spans that were exported so far."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def of(self, kind: SpanKind) -> Sequence[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]

    @property
    def enqueues(self) -> Sequence[ReadableSpan]:
        return self.of(SpanKind.PRODUCER)

    async def runs(self, count: int) -> Sequence[ReadableSpan]:
        async def there() -> bool:
            return len(self.of(SpanKind.CONSUMER)) >= count

        await until(there)
        runs = self.of(SpanKind.CONSUMER)
        assert len(runs) == count
        return runs


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # the API lets a program set it only once
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield Spans(exporter)
    provider.shutdown()


@pytest.fixture
def here() -> Mita:
    return Mita("memory://")


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


async def test_a_run_is_linked_to_its_enqueue_on_every_store(app: Mita, spans: Spans) -> None:
    seen: dict[str, int] = {}

    @app.task(queue="mail")
    async def send(to: str) -> None:
        seen["async"] = trace.get_current_span().get_span_context().span_id
        await asyncio.sleep(0)

    @app.task(queue="mail")
    def post(to: str) -> None:
        seen["sync"] = trace.get_current_span().get_span_context().span_id

    async with working(app, queues=["mail"]):
        first, second = await send.enqueue("Ada"), await post.enqueue("Bo")
        runs = await spans.runs(2)
    by_task = {facts(span)["mita.task"]: span for span in runs}
    assert {"async": id_of(by_task["send"]), "sync": id_of(by_task["post"])} == seen
    for enqueue, job, task in zip(spans.enqueues, (first, second), ("send", "post"), strict=True):
        assert linked(by_task[task]) == [id_of(enqueue)]
        assert by_task[task].parent is None
        shared = {
            "messaging.system": "mita",
            "messaging.destination.name": "mail",
            "messaging.message.id": job.id,
        }
        assert facts(enqueue) == {
            **shared,
            "messaging.operation.name": "enqueue",
            "messaging.operation.type": "send",
            "mita.task": task,
        }
        assert facts(by_task[task]) == {
            **shared,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "mita.task": task,
            "mita.attempt": 1,
            "mita.ending": "returned",
        }
        assert (enqueue.name, by_task[task].name) == ("enqueue mail", "process mail")


async def test_an_enqueue_belongs_to_the_trace_around_it_also_from_sync_code(
    here: Mita, spans: Spans
) -> None:
    @here.task
    async def send() -> None: ...

    def from_a_thread() -> None:
        with trace.get_tracer("test").start_as_current_span("request"):
            send.enqueue_sync()
            here.enqueue_many_sync([send.call(), send.call()])

    with trace.get_tracer("test").start_as_current_span("request"):
        await send.enqueue()
    await asyncio.to_thread(from_a_thread)
    await asyncio.to_thread(here.close_sync)
    await here.close()
    requests = {id_of(span) for span in spans.of(SpanKind.INTERNAL)}
    assert len(requests) == 2
    assert {span.parent.span_id for span in spans.enqueues if span.parent} == requests


async def test_a_bulk_enqueue_is_one_span(here: Mita, spans: Spans) -> None:
    @here.task
    async def send(n: int) -> None: ...

    @here.task(queue="other")
    async def post(n: int) -> None: ...

    await here.enqueue_many([send.call(n) for n in range(2500)])
    await here.enqueue_many([send.call(1), post.call(2)])
    await here.enqueue_many([])
    bulk, mixed = spans.enqueues
    assert (bulk.name, facts(bulk)["messaging.batch.message_count"]) == ("enqueue default", 2500)
    assert (mixed.name, facts(mixed)["messaging.batch.message_count"]) == ("enqueue", 2)
    assert not {"messaging.message.id", "messaging.destination.name", "mita.task"} & set(
        facts(mixed)
    )
    async with working(here, queues=["other"]):
        [run] = await spans.runs(1)
    assert linked(run) == [id_of(mixed)]
    await here.close()


async def test_each_run_has_a_span_and_errors_are_recorded(here: Mita, spans: Spans) -> None:
    @here.task(retry=ONCE_MORE)
    async def fail() -> None:
        raise RuntimeError("no luck")

    @here.task
    def abort() -> None:
        raise Abort("the account is closed")

    async with working(here):
        job, other = await fail.enqueue(), await abort.enqueue()
        await until_state(here, job.id, "failed")
        await until_state(here, other.id, "failed")
        runs = await spans.runs(3)
    first, second = [span for span in runs if facts(span)["mita.task"] == "fail"]
    assert [facts(span)["mita.attempt"] for span in (first, second)] == [1, 2]
    assert linked(first) == linked(second) == [id_of(spans.enqueues[0])]
    for span in (first, second):
        assert (span.status.status_code, span.status.description) == (
            StatusCode.ERROR,
            "RuntimeError: no luck",
        )
        assert facts(span)["error.type"] == "RuntimeError"
        [event] = span.events
        told = dict(event.attributes or {})
        assert (event.name, told["exception.type"], told["exception.message"]) == (
            "exception",
            "RuntimeError",
            "no luck",
        )
        assert 'raise RuntimeError("no luck")' in str(told["exception.stacktrace"])
    [aborted] = [span for span in runs if facts(span)["mita.task"] == "abort"]
    assert facts(aborted)["error.type"] == "mita.Abort"
    await here.close()


async def test_a_reschedule_is_no_error_and_a_timeout_is_one(here: Mita, spans: Spans) -> None:
    @here.task
    async def later(job: Job) -> Reschedule | None:
        return None if job.reschedules else Reschedule(after=0)

    @here.task(timeout=0.05, retry=Retry(max_retries=0))
    async def slow() -> None:
        await asyncio.sleep(60)

    @here.task(timeout=0.05, retry=Retry(max_retries=0))
    def slow_sync(job: Job) -> None:
        while not job.cancelled:
            time.sleep(0.01)

    async with working(here):
        await later.enqueue()
        job = await slow.enqueue()
        stuck = await slow_sync.enqueue()
        await until_state(here, job.id, "failed")
        await until_state(here, stuck.id, "failed")
        runs = await spans.runs(4)
    endings = {
        (facts(span)["mita.task"], facts(span)["mita.ending"], span.status.status_code)
        for span in runs
    }
    assert endings == {
        ("later", "rescheduled", StatusCode.UNSET),
        ("later", "returned", StatusCode.UNSET),
        ("slow", "timedout", StatusCode.ERROR),
        ("slow_sync", "timedout", StatusCode.ERROR),
    }
    await here.close()


async def test_a_run_in_a_process_has_its_span_in_the_worker_and_its_trace_in_the_handler(
    tmp_path: Path, spans: Spans
) -> None:
    async with (
        crunch.app.using(f"sqlite:///{tmp_path}/jobs.db") as app,
        working(app, handler_processes=1),
    ):
        await (await crunch.trace_here.enqueue()).result(timeout=20)
        trace_id = await (await crunch.trace_here.enqueue()).result(timeout=20)
        await until_state(app, (await crunch.die.enqueue("exit")).id, "failed")
        runs = await spans.runs(3)
    assert [facts(span)["mita.ending"] for span in runs] == ["returned", "returned", "died"]
    assert runs[1].context is not None
    assert runs[1].context.trace_id == trace_id
    assert facts(runs[2])["error.type"] == "ProcessDied"


async def test_baggage_is_stored_with_the_job(here: Mita, spans: Spans) -> None:
    seen = []

    @here.task
    async def look() -> None:
        seen.append(baggage.get_baggage("tenant"))

    token = context.attach(baggage.set_baggage("tenant", "acme"))
    try:
        await look.enqueue()
    finally:
        context.detach(token)
    async with working(here):
        await spans.runs(1)
    assert seen == ["acme"]
    await here.close()


async def test_a_trace_has_no_error_text_of_a_secret_task(here: Mita, spans: Spans) -> None:
    @here.task(secret=True, retry=ONCE_MORE)
    async def fail(password: str) -> None:
        raise ValueError(f"not {password}")

    @here.task(secret=True)
    def give(password: str) -> str:
        return password

    async with working(here):
        await here.enqueue_many([fail.call("hunter2"), give.call("hunter2")])
        runs = await spans.runs(3)
    assert "hunter2" not in "".join(span.to_json() for span in (*runs, *spans.enqueues))
    assert {facts(span).get("error.type") for span in runs} == {"ValueError", None}
    await here.close()


async def test_headers_that_cannot_be_read_only_remove_the_link(here: Mita, spans: Spans) -> None:
    @here.task
    async def send() -> None: ...

    async with here, working(here):
        await here._sender.send([send.call()], b"\xc1 what is this")
        [run] = await spans.runs(1)
    assert linked(run) == []


async def test_a_provider_that_is_set_while_a_worker_runs_is_used(
    here: Mita, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)

    @here.task
    async def work() -> None: ...

    @here.task
    def plain() -> None: ...

    async with working(here):
        for task in (work, plain):
            await (await task.enqueue()).result(timeout=20)
        spans: Spans = request.getfixturevalue("spans")
        for task in (work, plain):
            await (await task.enqueue()).result(timeout=20)
        runs = await spans.runs(2)
    assert [facts(run)["mita.task"] for run in runs] == [work.name, plain.name]
    assert [linked(run) for run in runs] == [[id_of(enqueue)] for enqueue in spans.enqueues]


async def test_without_a_provider_nothing_is_done(
    here: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)

    @here.task
    async def send() -> None: ...

    assert tracer() is None
    async with here:
        [job] = await (await here._store()).find([(await send.enqueue()).id])
    assert job is not None
    assert job.headers == b""


def test_mita_does_not_import_opentelemetry() -> None:
    code = (
        "import sys, mita, mita.cli, mita.traces; print(mita.traces.tracer(), 'opentelemetry' "
        "in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["None", "False"]
