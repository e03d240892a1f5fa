"""A program that uses its app, from several threads and loops, and forks while it does. Started by
`test_fork`.

It prints one line of JSON: what became of the children, what they held of their parent's, and how
many jobs were enqueued."""

import asyncio
import json
import multiprocessing
import os
import socket
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mita import Mita

CHILDREN = 20
EACH = 4
LIMIT = 60.0  # for a child that works for ten milliseconds
FORK = multiprocessing.get_context("fork")


def connections() -> set[str]:
    """Everything that is open to a server or to the database: connected sockets, sockets with a
    name, files of the store."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
            if "jobs.db" in target or (target.startswith("socket:[") and is_named(int(entry.name))):
                found.add(target)
        except OSError:  # closed meanwhile
            continue
    return found


def is_named(number: int) -> bool:
    """Whether a socket has a name. The pairs by which an event loop wakes itself have none."""
    with socket.socket(fileno=os.dup(number)) as found:
        if found.getsockname():
            return True
        try:
            return bool(found.getpeername())
        except OSError:
            return False


def settled() -> None:
    """Wait until all connections are made. One that is being made is not known yet, and a child
    holds it until it ends."""
    before: set[str] = set()
    unchanged = 0
    while unchanged < 20:
        now = connections()
        unchanged = unchanged + 1 if now == before else 0
        before = now
        threading.Event().wait(0.05)


class Load:
    """Enqueues until it is stopped: through the `_sync` methods, and on an event loop of its
    own."""

    def __init__(self, note: Any) -> None:
        self._note = note
        self._over = threading.Event()
        self.enqueued = 0
        self._one_more = threading.Lock()
        self._threads = [
            threading.Thread(target=work) for work in (self._sync, self._sync, self._in_a_loop)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        while self.enqueued < 50:  # all of them have started
            self._over.wait(0.01)
        settled()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _count(self) -> None:
        with self._one_more:
            self.enqueued += 1

    def _sync(self) -> None:
        while not self._over.is_set():
            self._note.enqueue_sync(-1)
            self._count()

    def _in_a_loop(self) -> None:
        async def work() -> None:
            while not self._over.is_set():
                await self._note.enqueue(-1)
                self._count()

        asyncio.run(work())


def child(app: Mita, note: Any, number: int, report: Connection, parents: set[str]) -> None:
    inherited = sorted(connections() & parents)
    problem = ""
    try:
        for _ in range(EACH):
            note.enqueue_sync(number)
        asyncio.run(note.enqueue(number))
        app.close_sync()
    except Exception:  # noqa: BLE001 - it is shown
        problem = traceback.format_exc()
    report.send((inherited, problem))


def fork(target: Callable[..., None], *args: Any) -> tuple[Any, Connection]:
    mine, theirs = FORK.Pipe()
    process = FORK.Process(target=target, args=(*args[:3], theirs, *args[3:]))
    process.start()
    theirs.close()
    return process, mine


def ended(process: Any, pipe: Connection) -> tuple[list[str], str]:
    """Wait for a child, and kill it if it hangs. Returns what it had inherited, and its error."""
    answer: tuple[list[str], str] = ([], f"it hangs: pid {process.pid}")
    if pipe.poll(LIMIT):
        try:
            answer = pipe.recv()
        except EOFError:
            answer = ([], "it ended without a word")
    process.kill() if answer[1] else process.join()
    process.join()
    return answer


def main(url: str) -> None:
    app = Mita(url)

    @app.task
    def note(number: int) -> None:
        raise AssertionError("there is no worker here")

    note.enqueue_sync(0)
    with Load(note) as load:
        forked = [fork(child, app, note, number, connections()) for number in range(CHILDREN)]
        answers = [ended(process, pipe) for process, pipe in forked]
    jobs = app._run_sync(app.counts())
    # a few may hold a connection that was being made
    shared = Counter(held for inherited, _ in answers for held in inherited)
    app.close_sync()
    json.dump(
        {
            "problems": [problem for _, problem in answers if problem],
            "inherited": [held for held, times in shared.items() if times > CHILDREN // 2],
            "wanted": 1 + load.enqueued + sum(EACH + 1 for _, problem in answers if not problem),
            "found": sum(sum(states.values()) for states in jobs.values()),
            "left": [
                thread.name for thread in threading.enumerate() if thread.name.startswith("mita")
            ],
        },
        sys.stdout,
    )
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
