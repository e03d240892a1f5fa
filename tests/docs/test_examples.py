"""Every example in README and docs is run, page by page, as a reader would type it. Pages whose
blocks name files and terminals are in test_followed."""

import ast
import asyncio
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

from mita import Mita
from mita.engine.worker import Worker

from . import pages
from .database import with_database
from .pages import PAGES, Block, blocks, is_followed
from .terminals import compare_prints

WITH_EXAMPLES = [page for page in PAGES if any(blocks(page)) and not is_followed(page)]


_OWN_WORKER = re.compile(r"app\.worker\(|lab\(app")

_NAMED_WORKER = re.compile(r"mita worker |\]\(trying\.md\)")
OPENING_CHARACTERS = 1500


def test_a_guide_says_which_worker_its_examples_need() -> None:
    """One that starts no worker names it in its first lines, or leads to the page that says how."""
    silent = [
        pages.name(page)
        for page in WITH_EXAMPLES
        if page.parent.name == "guide"
        and any(".result(" in block.text for block in blocks(page) if block.kind == "python")
        and not _OWN_WORKER.search(page.read_text())
        and not _NAMED_WORKER.search(page.read_text()[:OPENING_CHARACTERS])
    ]
    assert silent == []


class Reader:
    """Types the examples of one page, one after the other, with a worker running beside as the page
    assumes."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._names: dict[str, Any] = {"__name__": "jobs"}
        self._brings_its_own = _OWN_WORKER.search(page.read_text()) is not None
        self._workers: list[tuple[Worker, asyncio.Task[None]]] = []
        self._apps: set[Mita] = set()
        self._watching = asyncio.create_task(self._watch())

    async def type(self, block: Block) -> None:
        if block.kind == "sh":
            return  # the worker that it starts runs already
        if block.kind == "console":
            await asyncio.to_thread(self._console, block.text)
            return
        code = self._compiled(block.text, block.line)
        with redirect_stdout(StringIO()) as printed:
            outcome = eval(code, self._names)
            if asyncio.iscoroutine(outcome):
                await outcome
        compare_prints(block.text, printed.getvalue())

    def _compiled(self, text: str, line: int) -> CodeType:
        padded = "\n" * (line - 1) + with_database(text)
        code: CodeType = compile(
            padded, str(self._page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        return code

    def _console(self, text: str) -> None:
        for command in re.findall(r"^\$ (mita .*?)(?:\s+#.*)?$", text, re.MULTILINE):
            run = subprocess.run(
                [sys.executable, "-m", "mita", *shlex.split(command)[1:]],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert run.returncode == 0, f"{command}\n{run.stdout}{run.stderr}"

    async def _watch(self) -> None:
        """Start a worker for the page's app as soon as there is one."""
        while not self._brings_its_own:
            app = self._names.get("app")
            if app is not None and app not in self._apps:
                self._apps.add(app)
                worker = app.worker(grace=0.2)
                self._workers.append((worker, asyncio.create_task(worker.run())))
            await asyncio.sleep(0.01)

    async def leave(self) -> None:
        self._watching.cancel()
        for worker, running in self._workers:
            worker.stop()
            await running
        if "app" in self._names:
            await self._names["app"].close()


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=pages.name)
async def test_the_examples_of_a_page_run_as_typed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MITA_URL", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)  # what a page sets up is gone after it
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    reader = Reader(page)
    try:
        for block in blocks(page):
            await reader.type(block)
    finally:
        await reader.leave()
