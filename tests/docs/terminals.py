"""The terminals of a reader: one program runs in each, and what it prints is compared with what the
page shows.

What differs from run to run is compared by its shape: dates, durations, the ids of jobs and
processes, the name of the machine and the reader's folder (`laptop` and `/home/ada/tour` in the
pages). … stands for anything; alone in a line it stands for any number of lines."""

import os
import pty
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.waiting import wait_until

PATIENCE_S = 60.0
FOLDER = "/home/ada/tour"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("MITA_")},
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "100",
    "PYTHONUNBUFFERED": "1",
    # a reader does not have these plugins, which take seconds to import
    "PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:faker -p no:valkey -p no:xdist -p no:timeout",
}
# programs that run until they are stopped
_STAYS = re.compile(
    r"^(python manage\.py )?mita .*\b(worker|scheduler|web|relay|top)\b"
    r"(?!.*--(until-empty|help|once))"
    r"|^uvicorn |^(flask|litestar) .*\brun\b"
)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
ID = r"\b[0-9a-f]{8,32}\b"
_SHAPES = [
    (r"…", r"[^\n]*"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"),
    (r"\d\d:\d\d:\d\d(?:\.\d+)?", r"\d\d:\d\d:\d\d(?:\.\d+)?"),
    (r"\d[\d.,]* (?:ms|s|m|h|d)\b(?: \d+ s)?", r"\d[\d.,]* (?:ms|s|m|h|d)\b(?: \d+ s)?"),
    (ID, rf"({ID})"),
    (r"\[\d+\]", r"\[\d+\]"),
    (r"laptop-\d+", r"[\w.-]+-\d+"),
]
_SHAPE = re.compile("|".join(f"({shown})" for shown, _ in _SHAPES))


def _line_pattern(line: str, folder: Path) -> str:
    """A regular expression for a line of output that a page shows."""
    line = " ".join(line.replace(FOLDER, str(folder)).split())
    if line == "…":
        return r"(?:[^\n]*\n)*?"
    pattern, at = "", 0
    for match in _SHAPE.finditer(line):
        pattern += re.escape(line[at : match.start()]) + _SHAPES[(match.lastindex or 1) - 1][1]
        at = match.end()
    return pattern + re.escape(line[at:]) + r"\n"


class Ids:
    """The ids that a page shows, and those that its jobs really have. A later command of the page
    with such an id, or with its beginning, is typed with the real one."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def learn(self, shown: str, match: re.Match[str]) -> None:
        """Take the ids from output that has been compared with what is shown."""
        self._real.update(zip(re.findall(ID, shown), match.groups(), strict=True))

    def real(self, text: str) -> str:
        """The text with the real ids, as far as they are known."""
        return re.sub(ID, lambda found: self._one(found[0]), text)

    def _one(self, shown: str) -> str:
        for known, real in self._real.items():
            if known.startswith(shown):
                return real[: len(shown)]
        return shown


class Ports:
    """The ports that the web servers of a page have, and free ones that they get in their place."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def real(self, text: str) -> str:
        """The text with the free ports."""
        return re.sub(r"\b(8000|5000)\b", lambda found: self._one(found[0]), text)

    def _one(self, shown: str) -> str:
        if shown not in self._real:
            with socket.create_server(("127.0.0.1", 0)) as taken:
                self._real[shown] = str(taken.getsockname()[1])
        return self._real[shown]


def tidy(printed: str) -> str:
    """What was printed, without the spaces that lay out a table, and without empty lines."""
    lines = (" ".join(line.split()) for line in printed.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


class Program:
    """A command that was typed, with a terminal of its own."""

    def __init__(self, command: str, folder: Path, exported: Mapping[str, str], ids: Ids) -> None:
        self.command = command
        self._ids = ids
        self._folder = folder
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            f"exec {command}" if stays(command) else command,
            shell=True,
            executable="/bin/bash",
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={**ENVIRONMENT, **exported},
            start_new_session=True,
        )
        os.close(slave)
        self._parts: list[bytes] = []
        self._compared = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._master, 65536)
            except OSError:  # the last process that had the terminal has ended
                return
            if not part:
                return
            self._parts.append(part)

    @property
    def printed(self) -> str:
        text = b"".join(self._parts).decode(errors="replace").replace("\r", "")
        return _COLOUR.sub("", text)

    def finish(self, shown: str) -> None:
        """Wait for its end. It must succeed, and print what is shown, if anything is shown."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        if "Error" not in shown:
            assert code == 0, f"$ {self.command}\nended with {code}:\n{self.printed}"
        if shown.strip():
            match = self._pattern(shown).fullmatch(tidy(self.printed))
            assert match, self._complaint(shown)
            self._ids.learn(shown, match)

    def print_next(self, shown: str) -> None:
        """Wait until a program that stays has printed what is shown, after what was compared
        before."""
        pattern = self._pattern(shown)

        def found() -> bool:
            whole, _, _ = self.printed.rpartition("\n")  # without a line that is not complete
            match = pattern.search(tidy(whole), self._compared)
            if match:
                self._compared = match.end()
                self._ids.learn(shown, match)
            return match is not None

        def is_over() -> bool:
            return self.process.poll() is not None

        try:
            wait_until(lambda: is_over() or found(), within=PATIENCE_S)
            if is_over():
                self._reader.join(PATIENCE_S)
                assert found()
        except AssertionError:
            raise AssertionError(self._complaint(shown)) from None

    def _pattern(self, shown: str) -> re.Pattern[str]:
        lines = (line for line in shown.splitlines() if line.strip())
        return re.compile("".join(_line_pattern(line, self._folder) for line in lines))

    def _complaint(self, shown: str) -> str:
        return f"$ {self.command}\nprinted:\n{self.printed}\nbut the page shows:\n{shown}"

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self._reader.join(PATIENCE_S)
        os.close(self._master)


def compare_prints(text: str, printed: str) -> None:
    """The comment after a `print(…)` at the prompt is what it printed; … stands for anything."""
    for said in re.findall(r"^ *print\(.*\) +# (.*)$", text, re.MULTILINE):
        pattern = ".*".join(re.escape(part) for part in said.split("…"))
        assert re.search(pattern, printed), f"{said!r} is not what was printed:\n{printed}"


def stays(command: str) -> bool:
    """Whether a command runs until it is stopped."""
    return _STAYS.search(command) is not None


class Prompt:
    """`python -m asyncio`, to which the lines of a block are typed."""

    def __init__(self, folder: Path) -> None:
        self._python = subprocess.Popen(
            [sys.executable, "-m", "asyncio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=ENVIRONMENT,
        )
        self._printed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._typed = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.type("")  # what Python says of itself is not compared

    def _read(self) -> None:
        assert self._python.stdout is not None
        for line in self._python.stdout:
            self._printed.put(line)
        self._printed.put("")

    def type(self, text: str) -> str:
        """Returns what was printed. The empty line at the end closes a loop or a `try`."""
        assert self._python.stdin is not None
        self._typed += 1
        end = f"block {self._typed} is over"
        self._python.stdin.write(f"{text}\n\nprint({end!r})\n")
        self._python.stdin.flush()
        printed = ""
        while True:
            line = self._printed.get(timeout=PATIENCE_S)
            assert line, f"Python ended:\n{printed}"
            if line.endswith(f"{end}\n"):
                return printed
            printed += line

    def close(self) -> None:
        self._python.kill()
        self._python.wait()
        self._reader.join()
        for stream in (self._python.stdin, self._python.stdout):
            assert stream is not None
            stream.close()
