"""`mita worker --until-empty`, `--max-jobs` and `--exclude`, as processes."""

import re
import signal
from pathlib import Path

from tests.waiting import wait_until

from .conftest import Run
from .test_worker import Put, Start, job, start, until

__all__ = ["start"]


def states(mita: Run, *ids: str) -> list[object]:
    return [job(mita, id)["state"] for id in ids]


def test_until_empty_ends_with_zero(start: Start, enqueue: Put, mita: Run) -> None:
    ids = [enqueue("greet", "Ada"), enqueue("nap", "0.2")]
    worker = start("shop:app", "--until-empty")
    assert worker.ended() == 0
    assert states(mita, *ids) == ["succeeded", "succeeded"]


def test_until_empty_ends_all_processes_and_their_supervisor(
    start: Start, enqueue: Put, mita: Run
) -> None:
    ids = [enqueue("nap", "0.2") for _ in range(6)]
    worker = start("shop:app", "--until-empty", "--processes", "2", "--concurrency", "1")
    assert worker.ended() == 0
    assert states(mita, *ids) == ["succeeded"] * 6
    assert not re.search("another is started", "".join(worker.log))


def test_after_max_jobs_a_worker_ends_with_zero(start: Start, enqueue: Put, mita: Run) -> None:
    ids = [enqueue("greet", "Ada") for _ in range(3)]
    worker = start("shop:app", "--max-jobs", "2")
    assert worker.ended() == 0
    assert sorted(map(str, states(mita, *ids))) == ["ready", "succeeded", "succeeded"]


def test_a_supervisor_starts_another_process_after_max_jobs(
    start: Start, enqueue: Put, mita: Run, project: Path
) -> None:
    ids = [enqueue("greet", "Ada") for _ in range(5)]
    worker = start("shop:app", "--max-jobs", "1", "--processes", "2")
    worker.wait_for_line("process . has run its jobs; another is started")
    for id in ids:
        until(mita, id, "succeeded")
    assert not re.search("exit code", "".join(worker.log))
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_excluded_queues_are_not_served(start: Start, enqueue: Put, mita: Run) -> None:
    billed, greeted = enqueue("charge", "1", "5"), enqueue("greet", "Ada")
    worker = start("shop:app", "--exclude", "billing", "--exclude", "mail")
    worker.wait_for_line("serves all queues but billing, mail")
    wait_until(lambda: states(mita, billed, greeted) == ["ready", "succeeded"])
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_queues_and_exclude_are_refused_together(mita: Run) -> None:
    said = mita("worker", "shop:app", "--queues", "a", "--exclude", "b")
    assert said.code == 2
    assert "but not both" in said.err


def test_verbose_logs_each_job_that_succeeds(start: Start, enqueue: Put, mita: Run) -> None:
    id = enqueue("greet", "Ada")
    worker = start("shop:app", "-v", "--until-empty")
    worker.wait_for_line(rf"INFO .*job {id} of greet succeeded in [\d.e-]+ s")
    assert worker.ended() == 0


def test_a_failure_is_logged_with_its_traceback(start: Start, enqueue: Put, mita: Run) -> None:
    id = enqueue("charge", "1", "-5")
    worker = start("shop:app", "--until-empty")
    worker.wait_for_line(rf"ERROR .*job {id} of charge failed: ValueError: cannot charge")
    worker.wait_for_line(r'File ".*shop.py", line \d+, in charge')
    assert worker.ended() == 0
    assert "\x1b" not in "".join(worker.log)
