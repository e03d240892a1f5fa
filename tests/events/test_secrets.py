"""A secret in arguments, results and the text of errors is told to nobody who watches: logs,
metrics, events, traces."""

import asyncio
import logging

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from mita import Job, JobFailed, Mita, Reschedule, Retry
from mita.cli.logs import JsonLines
from mita.model.event import JobEvent
from tests.engine.conftest import until_state, working

from .test_events import listening

SECRET = "hunter2"
ENDS = {"give": "succeeded", "give_later": "succeeded", "fail": "failed", "fail_sync": "failed"}


def declare(app: Mita) -> None:
    quick = Retry(max_retries=1, waits=(0.0,))

    @app.task(secret=True)
    async def give(password: str) -> str:
        return password

    @app.task(secret=True)
    async def give_later(job: Job, password: str) -> str | Reschedule:
        return password if job.reschedules else Reschedule(after=0, reason=password)

    @app.task(secret=True, retry=quick)
    async def fail(password: str) -> None:
        raise ValueError(password)

    @app.task(secret=True, retry=quick)
    def fail_sync(password: str) -> None:
        raise ValueError(password) from KeyError(password)


async def test_nobody_who_watches_is_told_a_secret(
    app: Mita, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every store; the caller still gets the result, and of an error its kind."""
    caplog.set_level(logging.DEBUG)
    exporter, provider, registry, heard = (
        InMemorySpanExporter(),
        TracerProvider(),
        CollectorRegistry(),
        list[JobEvent](),
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    app.metrics(registry)
    here = app.listen(heard.extend)
    declare(app)
    async with listening(app) as elsewhere, working(app):
        jobs = {name: await app.find_task(name).enqueue(SECRET) for name in ENDS}
        records = [await until_state(app, jobs[name].id, state) for name, state in ENDS.items()]
        for name, state in ENDS.items():
            await elsewhere.until(jobs[name].id, state)
        assert await jobs["give"].result(timeout=10) == SECRET
        with pytest.raises(JobFailed) as failed:
            await jobs["fail"].result(timeout=10)
    here.stop()
    told = {
        "records": str(records),
        "pages": str(await app.jobs()),
        "reasons": str([await app.explain(job.id) for job in jobs.values()]),
        "error": str(failed.value),
        "logs": "".join(
            JsonLines().format(record) + str(record.__dict__) for record in caplog.records
        ),
        "events": str(heard),
        "events across processes": str(elsewhere.heard),
        "metrics": (await asyncio.to_thread(generate_latest, registry)).decode(),
        "spans": "".join(span.to_json() for span in exporter.get_finished_spans()),
    }
    assert [where for where, text in told.items() if SECRET in text] == []
    for where in ("error", "logs", "reasons", "records"):
        assert "ValueError (text withheld: task is secret)" in told[where]
    for where in ("events", "events across processes", "metrics", "spans"):
        assert "fail_sync" in told[where]
