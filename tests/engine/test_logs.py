"""One log line per notable event of a job, with fields for programs; arguments are never logged."""

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from mita import Abort, Job, Mita, Reschedule, Retry, Unavailable
from mita.cli.logs import JsonLines
from mita.engine import loop_watchdog
from mita.engine.claim_loop import log_busy
from mita.engine.lease_keeper import LeaseKeeper
from mita.model.outcome import Busy
from mita.ports.store import Store
from tests.waiting import until

from .conftest import until_state, working

PRECIOUS = "do-not-log-me"


@pytest.fixture
def here() -> Mita:
    return Mita("memory://")


def told(caplog: pytest.LogCaptureFixture, id: str) -> list[tuple[str, str]]:
    return [
        (record.event, record.levelname)  # type: ignore[attr-defined]
        for record in caplog.records
        if getattr(record, "job", "") == id
    ]


def declare(app: Mita) -> dict[str, tuple[Any, str, list[tuple[str, str]]]]:
    """Tasks, the state of their jobs after the run, and what is logged."""

    @app.task
    async def succeed(text: str) -> str:
        return text

    @app.task(retry=Retry(max_retries=1, waits=(0.0,)))
    async def fail(text: str) -> None:
        raise RuntimeError("no luck")

    @app.task
    def abort(text: str) -> None:
        raise Abort("hopeless")

    @app.task
    async def move(job: Job, text: str) -> Reschedule | None:
        return None if job.reschedules else Reschedule(after=0, reason="not yet")

    @app.task
    async def refuse(text: str) -> None:
        raise Unavailable(after=3600)

    @app.task(timeout=0.01, retry=Retry(max_retries=0))
    async def dawdle(text: str) -> None:
        await asyncio.sleep(60)

    return {
        "succeed": (succeed, "succeeded", [("succeeded", "DEBUG")]),
        "fail": (fail, "failed", [("retried", "INFO"), ("failed", "ERROR")]),
        "abort": (abort, "failed", [("failed", "ERROR")]),
        "move": (move, "succeeded", [("rescheduled", "INFO"), ("succeeded", "DEBUG")]),
        "refuse": (refuse, "scheduled", [("unavailable", "INFO")]),
        "dawdle": (dawdle, "failed", [("failed", "ERROR")]),
    }


