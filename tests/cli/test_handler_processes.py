"""Tasks with executor='process' under `mita worker` and in scripts: what each process imports,
and when it ends."""

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .conftest import Run, Said
from .processes import Running, gone
from .test_worker import Start, job, until

HEAVY = """
import logging, os, pathlib
from mita import Mita

app = Mita("sqlite:///jobs.db")


@app.task(executor="process")
def compute() -> int:
    logging.getLogger("heavy").warning("computing in %d", os.getpid())
    return os.getpid()


@app.task(executor="process")
def hog() -> None:
    pathlib.Path("hog").write_text(str(os.getpid()))
    sum(range(10**13))  # one call, which keeps the interpreter lock all the time
"""

SCRIPT = """
import asyncio, os, sys
from mita import Mita

app = Mita("sqlite:///jobs.db")


@app.task(executor="process")
def whoami() -> tuple[int, int]:
    return os.getpid(), os.getppid()


async def main():
    async with app:
        worker = app.worker(poll=0.1)
        running = asyncio.create_task(worker.run())
        job = await whoami.enqueue()
        result = asyncio.create_task(job.result(timeout=30))
        await asyncio.wait([running, result], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            result.cancel()
            await running
        pid, parent = await result
        print("ran in a process of its own:", pid != os.getpid() == parent)
        worker.stop()
        await running

"""


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    (project / "heavy.py").write_text(HEAVY)
    started: list[Running] = []

    def run(*arguments: str, **environment: str) -> Running:
        started.append(Running("heavy:app", *arguments, **environment))
        return started[-1]

    yield run
    for running in started:
        running.close()


def put(mita: Run, task: str) -> str:
    said = mita("enqueue", task, "--app", "heavy:app", "--json")
    assert said.code == 0, said
    return str(said.data["id"])


def run(*arguments: str, within: float = 60) -> Said:
    done = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=within,
        stdin=subprocess.DEVNULL,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def test_a_handler_process_ends_with_its_worker_even_if_that_is_killed(
    start: Start, mita: Run, project: Path
) -> None:
    worker = start("--handler-processes", "1")
    put(mita, "hog")
    wait_until(lambda: (project / "hog").exists() and (project / "hog").read_text() != "")
    worker.signal(signal.SIGKILL)
    worker.ended()
    assert gone(int((project / "hog").read_text()))


def test_a_handler_process_logs_in_the_format_of_its_worker(start: Start, mita: Run) -> None:
    worker = start("--log-json", "--handler-processes", "1")
    id = put(mita, "compute")
    line = worker.wait_for_line(r"computing in \d+").string
    until(mita, id, "succeeded")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert json.loads(line)["pid"] == job(mita, id)["result"]


def test_after_the_grace_time_the_handler_process_is_killed(
    start: Start, mita: Run, project: Path
) -> None:
    worker = start("--grace", "0.2s")
    id = put(mita, "hog")
    wait_until(lambda: (project / "hog").exists() and (project / "hog").read_text() != "")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert gone(int((project / "hog").read_text()))
    assert (job(mita, id)["state"], job(mita, id)["interruptions"]) == ("ready", 1)


def test_each_worker_process_has_handler_processes_of_its_own(start: Start, mita: Run) -> None:
    worker = start("--processes", "2", "--handler-processes", "1")
    ids = [put(mita, "compute") for _ in range(4)]
    for id in ids:
        until(mita, id, "succeeded")
    pids = {int(str(job(mita, id)["result"])) for id in ids}
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert all(gone(pid) for pid in pids)


def test_a_worker_can_be_stopped_while_a_handler_process_imports_the_app(
    start: Start, mita: Run, project: Path
) -> None:
    slow = (
        "import pathlib, sys, time\nif 'mita.handler_main' in "
        "str(sys.modules['__main__'].__spec__):\n"
    )
    slow += (
        "    pathlib.Path('importing').write_text(str(__import__('os').getpid()))\n    "
        "time.sleep(600)\n"
    )
    (project / "heavy.py").write_text(slow + HEAVY)
    worker = start("--grace", "600s")
    wait_until(
        lambda: (project / "importing").exists() and (project / "importing").read_text() != ""
    )
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert gone(int((project / "importing").read_text()))


@pytest.mark.parametrize("how", ["script", "module"])
def test_a_script_may_start_a_worker(project: Path, how: str) -> None:
    (project / "program.py").write_text(
        SCRIPT + "if __name__ == '__main__':\n    asyncio.run(main())\n"
    )
    said = run("program.py") if how == "script" else run("-m", "program")
    assert said.out == "ran in a process of its own: True\n", said.err
    assert said.code == 0


def test_a_script_that_starts_a_worker_at_import_is_refused_with_the_remedy(project: Path) -> None:
    (project / "program.py").write_text(SCRIPT + "asyncio.run(main())\n")
    said = run("program.py")
    assert said.code == 1
    assert "start it under `if __name__ == '__main__':`" in said.err


def test_a_session_without_a_file_is_refused(project: Path) -> None:
    said = run("-c", SCRIPT + "asyncio.run(main())\n")
    assert said.code == 1
    assert "an interactive session cannot be imported there" in said.err
    assert "mita worker jobs:app" in said.err


def test_a_script_with_a_name_that_cannot_be_imported_is_refused(project: Path) -> None:
    (project / "my-program.py").write_text(
        SCRIPT + "if __name__ == '__main__':\n    asyncio.run(main())\n"
    )
    said = run("my-program.py")
    assert said.code == 1
    assert "my-program.py cannot be imported there" in said.err


def test_tasks_from_other_modules_are_found(project: Path) -> None:
    (project / "core.py").write_text('from mita import Mita\napp = Mita("sqlite:///jobs.db")\n')
    (project / "more.py").write_text(
        "from core import app\n\n\n@app.task(executor='process')\ndef double(n: int) -> int:\n   "
        " return 2 * n\n"
    )
    (project / "program.py").write_text(
        textwrap.dedent(
            """
            import asyncio
            from core import app
            from more import double

            async def main():
                async with app:
                    worker = app.worker(poll=0.1)
                    running = asyncio.create_task(worker.run())
                    print(await (await double.enqueue(21)).result(timeout=30))
                    worker.stop()
                    await running

            if __name__ == "__main__":
                asyncio.run(main())
            """
        )
    )
    said = run("program.py")
    assert said.out == "42\n", said.err


def test_a_worker_whose_app_cannot_be_imported_anew_says_why(project: Path) -> None:
    (project / "moody.py").write_text(
        HEAVY + "\nif os.environ.get('MOODY') != str(os.getpid()):\n    raise RuntimeError('no')\n"
    )
    program = (
        "import os, runpy, sys; os.environ['MOODY'] = str(os.getpid()); sys.argv[1:] = "
        "['worker', 'moody:app']; "
    )
    said = run("-c", program + "runpy.run_module('mita', run_name='__main__')")
    assert said.code == 2
    assert "a handler process cannot start: cannot import 'moody:app'" in said.err
    assert "RuntimeError: no" in said.err
