"""A task is typed like its function, and so are the helpers for web frameworks: what type checkers
report for right and wrong uses in a user's files."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

HERE = Path(__file__).parent
CASES = [HERE / "typed_calls.txt", HERE / "typed_web.txt"]  # not .py: half is wrong on purpose
Lines: TypeAlias = set[tuple[str, int]]


def mypy(folder: Path) -> tuple[Lines, str]:
    """Run mypy. Returns the lines with errors, and its whole output."""
    options = [
        "--strict",
        "--no-error-summary",
        "--disable-error-code",
        "unused-coroutine",
        "--cache-dir",
        str(folder),
    ]
    command = [sys.executable, "-m", "mypy", *options, *map(str, folder.glob("*.py"))]
    output = subprocess.run(
        command, cwd=HERE.parents[1], capture_output=True, text=True, check=False
    ).stdout
    found = re.findall(r"(typed_\w+)\.py:(\d+): error", output)
    return {(name, int(line)) for name, line in found}, output


def pyright(folder: Path) -> tuple[Lines, str]:
    """Run pyright in strict mode. (basedpyright is the same checker, packaged so that it needs
    no download.)"""
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
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
        [*command, *map(str, folder.glob("*.py"))],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(run.stdout)["generalDiagnostics"]
    return {
        (Path(each["file"]).stem, each["range"]["start"]["line"] + 1)
        for each in found
        if each["severity"] == "error"
    }, run.stdout


@pytest.mark.parametrize("check", [mypy, pyright])
def test_type_checkers_report_exactly_the_wrong_calls(
    check: Callable[[Path], tuple[Lines, str]], tmp_path: Path
) -> None:
    wrong: Lines = set()
    for cases in CASES:
        lines = cases.read_text().splitlines()
        (tmp_path / f"{cases.stem}.py").write_text(cases.read_text())
        wrong |= {(cases.stem, n) for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found, output = check(tmp_path)
    assert found == wrong, output
