"""`mita worker --reload`: restarts the worker when a source file of the project changes.

The worker is a process of its own. It is asked to stop, so its running jobs end or go back to the
queue, and the next one starts when it has ended: there are never two at once."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mita.errors import UsageError
from mita.rules.words import counted

from .exits import Exit
from .signals import on_stop
from .supervisor import HURRY, STOP, Child, how_it_ended

log = logging.getLogger("mita.cli")

_NAMED_FILES = 3  # in the log line of a change


class Reloader:
    """Keeps one worker running. `stop_timeout` is how long it may take to stop before it is
    killed."""

    def __init__(self, arguments: Sequence[str], folders: list[Path], stop_timeout: float) -> None:
        self._child = Child(1, arguments)
        self._folders, self._stop_timeout = folders, stop_timeout
        self._stopping, self._changed = asyncio.Event(), asyncio.Event()
        self._requests = 0

    async def run(self) -> Exit:
        """Run the worker again and again until a request to stop. Returns the exit code."""
        on_stop(self.request_stop)
        watching = asyncio.create_task(self._watch(changes(self._folders, self._stopping)))
        await asyncio.sleep(0)  # now it watches: no change after the start of the worker is missed
        log.info("watching %s", ", ".join(map(str, self._folders)))
        try:
            while not self._stopping.is_set():
                self._changed.clear()
                if await self._run_once() != Exit.AGAIN:
                    await self._first_of(self._changed.wait(), self._stopping.wait())
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        return Exit.OK

    def request_stop(self) -> None:
        """Handle a request to stop: the first means stop, the second hurry, the third kill."""
        self._requests += 1
        self._stopping.set()
        match self._requests:
            case 1:
                self._child.send(STOP)
            case 2:
                self._child.send(HURRY)
            case _:
                self._child.kill()

    async def _run_once(self) -> int:
        """Run the worker until it ends, or until it has stopped because a file has changed."""
        running = asyncio.create_task(self._child.run())
        changed = asyncio.create_task(self._changed.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([running, changed, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            if not stopping.done():
                self._child.send(STOP)
            await asyncio.wait([running], timeout=self._stop_timeout)
            if not running.done():
                log.warning("the worker did not stop in time and is killed")
                self._child.kill()
        code = await running
        is_asked = changed.done() or stopping.done()
        for waiting in (changed, stopping):
            waiting.cancel()
        if not is_asked and code not in (Exit.OK, Exit.AGAIN):
            log.warning(
                "the worker %s; the next change of a file starts it again", how_it_ended(code)
            )
        elif not is_asked and code == Exit.OK:
            log.info("the worker has ended; the next change of a file starts it again")
        return code

    async def _watch(self, found: AsyncIterator[set[Path]]) -> None:
        async for files in found:
            names = sorted(str(_relative(file)) for file in files)
            more = len(names) - _NAMED_FILES
            log.info(
                "%s%s changed: the worker is restarted",
                ", ".join(names[:_NAMED_FILES]),
                f" and {counted(more, 'other file')}" if more > 0 else "",
            )
            self._changed.set()

    @staticmethod
    async def _first_of(*waits: Any) -> None:
        tasks = [asyncio.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


def _relative(file: Path) -> Path:
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def changes(folders: list[Path], stopping: asyncio.Event) -> AsyncIterator[set[Path]]:
    """The source files that change, as sets, until `stopping` is set. Raises `UsageError` without
    the extra."""
    try:
        from watchfiles import PythonFilter, awatch
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--reload needs a package that is not installed ({error}): pip install 'mita[reload]'"
        ) from error

    async def found() -> AsyncIterator[set[Path]]:
        which = PythonFilter(extra_extensions=(".toml",))
        async for changed in awatch(*folders, watch_filter=which, stop_event=stopping):
            yield {Path(path) for _, path in changed}

    return found()


def source_folders(target: str) -> list[Path]:
    """The folders with the source files of an app: the current one, and that of its module if it is
    elsewhere. Nothing is imported."""
    here = Path.cwd()
    if str(here) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(here))
    try:
        spec = find_spec(target.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):  # the worker will say what is wrong
        return [here]
    if spec is None or spec.origin is None:
        return [here]
    folder = Path(spec.origin).parent
    return [here] if folder.is_relative_to(here) else [here, folder]
