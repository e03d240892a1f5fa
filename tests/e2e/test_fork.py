"""An app that was used before a fork: parent and children continue, each with its own
connections, threads and locks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .stores import STORES

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what a process has open is read from /proc"
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STORES)
def test_children_forked_under_load_hold_nothing_of_their_parents_and_none_hangs(
    name: str, tmp_path: Path
) -> None:
    """I1, I12"""
    with STORES[name](tmp_path) as url:
        program = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.e2e.forking", url],
            capture_output=True,
            text=True,
            check=False,
        )
    assert program.returncode == 0, program.stderr
    report = json.loads(program.stdout)
    assert report["problems"] == []
    assert report["inherited"] == []
    assert report["found"] == report["wanted"]
    assert report["left"] == []
