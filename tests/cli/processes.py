"""A `mita worker` that runs beside the test, and what it writes."""

import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.waiting import wait_until

PATIENCE = 60.0


class Running:
    """Reads its log as it comes; `heard` waits for a line."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mita", "worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.log: list[str] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)

    def heard(self, pattern: str) -> re.Match[str]:
        """The next line that has this in it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"never heard {pattern!r} in:\n{''.join(self.log)}") from None
            self.log.append(line)
            if found := re.search(pattern, line):
                return found

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        while not self._lines.empty():
            self.log.append(self._lines.get())
        return code

    @property
    def out(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        # a process that it left behind holds the pipe: to close our end would wait for ever
        if self._reader.is_alive():
            return
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def alive(pid: int) -> bool:
    """Whether this process still runs; one that ended and was not collected does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def gone(pid: int) -> bool:
    """Waits for it."""
    wait_until(lambda: not alive(pid))
    return True
