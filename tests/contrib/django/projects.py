"""Runs manage.py of the project of these tests in a process of its own: a process has one
Django."""

import os
import subprocess
import sys
from pathlib import Path

import django

PROJECT = Path(__file__).parent / "project"
HAS_TASKS = django.VERSION >= (6, 0)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a process of the project, whose files are in this folder."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("MITA_")}
    return {**mine, "SHOP_FOLDER": str(folder), "PYTHONWARNINGS": "", **more}


def manage(folder: Path, *words: str, code: int = 0, more: dict[str, str] | None = None) -> str:
    """Run manage.py until it ends. Returns what it printed on stdout; the exit code must be
    `code`."""
    ran = subprocess.run(
        [sys.executable, str(PROJECT / "manage.py"), *words],
        check=False,
        cwd=folder,
        env=environment(folder, **(more or {})),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert ran.returncode == code, f"{words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout + (ran.stderr if code or words[0] == "test" else "")


def started(
    folder: Path, *words: str, more: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start manage.py. The caller ends it."""
    return subprocess.Popen(
        [sys.executable, str(PROJECT / "manage.py"), *words],
        cwd=folder,
        env=environment(folder, **(more or {})),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
