"""Servers do not outlive a test run that was killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import alive, gone
from tests.waiting import wait_until

STARTS = """
import time
from tests.stores.redis.servers import Server, bundled
server = Server(bundled()).start()
print(server.pid, server.folder, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are told apart by /proc"
)
def test_a_server_ends_with_a_run_that_is_killed() -> None:
    run = subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pid, folder = run.stdout.readline().split()
    assert alive(int(pid))
    run.kill()
    run.wait()
    run.stdout.close()
    assert gone(int(pid))
    wait_until(lambda: not Path(folder).exists())
