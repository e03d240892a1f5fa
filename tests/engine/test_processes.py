"""Tasks with executor='process', with real processes that are killed."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mita import JobCancelled, Mita, UsageError
from mita.rules.explain.evidence import ReasonCode
from tests.waiting import until

from . import crunch
from .conftest import URLS, until_state, working
from .test_expiry import claimed, is_past

SETTINGS = {"handler_processes": 2, "poll": 0.1}


@pytest.fixture(params=URLS)
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Mita]:
    async with crunch.app.using(URLS[request.param](tmp_path)) as app:
        yield app


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[Mita]:
    async with crunch.app.using(URLS["sqlite"](tmp_path)) as app:
        yield app


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def written(file: Path) -> int:
    """The number that a handler writes into this file."""

    async def there() -> bool:
        return bool(_content(file))

    await until(there)
    return int(_content(file))


def _content(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def gone(pid: int) -> None:
    async def dead() -> bool:
        return not alive(pid)

    await until(dead)


# ---------------------------------------------------------------- what a handler can do there


async def test_handlers_run_in_processes_that_are_reused(app: Mita) -> None:
    async with working(app, handler_processes=1):
        runs = [await (await crunch.whoami.enqueue()).result(timeout=20) for _ in range(3)]
        assert await (await crunch.asynchronous.enqueue()).result(timeout=20) == "on the loop"
    assert len(set(runs)) == 1
    [(pid, parent), *_] = runs
    assert parent == os.getpid() != pid
    assert not alive(pid), "no process outlives its worker"


async def test_there_are_no_more_processes_than_configured(on_file: Mita) -> None:
    async with working(on_file, **SETTINGS):
        jobs = await on_file.enqueue_many([crunch.whoami.call() for _ in range(50)])
        pids = {(await job.result(timeout=20))[0] for job in jobs}
    assert 1 <= len(pids) <= 2


async def test_once_values_and_progress_pass_through_the_worker(app: Mita, tmp_path: Path) -> None:
    async with working(app, **SETTINGS):
        job = await crunch.remember.enqueue(str(tmp_path))
        assert await job.result(timeout=20) == 7
        record = await app.get(job.id)
    assert (tmp_path / "effects").read_text() == "x"
    assert record is not None
    assert record.progress is not None
    assert (record.attempts, record.progress.done, record.progress.message) == (1, 2, "attempt 2")


async def test_a_shared_value_is_computed_once_by_all_processes(app: Mita, tmp_path: Path) -> None:
    async with working(app, **SETTINGS):
        jobs = await app.enqueue_many([crunch.shared.call(str(tmp_path)) for _ in range(4)])
        values = {await job.result(timeout=20) for job in jobs}
    assert len(values) == 1
    assert (tmp_path / "effects").read_text() == "x"


async def test_several_threads_of_a_handler_may_call_the_job_at_once(
    on_file: Mita, tmp_path: Path
) -> None:
    async with working(on_file, **SETTINGS):
        first = await crunch.slow_value.enqueue(str(tmp_path))
        await written(tmp_path / "computing")
        second = await crunch.ask_twice.enqueue(str(tmp_path))
        assert await second.result(timeout=20) == "both answered"
        assert await first.result(timeout=20) == "theirs"


async def test_what_a_handler_raises_means_the_same_as_on_a_thread(app: Mita) -> None:
    async with working(app, **SETTINGS):
        moved, aborted, refused = (
            await crunch.move.enqueue(),
            await crunch.abort.enqueue(),
            await crunch.refuse.enqueue(),
        )
        failed, secret = await crunch.fail.enqueue("boo"), await crunch.fail_secretly.enqueue("boo")
        left = await crunch.leave.enqueue()
        assert await moved.result(timeout=20) == "moved"
        assert (await until_state(app, aborted.id, "failed")).error.startswith(
            "mita.Abort: hopeless"
        )
        assert (await until_state(app, refused.id, "blocked")).busy == 1
        error = (await until_state(app, failed.id, "failed")).error
        hidden = (await until_state(app, secret.id, "failed")).error
        assert (await until_state(app, left.id, "failed")).error.startswith("SystemExit: 4")
    assert error.startswith("ValueError: boo\n")
    assert f'File "{crunch.__file__}"' in error
    assert "raise ValueError(text)" in error
    assert hidden.startswith("ValueError (text withheld: task is secret)")
    assert "boo" not in hidden


async def test_a_failure_is_logged_with_the_traceback_of_its_process(
    on_file: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(on_file, **SETTINGS):
        for task in (crunch.fail, crunch.fail_secretly):
            await until_state(on_file, (await task.enqueue("boo")).id, "failed")
    shown, hidden = [
        logging.Formatter().format(line)
        for line in caplog.records
        if getattr(line, "event", "") == "failed"
    ]
    assert f'File "{crunch.__file__}"' in shown
    assert "raise ValueError(text)" in shown
    assert "\n" not in hidden


async def test_large_results_are_passed_on(on_file: Mita) -> None:
    async with working(on_file, **SETTINGS):
        assert await (await crunch.big.enqueue(3_000_000)).result(timeout=20) == b"x" * 3_000_000


async def test_a_handler_may_use_processes_of_its_own(on_file: Mita) -> None:
    async with working(on_file, **SETTINGS):
        assert await (await crunch.fork_inside.enqueue()).result(timeout=60) == 5


async def test_a_handler_enqueues_into_the_store_of_its_worker(on_file: Mita) -> None:
    async with working(on_file, **SETTINGS):
        child = await (await crunch.enqueue_more.enqueue()).result(timeout=20)
        assert await on_file.result(child, timeout=20) == 3


async def test_a_store_in_memory_cannot_be_reached_from_a_handler_process() -> None:
    """The job would be stored where no other process can see it."""
    async with crunch.app.using("memory://") as app, working(app, **SETTINGS):
        record = await until_state(app, (await crunch.enqueue_more.enqueue()).id, "scheduled")
        assert "memory://, which only the worker's own process can use" in record.error


async def test_a_handler_completes_its_job_in_a_transaction_of_its_own() -> None:
    import psycopg

    from tests.stores.postgres import shared

    url, plain = shared.fresh_url(), shared.server("pg18").url()
    async with (
        crunch.app.using(url) as app,
        await psycopg.AsyncConnection.connect(plain, autocommit=True) as connection,
    ):
        await connection.execute(
            "DROP TABLE IF EXISTS payments; CREATE TABLE payments (account int)"
        )
        async with working(app, **SETTINGS):
            job = await crunch.pay.enqueue(plain, 42)
            assert await job.result(timeout=20) == "paid in a process"
        [[n]] = await (
            await connection.execute("SELECT count(*) FROM payments WHERE account = 42")
        ).fetchall()
    assert n == 1


# ---------------------------------------------------------------- it is killed


async def test_a_timeout_kills_the_process_before_the_key_is_free(
    app: Mita, tmp_path: Path
) -> None:
    """I5: the next run with the key starts after the process of the earlier one has ended."""
    async with working(app, **SETTINGS):
        jobs = [await crunch.overrun.enqueue(str(tmp_path)) for _ in range(2)]
        records = [await until_state(app, job.id, "failed") for job in jobs]
    pids = [int(pid) for pid in (tmp_path / "runs").read_text().split()]
    # a process that was slow to start may have been killed before it wrote
    assert 1 <= len(pids) == len(set(pids)) <= 4
    assert not any(alive(pid) for pid in pids)
    assert not (tmp_path / "overlap").exists()
    assert all(record.error.startswith("TimedOut: ") and record.attempts == 2 for record in records)


async def test_a_cancel_kills_a_handler_and_the_processes_that_it_started(
    app: Mita, tmp_path: Path
) -> None:
    async with working(app, **SETTINGS):
        job = await crunch.forever.enqueue(str(tmp_path))
        pid, grandchild = (
            await written(tmp_path / "forever"),
            await written(tmp_path / "grandchild"),
        )
        await app.cancel(job.id)
        await until_state(app, job.id, "cancelled")
        await gone(grandchild)
        assert not alive(pid)
        assert await (await crunch.add.enqueue(1, 1)).result(timeout=20) == 2


async def test_a_handler_sees_that_its_job_was_cancelled(on_file: Mita, tmp_path: Path) -> None:
    async with working(on_file, **SETTINGS):
        job = await crunch.polite.enqueue(str(tmp_path))
        pid = await written(tmp_path / "polite")
        await on_file.cancel(job.id)
        await until_state(on_file, job.id, "cancelled")
        assert await written(tmp_path / "noticed") == pid
        assert alive(pid), "it ended by itself, so its process is used again"


async def test_a_stopping_worker_kills_handlers_after_the_grace_time(
    app: Mita, tmp_path: Path
) -> None:
    async with working(app, grace=0.1, **SETTINGS) as worker:
        job = await crunch.forever.enqueue(str(tmp_path))
        pid, grandchild = (
            await written(tmp_path / "forever"),
            await written(tmp_path / "grandchild"),
        )
        worker.stop()
    record = await app.get(job.id)
    await gone(grandchild)
    assert not alive(pid)
    assert record is not None
    assert (record.state, record.interruptions, record.attempts) == ("ready", 1, 0)


# ---------------------------------------------------------------- it dies


@pytest.mark.parametrize(
    ("how", "fate"),
    [
        ("SIGKILL", "was killed by SIGKILL"),
        ("exit", "ended with exit code 3"),
        ("segfault", "was killed by SIGSEGV"),
    ],
)
async def test_a_process_that_dies_is_a_crash_of_only_its_job(
    on_file: Mita, tmp_path: Path, how: str, fate: str
) -> None:
    async with working(on_file, **SETTINGS):
        sibling = await crunch.wait_for.enqueue(str(tmp_path), "go")
        await written(tmp_path / "waiting")
        record = await until_state(on_file, (await crunch.die.enqueue(how)).id, "failed")
        (tmp_path / "go").touch()
        await sibling.result(timeout=20)
        assert await (await crunch.add.enqueue(1, 1)).result(timeout=20) == 2
    assert (record.crashes, record.attempts) == (1, 0)
    assert record.error.startswith(f"ProcessDied: the handler's process {fate}")


async def test_crashes_have_their_own_budget(app: Mita, tmp_path: Path) -> None:
    """I6."""
    async with working(app, **SETTINGS):
        job = await crunch.die_twice.enqueue(str(tmp_path))
        record = await until_state(app, job.id, "failed")
        [reason] = await app.explain(job.id)
    assert (tmp_path / "deaths").read_text() == "xx"
    assert (record.crashes, record.attempts) == (2, 0)
    assert reason.code is ReasonCode.FAILED


async def test_a_process_that_died_while_idle_is_replaced(on_file: Mita) -> None:
    async with working(on_file, handler_processes=1):
        pid, _ = await (await crunch.whoami.enqueue()).result(timeout=20)
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        other, _ = await (await crunch.whoami.enqueue()).result(timeout=20)
    assert other != pid


async def test_a_handler_process_ignores_signals_for_its_worker(
    on_file: Mita, tmp_path: Path
) -> None:
    """A process manager may send SIGTERM to every process of a service."""
    async with working(on_file, **SETTINGS):
        job = await crunch.wait_for.enqueue(str(tmp_path), "go")
        pid = await written(tmp_path / "waiting")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, number)
        (tmp_path / "go").touch()
        assert await job.result(timeout=20) == pid


# ---------------------------------------------------------------- it cannot start


async def test_an_app_that_no_module_has_is_refused_with_the_remedy() -> None:
    app = Mita("memory://")
    app.task(executor="process")(crunch.add.fn)
    with pytest.raises(
        UsageError,
        match=r"no module has this one as a variable: put the app into a module of its own",
    ):
        app.worker()


async def test_a_worker_whose_app_cannot_be_imported_refuses_to_start() -> None:
    with pytest.raises(
        UsageError,
        match=r"a handler process cannot start: cannot import 'nowhere:app': there is no module",
    ):
        await crunch.app.worker(target="nowhere:app").run()


async def test_a_process_that_cannot_start_later_costs_no_attempt(
    on_file: Mita, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a task that this worker does not know, the job is left for other workers."""
    async with working(on_file, handler_processes=1) as worker:
        pid, _ = await (await crunch.whoami.enqueue()).result(timeout=20)
        processes = worker._executor._processes
        monkeypatch.setattr(processes, "_hello", _broken(processes._hello))
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        record = await until_state(on_file, (await crunch.whoami.enqueue()).id, "scheduled")
    assert (record.attempts, record.crashes) == (0, 0)
    assert any(
        "a handler process cannot start" in line.getMessage()
        for line in caplog.records
        if line.levelno == logging.ERROR
    )


