"""`mita worker` as a process: what it logs, how it stops, and how its supervisor restarts
processes."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .conftest import Run
from .processes import Running, alive, gone

Put = Callable[..., str]
Start = Callable[..., Running]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")


@pytest.fixture
def start(mita: Run) -> Iterator[Start]:
    """Start a worker of the project's app."""
    started: list[Running] = []

    def run(*arguments: str, **environment: str) -> Running:
        started.append(Running(*(arguments or ("shop:app",)), **environment))
        return started[-1]

    yield run
    for running in started:
        running.close()


def job(mita: Run, id: str) -> dict[str, object]:
    data: dict[str, object] = mita("show", id, "--json").data["job"]
    return data


def until(mita: Run, id: str, state: str) -> None:
    wait_until(lambda: job(mita, id)["state"] == state)


def test_a_worker_logs_the_name_of_a_file_that_it_creates(start: Start) -> None:
    worker = start("shop:app")
    worker.wait_for_line(r"created the new file /.*/jobs\.db")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_worker_logs_its_queues_its_store_and_how_durable_it_is(
    start: Start, enqueue: Put, mita: Run
) -> None:
    id = enqueue("greet", "Ada")
    worker = start("shop:app", "--queues", "default,billing", "--name", "box", "--concurrency", "3")
    worker.wait_for_line(
        r"worker box serves queues default, billing, \d+ tasks, 3 slots, from sqlite file "
        r"/.*/jobs\.db.*on disk"
    )
    until(mita, id, "succeeded")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert worker.out == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_lets_running_jobs_end(
    start: Start, enqueue: Put, mita: Run, project: Path, number: signal.Signals
) -> None:
    id = enqueue("gated")
    worker = start()
    until(mita, id, "running")
    worker.signal(number)
    worker.wait_for_line("stopping: running jobs have 20 s")
    (project / "gate").touch()
    assert worker.ended() == 0
    assert (job(mita, id)["state"], job(mita, id)["interruptions"]) == ("succeeded", 0)


def test_a_worker_under_nohup_outlives_its_terminal(start: Start, enqueue: Put, mita: Run) -> None:
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does; children inherit it
    try:
        worker = start()
    finally:
        signal.signal(signal.SIGHUP, usual)
    worker.wait_for_line("serves all queues")
    worker.signal(signal.SIGHUP)
    until(mita, enqueue("greet", "Ada"), "succeeded")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_third_signal_ends_a_worker_at_once(start: Start, enqueue: Put, mita: Run) -> None:
    id = enqueue("hog", "60")
    worker = start()
    until(mita, id, "running")

    def insisted() -> bool:
        worker.signal(signal.SIGINT)  # signals that arrive together count as one
        return worker.process.poll() is not None

    wait_until(insisted)
    assert worker.ended() == 130


@pytest.mark.parametrize("task", ["nap", "doze", "stubborn", "elsewhere"])
def test_after_the_grace_time_running_jobs_return_to_the_queue(
    start: Start, enqueue: Put, mita: Run, task: str
) -> None:
    id = enqueue(task, "60")
    worker = start("shop:app", "--grace", "0.2")
    until(mita, id, "running")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert (job(mita, id)["state"], job(mita, id)["interruptions"], job(mita, id)["attempts"]) == (
        "ready",
        1,
        0,
    )


def test_after_a_second_signal_running_jobs_return_at_once(
    start: Start, enqueue: Put, mita: Run
) -> None:
    id = enqueue("nap", "60")
    worker = start("shop:app", "--grace", "60")
    until(mita, id, "running")
    worker.signal(signal.SIGINT)
    worker.wait_for_line("stopping")
    worker.signal(signal.SIGINT)
    worker.wait_for_line("returning running jobs to the queue")
    assert worker.ended() == 0
    assert (job(mita, id)["state"], job(mita, id)["interruptions"]) == ("ready", 1)


def test_a_keyboard_interrupt_in_a_handler_fails_only_its_job(
    start: Start, enqueue: Put, mita: Run
) -> None:
    """Ctrl-C was not pressed: our handler of that signal raises nothing."""
    id = enqueue("interrupting")
    worker = start()
    until(mita, id, "failed")
    until(mita, enqueue("greet", "Ada"), "succeeded")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_signal_to_a_forked_child_of_a_handler_ends_only_the_child(
    start: Start, enqueue: Put, mita: Run
) -> None:
    """The child has its parent's handlers and pipes: the signal must not go to the parent."""
    id = enqueue("forking")
    worker = start()
    until(mita, id, "succeeded")
    assert job(mita, id)["result"] == signal.SIGTERM
    until(mita, enqueue("greet", "Ada"), "succeeded")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


@pytest.mark.parametrize("signals", [1, 2])
def test_a_handler_that_blocks_the_event_loop_does_not_keep_the_worker_alive(
    start: Start, enqueue: Put, mita: Run, signals: int
) -> None:
    """The thread that extends the leases returns its job to the queue. A second signal does not
    wait for the grace time."""
    id = enqueue("hog", "600")
    worker = start("shop:app", "--grace", "0.2" if signals == 1 else "600")
    until(mita, id, "running")
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("stopping")
    if signals == 2:
        worker.signal(signal.SIGTERM)
    worker.wait_for_line(
        rf"ending with 1 job still running, returned to the queue: job {id} of hog"
    )
    assert worker.ended() == 0
    assert (job(mita, id)["state"], job(mita, id)["interruptions"], job(mita, id)["attempts"]) == (
        "ready",
        1,
        0,
    )


