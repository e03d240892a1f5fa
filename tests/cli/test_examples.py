"""The example of the README does what the README says."""

import ast
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until

from .conftest import Run
from .processes import Running

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.py"


def test_the_quickstart_enqueues_and_a_worker_runs_it(mita: Run, project: Path) -> None:
    shutil.copy(QUICKSTART, project)
    subprocess.run([sys.executable, "quickstart.py"], check=True, timeout=60)
    jobs = mita("jobs", "--app", "quickstart:app", "--json").data["jobs"]
    assert sorted(job["state"] for job in jobs) == ["ready", "ready", "scheduled", "scheduled"]
    for job in jobs:  # so that the test is quick
        mita("reschedule", job["id"], "--after", "0", "--app", "quickstart:app")
    worker = Running("quickstart:app")
    try:
        wait_until(lambda: _succeeded(mita) == len(jobs))
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        said = worker.out
        assert all(
            words in said
            for words in ("hello Ada", "hello Bo", "hello Cy", "charged account 42: 9.95")
        )
    finally:
        worker.close()


def _succeeded(mita: Run) -> int:
    return len(
        mita("jobs", "--state", "succeeded", "--app", "quickstart:app", "--json").data["jobs"]
    )


def test_the_quickstart_is_short() -> None:
    tree = ast.parse(QUICKSTART.read_text())
    lines = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)} - {1}
    lines |= {
        decorator.lineno for node in tree.body for decorator in getattr(node, "decorator_list", [])
    }
    assert len(lines) <= 15