async def test_a_process_that_dies_before_it_begins_a_job_costs_that_job_nothing(
    on_file: Mita,
) -> None:
    """It was idle when it died, so the job runs in another process and no crash is counted."""
    async with working(on_file, handler_processes=1):
        pid, _ = await (await crunch.whoami.enqueue()).result(timeout=20)
        os.kill(pid, signal.SIGSTOP)
        handle = await crunch.whoami.enqueue()
        await until_state(on_file, handle.id, "running")
        os.kill(pid, signal.SIGKILL)
        other, _ = await handle.result(timeout=20)
        record = await until_state(on_file, handle.id, "succeeded")
    assert other != pid
    assert (record.attempts, record.crashes) == (0, 0)


def _broken(hello: object) -> object:
    from msgspec.structs import replace

    return replace(hello, target="nowhere:app")  # type: ignore[type-var]


def test_executor_is_checked_where_it_is_declared() -> None:
    app = Mita("memory://")
    with pytest.raises(UsageError, match=r"is async, so it runs on the worker's event loop"):
        app.task(executor="process")(crunch.asynchronous.fn)
    with pytest.raises(UsageError, match=r"executor='gpu': use 'thread'"):
        app.task(executor="gpu")(crunch.add.fn)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match=r"executor belongs to a task"):
        crunch.add.options(executor="process")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"handler_processes=0"):
        crunch.app.worker(handler_processes=0)