@pytest.mark.parametrize("signals", [1, 2])
def test_a_handler_that_blocks_the_event_loop_does_not_keep_a_supervisor_alive(
    start: Start, enqueue: Put, mita: Run, signals: int
) -> None:
    id = enqueue("hog", "600")
    supervisor = start("shop:app", "--processes", "2", "--grace", "0.2" if signals == 1 else "600")
    until(mita, id, "running")
    supervisor.signal(signal.SIGTERM)
    for _ in range(2):
        supervisor.wait_for_line("stopping")
    if signals == 2:
        supervisor.signal(signal.SIGTERM)
    supervisor.wait_for_line(
        rf"ending with 1 job still running, returned to the queue: job {id} of hog"
    )
    assert supervisor.ended() == 0
    assert (job(mita, id)["state"], job(mita, id)["interruptions"]) == ("ready", 1)


def test_a_worker_whose_file_was_deleted_ends_in_time(
    start: Start, enqueue: Put, mita: Run, project: Path
) -> None:
    id = enqueue("nap", "600")
    worker = start("shop:app", "--grace", "0.2")
    until(mita, id, "running")
    for file in project.glob("jobs.db*"):
        file.unlink()
    worker.wait_for_line("deleted or replaced")
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("stopping")
    assert worker.ended() in (0, 1), "it ended by itself"


def test_a_worker_can_run_the_app_on_another_store(start: Start, mita: Run) -> None:
    place = ("--url", "sqlite:///elsewhere.db", "--namespace", "two")
    id = mita("enqueue", "greet", "Ada", "--app", "shop:app", *place, "--json").data["id"]
    worker = start("shop:app", *place)
    worker.wait_for_line(r"sqlite file /.*/elsewhere\.db, namespace two")
    wait_until(lambda: mita("show", id, "--json", *place).data["job"]["state"] == "succeeded")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_the_log_and_the_report_of_a_worker_can_be_json(
    start: Start, enqueue: Put, mita: Run
) -> None:
    id = enqueue("charge", "1", "-5")
    worker = start("shop:app", "--json")
    until(mita, id, "failed")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    lines = [json.loads(line) for line in worker.log]
    [failed] = [line for line in lines if line.get("job") == id]
    assert (failed["level"], failed["task"], failed["queue"]) == ("error", "charge", "billing")
    assert json.loads(worker.out) == {"stopped": True}


def test_a_worker_does_not_import_rich(
    start: Start, enqueue: Put, mita: Run, project: object
) -> None:
    id = enqueue("greet", "Ada")
    worker = start("shop:app", PYTHONPROFILEIMPORTTIME="1")
    until(mita, id, "succeeded")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    loaded = {
        line.rsplit("|", 1)[1].strip() for line in worker.log if line.startswith("import time:")
    }
    assert "mita.engine.worker" in loaded
    assert not {name for name in loaded if name.split(".")[0] == "rich"}


# ---------------------------------------------------------------- --processes


def pids(worker: Running, *numbers: int) -> list[int]:
    return [int(worker.wait_for_line(rf"process {number} is (\d+)")[1]) for number in numbers]


def test_a_process_that_dies_is_restarted_and_all_stop_together(
    start: Start, enqueue: Put, mita: Run
) -> None:
    supervisor = start("shop:app", "--processes", "2", "--name", "box", "--lease", "1")
    first, second = pids(supervisor, 1, 2)
    for _ in range(2):
        supervisor.wait_for_line(r"worker box-\d serves all queues")
    os.kill(first, signal.SIGKILL)
    supervisor.wait_for_line("process 1 was killed by SIGKILL; another is started in 0.5 s")
    [third] = pids(supervisor, 1)
    supervisor.wait_for_line("worker box-1 serves all queues")
    id = enqueue("greet", "Ada")
    until(mita, id, "succeeded")
    supervisor.signal(signal.SIGTERM)
    assert supervisor.ended() == 0
    assert not any(alive(pid) for pid in (first, second, third))
    assert "all worker processes have ended" in supervisor.log[-1]


def test_a_signal_to_the_whole_process_group_lets_jobs_end(
    start: Start, enqueue: Put, mita: Run, project: Path
) -> None:
    id = enqueue("gated")
    supervisor = start("shop:app", "--processes", "2")
    children = pids(supervisor, 1, 2)
    for _ in children:
        supervisor.wait_for_line("serves all queues")
    until(mita, id, "running")
    for pid in (*children, supervisor.process.pid):
        os.kill(pid, signal.SIGTERM)
    supervisor.wait_for_line("stopping")
    (project / "gate").touch()
    assert supervisor.ended() == 0
    assert (job(mita, id)["state"], job(mita, id)["interruptions"]) == ("succeeded", 0)


def test_a_second_signal_reaches_the_processes(start: Start, enqueue: Put, mita: Run) -> None:
    id = enqueue("nap", "60")
    supervisor = start("shop:app", "--processes", "2", "--grace", "60")
    until(mita, id, "running")
    supervisor.signal(signal.SIGTERM)
    for _ in range(2):
        supervisor.wait_for_line("stopping: running jobs have 60 s")
    supervisor.signal(signal.SIGTERM)
    assert supervisor.ended() == 0
    assert job(mita, id)["interruptions"] == 1


def test_processes_do_not_outlive_their_supervisor(start: Start, mita: Run) -> None:
    supervisor = start("shop:app", "--processes", "2")
    children = pids(supervisor, 1, 2)
    for _ in children:
        supervisor.wait_for_line("serves all queues")
    supervisor.signal(signal.SIGKILL)
    assert all(gone(pid) for pid in children)


def test_a_process_with_a_usage_error_is_not_restarted(start: Start, mita: Run) -> None:
    supervisor = start("nosuch:app", "--processes", "2", "--json")
    assert supervisor.ended() == 2
    assert "there is no module 'nosuch'" in "".join(supervisor.log)
    assert json.loads(supervisor.out)["kind"] == "usage"
