"""The expenses of the example are paid, or wait for a person; typed as its page says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "approvals"


def test_an_expense_waits_for_a_person_through_a_restart(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "approvals.py", tmp_path)
    environment = {**os.environ, "MITA_APP": "approvals:app"}

    def mita(*words: str) -> str:
        command = [sys.executable, "-m", "mita", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        ).stdout

    def worker() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mita", "worker", "approvals:app"]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)

    def jobs(state: str) -> list[str]:
        found = json.loads(mita("jobs", "--state", state, "--json"))["jobs"]
        return [job["id"] for job in found]

    def result(id: str) -> object:
        return json.loads(mita("show", id, "--json"))["job"]["result"]

    first = worker()
    try:
        mita("enqueue", "reimburse", "employee=Ada", "euros=40")
        mita("enqueue", "reimburse", "employee=Bo", "euros=900")
        [paid] = wait_until(lambda: jobs("succeeded"))
        [waiting] = wait_until(lambda: jobs("scheduled"))
    finally:
        first.terminate()
        first.wait()
    assert result(paid) == f"paid 40 euros to Ada ({paid})"
    second = worker()
    try:
        mita("signal", waiting, "approval", '{"yes": true, "by": "Cleo"}')
        wait_until(lambda: len(jobs("succeeded")) == 2)
    finally:
        second.terminate()
        second.wait()
    assert result(waiting) == f"paid 900 euros to Bo ({waiting})"
