"""A task is typed like its function: what type checkers report for right and wrong calls in a
user's file."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = HERE / "typed_calls.txt"  # not a .py: half of it is wrong on purpose


def mypy(file: Path) -> tuple[set[int], str]:
    """Run mypy. Returns the lines with errors, and its whole output."""
    options = [
        "--strict",
        "--no-error-summary",
        "--disable-error-code",
        "unused-coroutine",
        "--cache-dir",
        str(file.parent),
    ]
    command = [sys.executable, "-m", "mypy", *options, str(file)]
    output = subprocess.run(
        command, cwd=HERE.parents[1], capture_output=True, text=True, check=False
    ).stdout
    return {int(line) for line in re.findall(r"typed\.py:(\d+): error", output)}, output


def pyright(file: Path) -> tuple[set[int], str]:
    """Run pyright in strict mode. (basedpyright is the same checker, packaged so that it needs
    no download.)"""
    (file.parent / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "--level",
        "error",
        "--pythonpath",
        sys.executable,
    ]
    run = subprocess.run(
        [*command, str(file)], cwd=file.parent, capture_output=True, text=True, check=False
    )
    found = json.loads(run.stdout)["generalDiagnostics"]
    return {
        each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"
    }, run.stdout


@pytest.mark.parametrize("check", [mypy, pyright])
def test_type_checkers_report_exactly_the_wrong_calls(
    check: Callable[[Path], tuple[set[int], str]], tmp_path: Path
) -> None:
    copy = tmp_path / "typed.py"
    copy.write_text(CASES.read_text())
    found, output = check(copy)
    wrong = {
        n for n, line in enumerate(CASES.read_text().splitlines(), 1) if line.endswith("# wrong")
    }
    assert found == wrong, output
