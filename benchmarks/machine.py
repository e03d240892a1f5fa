"""Facts about the machine and the libraries, without which no figure means anything."""

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_LIBRARIES = ("mita", "msgspec", "uvloop", "redis", "hiredis", "psycopg", "nats-py")


def facts(folder: Path) -> dict[str, Any]:
    """`folder` is where the stores keep their files."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "system": platform.platform(),
        "file_system": _file_system(folder),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: found for name in _LIBRARIES if (found := _version(name))},
        "commit": _commit(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python_speed_ms": _speed(),
    }


def _cpu() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _file_system(folder: Path) -> str:
    """The file system of a path, by its longest mount point. In memory, a sync to disk is free."""
    mounts = [line.split()[1:3] for line in _lines("/proc/mounts")]
    above = [(len(where), kind) for where, kind in mounts if folder.resolve().is_relative_to(where)]
    return max(above)[1] if above else "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """The commit of this checkout, with a plus sign if there are uncommitted changes."""
    home = Path(__file__).parent

    def git(*arguments: str) -> str:
        try:
            said = subprocess.run(
                ["git", *arguments], cwd=home, capture_output=True, text=True, check=False
            )
        except OSError:
            return ""
        return said.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")


def _speed() -> float:
    """Milliseconds for a fixed piece of plain Python: how fast the machine is right now."""
    began, total = time.perf_counter(), 0
    for i in range(400_000):
        total += i & 7
    return round((time.perf_counter() - began) * 1000, 1)


def in_words(machine: dict[str, Any]) -> list[str]:
    """The facts as lines for the footer of a table."""
    libraries = ", ".join(f"{name} {found}" for name, found in machine["libraries"].items())
    load = " ".join(f"{load:.2f}" for load in machine["load_average"])
    return [
        (
            f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mb']:,} MB; "
            f"{machine['system']}"
        ),
        f"{machine['python']}; {libraries}",
        (
            f"commit {machine['commit']}; files on {machine['file_system']}; load before the run "
            f"{load}"
        ),
    ]
