"""Labs in sync tests: where handlers run, and what they see."""

import asyncio
import sqlite3
import sys
import threading
import unittest
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Annotated, Any

import pytest

from mita import Depends, Job, Mita, Retry
from mita.testing import Lab, lab

local = threading.local()
request_id: ContextVar[str] = ContextVar("request_id", default="")


@pytest.fixture
def app() -> Mita:
    return Mita("sqlite:///never-opened.db")


def test_a_sync_handler_runs_on_the_thread_of_the_test(app: Mita) -> None:
    """So it sees the test's own database connection, which the test rolls back."""

    @app.task
    def pay(order: int) -> int:
        local.connection.execute("update orders set paid = 1 where id = ?", [order])
        return threading.get_ident()

    local.connection = sqlite3.connect(":memory:")  # refuses the use on another thread
    local.connection.execute("create table orders (id int, paid int)")
    local.connection.execute("insert into orders values (1, 0)")
    with lab(app) as it:
        handle = pay.enqueue_sync(1)
        it.drain_sync()
        assert handle.result_sync() == threading.get_ident()
    assert local.connection.execute("select paid from orders").fetchall() == [(1,)]
    local.connection.close()


def test_an_async_handler_runs_on_an_event_loop(app: Mita) -> None:
    @app.task
    async def look() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    with lab(app) as it:
        handle = look.enqueue_sync()
        assert it.drain_sync() == 1
        assert handle.result_sync() != threading.get_ident()


def test_a_sync_handler_sees_context_variables_and_uses_its_job(app: Mita) -> None:
    @app.task
    def work(job: Job) -> list[Any]:
        first = job.step_sync("first", request_id.get)
        job.progress_sync(1, 2)
        job.sleep_sync(60)
        return [first, job.wait_for_sync("answer")]

    request_id.set("r1")
    with lab(app) as it:
        handle = work.enqueue_sync()
        assert it.drain_sync() == 1
        request_id.set("r2")
        assert it.advance_sync(timedelta(minutes=1)) == 1
        it.signal_sync(handle.id, "answer", 42)
        assert it.drain_sync() == 1
        assert handle.result_sync() == ["r1", 42]


def test_dependencies_and_lifespans_work(app: Mita) -> None:
    log = []

    @app.lifespan
    async def pool() -> AsyncIterator[str]:
        log.append("open")
        yield "pool"
        log.append("close")

    def session(pool: Annotated[str, Depends(pool)]) -> Iterator[str]:
        log.append(f"begin {threading.current_thread().name}")
        yield f"session of {pool}"
        log.append("end")

    @app.task
    def use(session: Annotated[str, Depends(session)]) -> str:
        return session

    with lab(app) as it:
        handle = use.enqueue_sync()  # type: ignore[call-arg]
        it.drain_sync()
        assert handle.result_sync() == "session of pool"
        it.override(session, "fake")
        again = use.enqueue_sync()  # type: ignore[call-arg]
        it.drain_sync()
        assert again.result_sync() == "fake"
    assert log == ["open", "begin MainThread", "end", "close"]


def test_a_sync_handler_may_enqueue_more_and_flows_run(app: Mita) -> None:
    @app.task
    def square(n: int) -> int:
        return n * n

    @app.task
    def total(numbers: list[int]) -> int:
        square.enqueue_sync(100)
        return sum(numbers)

    with lab(app) as it:
        run = app.group([square.call(n) for n in range(4)]).then(total.call).enqueue_sync()
        assert it.drain_sync() == 6
        record = run.get_sync()
        assert record is not None
        assert record.state == "succeeded"
        assert it.assert_enqueued(square, 100, state="succeeded", count=1)[0].arguments == {
            "n": 100
        }


def test_ctrl_c_in_a_handler_ends_the_test(app: Mita) -> None:
    @app.task
    def interrupted() -> None:
        raise KeyboardInterrupt

    @app.task
    def skipped() -> None:
        pytest.skip("not here")

    with lab(app) as it:
        interrupted.enqueue_sync()
        with pytest.raises(KeyboardInterrupt):
            it.drain_sync(raises=False)
        skipped.enqueue_sync()
        with pytest.raises(pytest.skip.Exception, match="not here"):
            it.drain_sync(raises=False)


def test_an_error_of_a_handler_is_the_error_of_the_test(app: Mita) -> None:
    @app.task(retry=Retry(max_retries=1, base=10))
    def fail() -> None:
        raise LookupError("no such order")

    @app.task
    def exits() -> None:
        sys.exit(3)

    with lab(app) as it:
        handle = fail.enqueue_sync()
        with pytest.raises(LookupError, match="no such order") as caught:
            it.drain_sync()
        [note] = caught.value.__notes__
        assert f"job {handle.id} of task " in note
        assert "in attempt 1; the job runs again after 10 s" in note
        with pytest.raises(LookupError) as again:
            it.advance_sync(60)
        assert "in attempt 2; the job has failed" in again.value.__notes__[0]
        assert it.advance_sync(60) == 0
        exits.enqueue_sync()
        with pytest.raises(SystemExit):
            it.drain_sync()
        assert it.drain_sync() == 0  # the event loop has survived it


class WithUnittest(unittest.TestCase):
    """The lab needs no pytest."""

    app = Mita("sqlite:///never-opened.db")

    @staticmethod
    @app.task
    def greet(name: str) -> str:
        return f"hello {name}"

    it: Lab

    def setUp(self) -> None:
        self.it = self.enterContext(lab(self.app))

    def test_one(self) -> None:
        handle = self.app.enqueue_sync(self.app.tasks[self.name].call("Ada"))
        assert self.it.drain_sync() == 1
        assert handle.result_sync() == "hello Ada"

    def test_each_test_begins_without_jobs(self) -> None:
        assert self.it.enqueued() == []

    @property
    def name(self) -> str:
        return next(iter(self.app.tasks))


class WithAsyncUnittest(unittest.IsolatedAsyncioTestCase):
    app = Mita("sqlite:///never-opened.db")

    async def asyncSetUp(self) -> None:
        self.it = await self.enterAsyncContext(lab(self.app))

    async def test_one(self) -> None:
        assert await self.it.drain() == 0
