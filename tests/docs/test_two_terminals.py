"""Pages with a `jobs.py` are followed as a newcomer follows them: a worker in one terminal, Python
in the other. The comment after a `print(…)` is what it prints; … stands for anything."""

import os
import queue
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from . import pages
from .pages import JOBS_FILE, PAGES, Block, blocks, needs_two_terminals

PATIENCE_S = 60.0
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("MITA_")},
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "NO_COLOR": "1",
    "PYTHONUNBUFFERED": "1",
}


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


class Newcomer:
    """Follows one page in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prompt: Prompt | None = None
        self._worker: list[str] | None = None
        self._running: subprocess.Popen[bytes] | None = None

    def poll_into(self, block: Block) -> None:
        match block.kind:
            case "python" if block.text.startswith(JOBS_FILE):
                self._add_to_file(block.text)
            case "python":
                self._type(block.text)
            case "sh":
                self._start_worker(block.text)
            case _:
                self._run(block.text)

    def _add_to_file(self, text: str) -> None:
        """A worker and a prompt that were started before do not know the new code: both are started
        again."""
        with (self._folder / "jobs.py").open("a") as file:
            file.write(text)
        self._end()
        if self._worker is not None:
            self._running = self._start(self._worker)

    def _type(self, text: str) -> None:
        self._prompt = self._prompt or Prompt(self._folder)
        printed = self._prompt.type(text)
        if expected := re.search(r"# (\w+Error: .*)", text):
            assert expected[1] in printed, f"{text}\n{printed}"
            return
        assert "Traceback (most recent call last)" not in printed, f"{text}\n{printed}"
        assert "SyntaxError" not in printed, f"{text}\n{printed}"
        for said in re.findall(r"^ *print\(.*\) +# (.*)$", text, re.MULTILINE):
            pattern = ".*".join(re.escape(part) for part in said.split("…"))
            assert re.search(pattern, printed), f"{said!r} is not what was printed:\n{printed}"

    def _start_worker(self, text: str) -> None:
        for command in re.findall(r"^mita worker .*", text, re.MULTILINE):
            self._worker = command.partition("#")[0].split()
            self._running = self._start(self._worker)

    def _start(self, argv: list[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            argv,
            cwd=self._folder,
            env=ENVIRONMENT,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def _run(self, text: str) -> None:
        for command in re.findall(r"^\$ (mita .*?)(?:\s+#.*)?$", text, re.MULTILINE):
            run = subprocess.run(
                command,
                shell=True,
                cwd=self._folder,
                env=ENVIRONMENT,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert run.returncode == 0, f"{command}\n{run.stdout}{run.stderr}"

    def _end(self) -> None:
        if self._prompt is not None:
            self._prompt.close()
            self._prompt = None
        if self._running is not None:
            self._running.terminate()
            self._running.wait(PATIENCE_S)
            self._running = None

    leave = _end


@pytest.mark.parametrize(
    "page", [page for page in PAGES if needs_two_terminals(page)], ids=pages.name
)
def test_a_newcomer_can_follow_the_page(page: Path, tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    try:
        for block in blocks(page):
            newcomer.poll_into(block)
    finally:
        newcomer.leave()


def test_a_mistake_on_a_page_is_noticed(tmp_path: Path) -> None:
    """An unknown name at the prompt, another output, and a command that does not exist."""
    newcomer = Newcomer(tmp_path)
    try:
        with pytest.raises(AssertionError, match="NameError"):
            newcomer.poll_into(Block("python", "print(job)\n", 1))
        with pytest.raises(AssertionError, match="'2' is not what was printed"):
            newcomer.poll_into(Block("python", "print(1)  # 2\n", 1))
        with pytest.raises(AssertionError, match="quieues"):
            newcomer.poll_into(Block("console", "$ mita quieues\n", 1))
    finally:
        newcomer.leave()