async def test_jobs_without_a_free_process_wait_in_the_store(on_file: Mita, tmp_path: Path) -> None:
    """Other workers may have free processes."""
    async with working(on_file, handler_processes=1, poll=0.1):
        running = await crunch.wait_for.enqueue(str(tmp_path), "go")
        await written(tmp_path / "waiting")
        await asyncio.sleep(0.1)  # the rate at which runs end is forgotten
        waiting = await crunch.add.enqueue(1, 2)
        async with working(on_file, handler_processes=1, poll=0.1):
            assert await waiting.result(timeout=20) == 3
        (tmp_path / "go").touch()
        await running.result(timeout=20)


# ---------------------------------------------------------------- deadlines and expiry


async def test_a_process_is_killed_at_the_deadline_of_its_job(app: Mita, tmp_path: Path) -> None:
    async with working(app, **SETTINGS):
        job = await crunch.forever.options(deadline=0.5).enqueue(str(tmp_path))
        record = await until_state(app, job.id, "failed")
        assert (record.error or "").startswith("DeadlineExceeded: ")
        if (tmp_path / "forever").exists():  # not on a machine that starts processes slowly
            await gone(await written(tmp_path / "forever"))


async def test_a_claim_that_expires_while_it_waits_for_a_process_is_not_started(
    on_file: Mita, tmp_path: Path
) -> None:
    settings = {"queues": ["default"], "handler_processes": 1, "poll": 60.0}
    async with working(on_file, **settings) as worker:
        filler = await crunch.forever.enqueue(str(tmp_path))
        await written(tmp_path / "forever")
        late = await crunch.add.options(queue="aside", expires=0.2).enqueue(1, 2)
        claim = await claimed(worker, "aside")
        assert not worker._executor.waiting, "it has a slot, and waits for a process"
        store = worker._executor._context.store
        await until(lambda: is_past(store, claim.due + 200))
        await on_file.cancel(filler.id)
        with pytest.raises(JobCancelled, match="expired"):
            await late.result(timeout=20)
