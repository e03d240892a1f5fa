"""What the scripts share: the last job of a chain or group writes one character to a file, and the
loader waits until all have. Only the standard library is used."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

URL = os.environ.get("CHAINS_URL", "")
FILE = os.environ.get("CHAINS_FILE", "")
LINKS = int(os.environ.get("CHAINS_LINKS", "10"))
TIMEOUT_S = 600.0
PAUSE_S = 0.005


def done(*, right: bool = True) -> None:
    """The last job has run; `right`: with the right arguments."""
    file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"." if right else b"!")
    os.close(file)


def measure(enqueue: Callable[[], object], wanted: int) -> None:
    """Enqueue, wait until `wanted` last jobs have run, and print how long it took."""
    began = time.monotonic()
    enqueue()
    enqueued = time.monotonic() - began
    marks = Path(FILE)
    while (marks.stat().st_size if marks.exists() else 0) < wanted:
        if time.monotonic() - began > TIMEOUT_S:
            break
        time.sleep(PAUSE_S)
    seconds = time.monotonic() - began
    is_right = marks.exists() and marks.read_bytes() == b"." * wanted
    found = {"seconds": seconds, "enqueue": enqueued, "ok": is_right}
    print(json.dumps(found), flush=True)
