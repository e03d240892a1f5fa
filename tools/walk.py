"""python -m tools.walk [URL …]: count the files and functions of `mita` that one call runs through.

Each walk is one call on a warm app: `enqueue` alone, and `enqueue` with the claim, the run and the
settling that follow in a worker. A profiling hook in every thread records each Python function of
`src/mita` that is entered. A function counts once, however often it runs; `calls` is how often any
ran, and `switches` how often the next call was in another file. SQL and Lua files are not counted.

Without a URL the walks run on a new SQLite file. Any store URL works, for example that of a Redis
server: use an empty one. With `--list` the functions are printed in the order of their first call.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import mita
from mita import Mita

SOURCE = f"{Path(mita.__file__).parent}/"
WORKER_START_S = 1.6  # a new worker is idle then: its heartbeats come after 1 and 3 seconds
WALK_S = 0.5  # until one job has been enqueued, run and settled
TABLE = "{:<44} {:<9} {:>6} {:>10} {:>6} {:>9}"


class Recorder:
    """Records the functions of `src/mita` that any thread enters between `start` and `stop`."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, str]] = []  # file, function
        self._is_on = False

    def hook(self, frame: FrameType, event: str, _: Any) -> None:
        """The function for `sys.setprofile`."""
        code = frame.f_code
        if self._is_on and event == "call" and code.co_filename.startswith(SOURCE):
            self._calls.append((code.co_filename.removeprefix(SOURCE), code.co_qualname))

    def start(self) -> None:
        """Forget earlier calls and begin to record."""
        self._calls.clear()
        self._is_on = True

    def stop(self) -> list[tuple[str, str]]:
        """Stop recording. Returns every call, as (file, function)."""
        self._is_on = False
        return list(self._calls)


async def walk(url: str, recorder: Recorder) -> dict[str, list[tuple[str, str]]]:
    """Run both walks on one store. Returns the calls of each, by its name."""
    app = Mita(url)

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    walks: dict[str, list[tuple[str, str]]] = {}
    async with app:
        await greet.enqueue("warm")
        await asyncio.sleep(WALK_S)
        recorder.start()
        await greet.enqueue("Ada")
        walks["enqueue"] = recorder.stop()
        worker = app.worker(concurrency=4, lease=60, schedule=False, poll=30)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(WORKER_START_S)
        recorder.start()
        await greet.enqueue("Bo")
        await asyncio.sleep(WALK_S)
        walks["enqueue, claim, run, settle"] = recorder.stop()
        worker.stop()
        await running
    return walks


def print_walk(name: str, scheme: str, calls: list[tuple[str, str]], *, listed: bool) -> None:
    """Print one line of the table, and with `listed` the functions below it."""
    files = {file for file, _ in calls}
    # lambdas and comprehensions are part of the function around them
    functions = [call for call in dict.fromkeys(calls) if "<" not in call[1].split(".")[-1]]
    switches = sum(before[0] != after[0] for before, after in pairwise(calls))
    print(TABLE.format(name, scheme, len(files), len(functions), len(calls), switches))
    for file, function in functions if listed else ():
        print(f"    {file}: {function}")


def main() -> None:
    """Print the table of both walks for each URL."""
    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=__doc__)
    parser.add_argument(
        "urls", nargs="*", metavar="URL", help="stores (default: a new SQLite file)"
    )
    parser.add_argument("--list", action="store_true", help="print the functions of each walk")
    options = parser.parse_args()
    recorder = Recorder()
    sys.setprofile(recorder.hook)
    threading.setprofile(recorder.hook)
    print(TABLE.format("walk", "store", "files", "functions", "calls", "switches"))
    with tempfile.TemporaryDirectory() as folder:
        for url in options.urls or [f"sqlite:///{folder}/walk.db"]:
            for name, calls in asyncio.run(walk(url, recorder)).items():
                print_walk(name, urlsplit(url).scheme, calls, listed=options.list)


if __name__ == "__main__":
    main()
