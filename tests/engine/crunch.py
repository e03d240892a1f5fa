"""An app whose tasks run in handler processes, which import it by name."""

import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from mita import Abort, Job, Mita, Reschedule, Retry, Unavailable

app = Mita("memory://")
ONE_TRY = Retry(max_retries=0, max_crashes=0)
AT_ONCE = Retry(max_retries=1, waits=(0.0,))
log = logging.getLogger("crunch")


@app.task(executor="process")
def whoami() -> tuple[int, int]:
    return os.getpid(), os.getppid()


@app.task(executor="process")
def add(a: int, b: int) -> int:
    return a + b


@app.task(executor="process", retry=ONE_TRY)
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(executor="process", retry=ONE_TRY, secret=True)
def fail_secretly(text: str) -> None:
    raise ValueError(text)


@app.task(executor="process")
def abort() -> None:
    raise Abort("hopeless")


@app.task(executor="process")
def move(job: Job) -> str:
    if not job.reschedules:
        raise Reschedule(after=0, reason="not yet")
    return "moved"


@app.task(executor="process", resource="partner")
def refuse() -> None:
    raise Unavailable(after=3600, reason="429")


@app.task(executor="process", retry=AT_ONCE)
def remember(job: Job, folder: str) -> int:
    """Count in a file how often the effect happened."""

    def effect() -> int:
        with (Path(folder) / "effects").open("a") as file:
            file.write("x")
        return 7

    value = job.once_sync("effect", effect)
    job.progress_sync(job.attempt, 2, f"attempt {job.attempt}")
    if job.attempt == 1:
        raise RuntimeError("after the effect")
    assert job.checkpoint is not None
    return value


@app.task(executor="process")
def shared(job: Job, folder: str) -> int:
    """Use a value that many jobs share."""

    def effect() -> int:
        with (Path(folder) / "effects").open("a") as file:
            file.write("x")
        time.sleep(0.05)
        return os.getpid()

    return job.once_sync("shared", effect, scope="global")


@app.task(executor="process")
def ask_twice(job: Job, folder: str) -> str:
    """One thread of the handler waits for a shared value that another job computes; another
    thread reports progress at the same time."""
    waiting = threading.Thread(
        target=job.once_sync, args=("slow", lambda: "mine"), kwargs={"scope": "global"}
    )
    waiting.start()
    job.progress_sync(1, 2, "still talking")
    _mark(folder, "talked")
    waiting.join()
    return "both answered"


@app.task(executor="process")
def slow_value(job: Job, folder: str) -> str:
    def effect() -> str:
        _mark(folder, "computing")
        while not (Path(folder) / "talked").exists():
            time.sleep(0.01)
        return "theirs"

    return job.once_sync("slow", effect, scope="global")


def _mark(folder: str, name: str) -> None:
    (Path(folder) / name).write_text(str(os.getpid()))


@app.task(executor="process", timeout=0.5, resource="key", retry=AT_ONCE)
def overrun(job: Job, folder: str) -> None:
    """Never check job.cancelled. Each run writes down its process, and which earlier processes
    are alive."""
    runs = Path(folder) / "runs"
    before = runs.read_text().split() if runs.exists() else []
    alive = [pid for pid in before if Path(f"/proc/{pid}").exists() and pid != str(os.getpid())]
    with runs.open("a") as file:
        file.write(f"{os.getpid()} ")
    if alive:
        _mark(folder, "overlap")
    while True:
        sum(range(1000))


@app.task(executor="process", resource="key")
def forever(folder: str) -> None:
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (Path(folder) / "grandchild").write_text(str(grandchild.pid))
    _mark(folder, "forever")
    while True:
        time.sleep(0.01)


@app.task(executor="process")
def polite(job: Job, folder: str) -> str:
    _mark(folder, "polite")
    while not job.cancelled:
        time.sleep(0.01)
    _mark(folder, "noticed")
    return "noticed"


@app.task(executor="process", retry=ONE_TRY)
def die(how: str) -> None:
    match how:
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)


@app.task(executor="process", retry=Retry(max_crashes=1, waits=(0.0,)))
def die_twice(folder: str) -> None:
    with (Path(folder) / "deaths").open("a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(executor="process")
def wait_for(folder: str, name: str) -> int:
    _mark(folder, "waiting")
    while not (Path(folder) / name).exists():
        time.sleep(0.01)
    return os.getpid()


@app.task(executor="process")
def enqueue_more() -> str:
    return add.enqueue_sync(1, 2).id


@app.task(executor="process")
def fork_inside() -> int:
    """A handler may use multiprocessing itself."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return int(pool.apply(abs, (-5,)))


@app.task(executor="process")
def big(size: int) -> bytes:
    return b"x" * size


@app.task(executor="process")
def trace_here() -> int:
    """Return the current trace of the handler. The first call in a process sets up tracing
    there."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    current = trace.get_current_span().get_span_context().trace_id
    trace.set_tracer_provider(TracerProvider())
    return current


@app.task(executor="process", retry=ONE_TRY)
def leave() -> None:
    sys.exit(4)


@app.task(executor="process")
def say(text: str) -> None:
    log.warning("%s", text)


@app.task(executor="process")
def pay(job: Job, url: str, account: int) -> str:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO payments VALUES (%s)", [account])
        job.complete_in_sync(connection, "paid in a process")
    return "paid in a process"


@app.task
async def asynchronous() -> str:
    return "on the loop"


@app.task(executor="process")
def add_elsewhere(job: Job, a: int, b: int) -> int:
    return job.run_sync(add.call(a, b))
