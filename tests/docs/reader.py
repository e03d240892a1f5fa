"""A reader, who does what a page says: saves files, and types into terminals.

    ```python title="jobs.py"                        save this as jobs.py
    ```python title="add to jobs.py"                 add this to the end of jobs.py
    ```console title="Terminal 1"                    type what follows `$ `; the rest is the output
    ```python title="Terminal 2: python -m asyncio"  type this into Python

A program that stays, such as a worker, runs on in its terminal. A later block of that terminal
shows what it has printed since, or begins with `^C`, which stops it. A worker and a Python that
were started before a file was changed know the old code, until the page says "restart the worker",
or "restart the worker and Python". The comment after a `print(…)` is what it prints."""

import re
from collections import defaultdict
from pathlib import Path

from .database import with_database
from .pages import Block
from .terminals import Ids, Ports, Program, Prompt, compare_prints, stays

_LINE = re.compile(r"^(?:\$ (?P<command>.*)|(?P<stop>\^C).*)$", re.MULTILINE)


class Reader:
    """Follows one page in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.programs: dict[str, Program] = {}  # by terminal
        self._prompts: dict[str, Prompt] = {}
        self._ids = Ids()
        self._ports = Ports()
        self._exported: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def do(self, block: Block) -> None:
        """Do what a block says."""
        if block.file is not None:
            self._save(block.file, block)
        elif block.terminal is None:
            assert block.kind not in ("python", "console"), (
                f"line {block.line}: give the block a title, the file or the terminal"
            )
        elif block.kind == "python":
            self._type_python(block.terminal, block.text)
        else:
            self._type(block.terminal, block.text)

    def _save(self, name: str, block: Block) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = f"{path.read_text()}\n" if block.added else ""
        path.write_text(before + with_database(block.text))
        if re.search(r"restart[^.:]*\bPython\b", block.before, re.IGNORECASE):
            self._close_prompts()
        if re.search(r"restart[^.:]*\bworker\b", block.before, re.IGNORECASE):
            for terminal, program in self.programs.items():
                program.close()
                self.programs[terminal] = self._started(terminal, program.command)

    def _type_python(self, terminal: str, text: str) -> None:
        if terminal not in self._prompts:
            self._prompts[terminal] = Prompt(self._folder)
        printed = self._prompts[terminal].type(text)
        if expected := re.search(r"# (\w+Error: .*)", text):
            assert expected[1] in printed, f"{text}\n{printed}"
            return
        assert "Traceback (most recent call last)" not in printed, f"{text}\n{printed}"
        assert "SyntaxError" not in printed, f"{text}\n{printed}"
        compare_prints(text, printed)

    def _type(self, terminal: str, text: str) -> None:
        text = self._ports.real(text)
        typed = list(_LINE.finditer(text))
        before = text[: typed[0].start()] if typed else text
        if before.strip():
            assert terminal in self.programs, f"nothing runs in {terminal}:\n{before}"
            self.programs[terminal].print_next(before)
        for number, match in enumerate(typed):
            end = typed[number + 1].start() if number + 1 < len(typed) else len(text)
            shown = text[match.end() : end].lstrip("\n")
            if match["stop"]:
                self._stop(terminal, shown)
            else:
                self._run(terminal, match["command"].partition("  #")[0].strip(), shown)

    def _stop(self, terminal: str, shown: str) -> None:
        program = self.programs.pop(terminal)
        try:
            program.interrupt()
            program.print_next(shown)
        finally:
            program.close()

    def _run(self, terminal: str, command: str, shown: str) -> None:
        assert terminal not in self.programs, f"{terminal} is busy: {command}"
        if set_variable := re.fullmatch(r"export (\w+)=(\S+)", command):
            self._exported[terminal][set_variable[1]] = set_variable[2]
            return
        program = self._started(terminal, self._ids.real(command))
        if stays(command):
            self.programs[terminal] = program
            program.print_next(shown)
            return
        try:
            program.finish(shown)
        finally:
            program.close()

    def _started(self, terminal: str, command: str) -> Program:
        return Program(command, self._folder, self._exported[terminal], self._ids)

    def _close_prompts(self) -> None:
        for prompt in self._prompts.values():
            prompt.close()
        self._prompts.clear()

    def leave(self) -> None:
        """Close everything."""
        self._close_prompts()
        for program in self.programs.values():
            program.close()
