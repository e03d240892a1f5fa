"""A worker process excludes its startup objects from garbage collection, unless the program has
set the collector up itself."""

import subprocess
import sys

import pytest

ASK = """
import gc
{first}
from mita.cli.gc_tuning import freeze_startup_objects
freeze_startup_objects()
print(gc.get_freeze_count() > 1000, gc.get_threshold()[0], gc.isenabled())
"""


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        ("", "True 5000 True"),
        ("gc.set_threshold(123, 4, 5)", "True 123 True"),
        ("gc.disable()", "True 5000 False"),
    ],
)
def test_startup_objects_are_frozen_and_thresholds_of_the_program_are_kept(
    first: str, answer: str
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", ASK.format(first=first)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == answer
