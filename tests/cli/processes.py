"""A `mita worker` that runs during a test, and its log."""

import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.waiting import wait_until

TIMEOUT_S = 60.0


class Running:
    """A worker process. Its log is read all the time; `wait_for_line` waits for a line."""

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

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        """Wait for the next line that matches this pattern, and return it."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"never wait_for_line {pattern!r} in:\n{''.join(self.log)}"
                ) from None
            self.log.append(line)
            if found := re.search(pattern, line):
                return found

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        code = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
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
            self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        # a process that it started may still hold the pipe: closing our end would wait for ever
        if self._reader.is_alive():
            return
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def alive(pid: int) -> bool:
    """Whether this process still runs. A process that has ended but was not waited for does not
    run."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def gone(pid: int) -> bool:
    """Wait until the process has ended."""
    wait_until(lambda: not alive(pid))
    return True
