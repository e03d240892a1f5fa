"""The benchmarks of flows work, and their tables can be read."""

import subprocess
import sys

from benchmarks.chains import SCRIPTS, SYSTEMS


def test_a_small_group_is_measured() -> None:
    command = [sys.executable, "-m", "benchmarks.flow_sizes", "--stores", "sqlite"]
    command += ["--members", "20", "--phases", "enqueue,cancel,retry,run,get"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    phases = [line.split(" | ")[2] for line in printed.splitlines()[2:]]
    assert phases == ["enqueue", "cancel", "retry", "run", "get"]


def test_every_system_has_its_script() -> None:
    assert all((SCRIPTS / system.script).exists() for system in SYSTEMS.values())
    assert all(
        bool(system.requirements) is (not name.startswith("mita-"))
        for name, system in SYSTEMS.items()
    )
