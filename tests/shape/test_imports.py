"""Importing any module opens nothing, starts nothing and writes nothing."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import mita

# Modules that are run rather than imported, or that only a test runner can import.
NOT_IMPORTED = ("__main__",)

LOOK = """
import importlib, os, socket, sqlite3, sys, threading

def refuse(*args, **kwargs):
    raise AssertionError(f"an import opened something: {args!r}")

class NoSocket(socket.socket):
    __init__ = refuse

socket.socket, sqlite3.connect = NoSocket, refuse
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # anything else is an extra that is not installed
        if (error.name or "mita").startswith("mita"):
            raise
assert threading.active_count() == 1, threading.enumerate()
assert "asyncio" not in sys.modules or sys.modules["asyncio"]._get_running_loop() is None
print(sorted(os.listdir(".")))
"""


def modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(mita.__path__, "mita.")]
    return [name for name in found if name.rsplit(".", 1)[1] not in NOT_IMPORTED]


def test_importing_every_module_opens_nothing(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", LOOK, "mita", *modules()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip() == "[]"


def test_an_app_needs_no_store_before_its_first_use(tmp_path: Path) -> None:
    code = (
        "import mita, sys; mita.Mita(); print([m for m in sys.modules if "
        "m.startswith('mita.stores.')])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "['mita.stores.registry']"
