"""A task is typed like its function: what a type checker says of good and bad calls."""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CASES = HERE / "typed_calls.txt"  # not a .py: half of it is wrong on purpose


def test_wrong_calls_are_wrong_and_right_ones_are_right(tmp_path: Path) -> None:
    copy = tmp_path / "typed.py"
    copy.write_text(CASES.read_text())
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path), str(copy)]
    told = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False).stdout
    found = {int(line) for line in re.findall(r"typed\.py:(\d+): error", told)}
    wrong = {n for n, line in enumerate(CASES.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, told
