"""An app that is used from many short event loops and never closed: nothing stays open."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mita import Mita

from .stores import STORES


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has open is read from /proc")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STORES)
def test_a_hundred_loops_leave_no_socket_no_thread_and_no_store_behind(
    name: str, tmp_path: Path
) -> None:
    """I14"""
    with STORES[name](tmp_path) as url:
        program = subprocess.run(
            [sys.executable, "-m", "tests.e2e.short_loops", url],
            capture_output=True,
            text=True,
            check=False,
        )
    assert program.returncode == 0, program.stderr
    report = json.loads(program.stdout)
    assert all(report["many"][what] <= count + 1 for what, count in report["few"].items()), report


ONE = """
import asyncio, sys
from mita import Mita
app = Mita(sys.argv[1])
note = app.task(name="note")(lambda: None)
asyncio.run(note.enqueue())
"""


@pytest.mark.parametrize("name", STORES)
async def test_a_loop_that_ends_right_after_its_enqueue_has_woken_the_workers(
    name: str, tmp_path: Path
) -> None:
    with STORES[name](tmp_path) as url:
        store = await Mita(url).open_store()
        # the first call always returns at once
        while await store.wait(["default"], 0.1):
            pass
        waiting = asyncio.create_task(store.wait(["default"], 60))
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", ONE, url], check=True)
        assert "default" in await waiting
        await store.close()