async def test_each_notable_event_has_one_log_line_with_fields(
    here: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mita")
    tasks = declare(here)
    async with working(here):
        for name, (task, state, lines) in tasks.items():
            job = await task.enqueue(PRECIOUS)
            await until_state(here, job.id, state)
            assert told(caplog, job.id) == lines, name
    await here.close()
    for record in (record for record in caplog.records if hasattr(record, "job")):
        line = json.loads(JsonLines().format(record))
        assert line["task"] in tasks
        assert (line["queue"], line["event"], line["level"]) == (
            "default",
            record.event,  # type: ignore[attr-defined]
            record.levelname.lower(),
        )
        assert line["attempt"] in (1, 2)
        assert line["seconds"] >= 0
    assert all(PRECIOUS not in str(record.__dict__) for record in caplog.records)


async def test_a_shutdown_a_cancel_and_a_lost_lease_are_logged(
    here: Mita, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "mita")

    @here.task
    async def hang() -> None:
        await asyncio.sleep(60)

    async with working(here, grace=0.01, queues=["default"]):
        stopped, interrupted = await hang.enqueue(), await hang.enqueue()
        for job in (stopped, interrupted):
            await until_state(here, job.id, "running")
        await here.cancel(stopped.id)
        await until_state(here, stopped.id, "cancelled")
    assert told(caplog, stopped.id) == [("cancelled", "INFO")]
    assert told(caplog, interrupted.id) == [("interrupted", "INFO")]
    await here.cancel(interrupted.id)

    async def not_heard(self: LeaseKeeper, store: Store) -> None: ...

    monkeypatch.setattr(LeaseKeeper, "_beat", not_heard)
    async with working(here, lease=0.3, grace=0.01):
        lost = await hang.enqueue()

        async def is_logged() -> bool:
            return {("lease lost", "WARNING"), ("crashed", "INFO")} <= set(told(caplog, lost.id))

        await until(is_logged)
    await here.close()


async def test_an_unknown_task_is_logged_once(here: Mita, caplog: pytest.LogCaptureFixture) -> None:
    @here.task
    async def known() -> None: ...

    @here.task
    async def unheard_of() -> None: ...

    first, second = await unheard_of.enqueue(), await unheard_of.enqueue()
    del here.task._registry.known["unheard_of"]
    async with working(here):
        for job in (first, second):
            await until_state(here, job.id, "scheduled")
    [line] = [record for record in caplog.records if getattr(record, "event", "") == "stranded"]
    assert "does not know the task unheard_of" in line.getMessage()
    await here.close()


async def test_a_handler_that_blocks_the_event_loop_is_named(
    here: Mita, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watchdog, "BLOCKED_AFTER_S", 0.05)

    def said(text: str) -> list[str]:
        return [record.getMessage() for record in caplog.records if text in record.getMessage()]

    @here.task
    async def hog() -> None:
        end = time.monotonic() + 20
        while not said("held up") and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - that is what is wrong with it

    async with working(here, lease=0.2):
        await (await hog.enqueue()).result(timeout=20)

        async def runs_again() -> bool:
            return bool(said("the event loop runs again"))

        await until(runs_again)
    [line] = said("held up")
    assert Path(__file__).name in line
    assert hog.fn.__qualname__ in line


async def test_failures_are_logged_with_their_traceback(
    app: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    """`exc_info` for programs that group errors by it, and a bounded text for everything else."""
    caplog.set_level(logging.INFO, "mita")

    def inner(text: str) -> None:
        raise ValueError(text)

    @app.task(retry=Retry(max_retries=1, waits=(0.0,)))
    async def on_the_loop() -> None:
        inner("x" * 1_000_000)

    @app.task(retry=Retry(max_retries=0))
    def on_a_thread() -> None:
        inner("boo")

    async with working(app):
        jobs = [await on_the_loop.enqueue(), await on_a_thread.enqueue()]
        for job in jobs:
            await until_state(app, job.id, "failed")
    lines = [
        record for record in caplog.records if getattr(record, "event", "") in ("retried", "failed")
    ]
    assert len(lines) == 3
    for line in lines:
        assert line.exc_info is not None
        assert isinstance(line.exc_info[1], ValueError)
        assert line.exc_info[2] is not None
        for text in (
            logging.Formatter().format(line),
            json.loads(JsonLines().format(line))["error"],
        ):
            assert "raise ValueError(text)" in text or "xxxx" in text
            assert "in test_failures_are_logged_with_their_traceback.<locals>.inner" in text
            assert len(text) < 15_000


async def test_no_traceback_of_a_secret_task_is_logged(
    here: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    @here.task(secret=True, retry=Retry(max_retries=0))
    async def hush(card: str) -> None:
        raise ValueError(card)

    async with working(here):
        await until_state(here, (await hush.enqueue(PRECIOUS)).id, "failed")
    [line] = [record for record in caplog.records if getattr(record, "event", "") == "failed"]
    assert (line.exc_info, line.exc_text) == (None, None)
    assert PRECIOUS not in logging.Formatter().format(line)
    await here.close()


@pytest.mark.parametrize("verbose", [True, False])
async def test_successes_are_logged_when_asked_for(
    here: Mita, caplog: pytest.LogCaptureFixture, verbose: bool
) -> None:
    caplog.set_level(logging.INFO, "mita")

    @here.task
    async def work() -> None: ...

    async with working(here, verbose=verbose):
        job = await work.enqueue()
        await job.result(timeout=20)
    lines = [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == "succeeded"
    ]
    assert [
        line.startswith(f"job {job.id} of work succeeded in ") and line.endswith(" s")
        for line in lines
    ] == [True] * verbose
    await here.close()


COSTS_NOTHING = "; this costs no attempt"


def test_jobs_that_wait_for_a_rate_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands may wait: one line for each task and queue. A single one is named."""
    caplog.set_level(logging.INFO, "mita")
    log_busy(
        [
            *(Busy(f"j{n}", "send", "mail", at_rate=True) for n in range(5000)),
            Busy("lone", "ping", "mail", at_rate=True),
            Busy("held", "send", "mail"),
        ]
    )
    assert caplog.messages == [
        f"job lone of ping: its rate has no token: postponed until it has one{COSTS_NOTHING}",
        f"job held of send: its resource key is busy: postponed until it is free{COSTS_NOTHING}",
        "5000 jobs of send wait for a token of their rate; this costs no attempt",
    ]


async def test_a_job_that_is_postponed_for_a_busy_key_is_logged(
    app: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    """On every store, once for each time; a job that does not wait has a line of its own."""
    caplog.set_level(logging.INFO, "mita")
    let_go = asyncio.Event()

    @app.task(resource="account:42")
    async def charge() -> None:
        await let_go.wait()

    async with working(app):
        holder = await charge.enqueue()
        await until_state(app, holder.id, "running")
        waits, skips = await charge.enqueue(), await charge.options(when_busy="skip").enqueue()
        await until_state(app, waits.id, "blocked")
        await until_state(app, skips.id, "cancelled")

        async def is_told() -> bool:
            return bool(told(caplog, waits.id) and told(caplog, skips.id))

        await until(is_told)
        assert told(caplog, waits.id)[0] == ("blocked", "INFO")
        assert told(caplog, skips.id) == [("cancelled", "INFO")]
        let_go.set()
        await until_state(app, waits.id, "succeeded")
    [line] = [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == "blocked"
    ]
    assert (
        line == f"job {waits.id} of charge: its resource key is busy: postponed until it is free; "
        "this costs no attempt"
    )
