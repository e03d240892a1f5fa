"""Servers that end with the process that started them, however that one ends: `kill -9` leaves
nothing behind.

One watcher for each process that starts servers holds the reading end of a pipe. It is told of
every server; when the pipe closes it ends those that are still there, and takes their folders away.
No server starts any slower for it."""

import atexit
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

_WATCHER = """
import os, shutil, signal, sys

def born(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[19]
    except OSError:
        return None

def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return file.read().split()
    except OSError:
        return []

tied = [line.rstrip("\\n").split(" ", 2) for line in sys.stdin]
for pid, birth, folder in tied:
    if born(pid) == birth:  # not another that was given the same number since
        for each in (*children(pid), pid):
            try:
                os.kill(int(each), signal.SIGKILL)
            except ProcessLookupError:
                pass
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
"""


@cache
def _watcher() -> "subprocess.Popen[str]":
    """In a session of its own, so that a Ctrl-C does not end it before us."""
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WATCHER],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # closes the pipe, after all who register later have stopped their servers
    atexit.register(watcher.communicate)
    return watcher


def start(argv: list[str], folder: Path | None, **options: Any) -> "subprocess.Popen[bytes]":
    """`subprocess.Popen`, tied to this process. `folder`: what goes away with it, if it is its
    own."""
    process: subprocess.Popen[bytes] = subprocess.Popen(argv, **options)
    stat = Path(f"/proc/{process.pid}/stat")
    if stat.exists():  # without /proc nobody could tell it from another of the same number
        pipe = _watcher().stdin
        assert pipe is not None
        print(
            process.pid,
            stat.read_text().rsplit(")", 1)[1].split()[19],
            folder or "",
            file=pipe,
            flush=True,
        )
    return process
