"""A program that enqueues from many short event loops and never closes its app. Started by
`test_short_loops`.

It prints one line of JSON: how many descriptors, threads and stores there are after a few loops,
and after many more."""

import asyncio
import gc
import json
import sys
import threading
from pathlib import Path

from mita import Mita

WARM, MANY = 5, 100


def counts() -> dict[str, int]:
    gc.collect()
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "stores": sum(type(one).__name__.endswith("Store") for one in gc.get_objects()),
    }


def main(url: str) -> None:
    app = Mita(url)

    @app.task
    def note(number: int) -> None:
        raise AssertionError("there is no worker here")

    for number in range(WARM):
        asyncio.run(note.enqueue(number))
    few = counts()
    for number in range(MANY):
        asyncio.run(note.enqueue(number))
    json.dump({"few": few, "many": counts()}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
